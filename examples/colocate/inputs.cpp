// SPDX-License-Identifier: Apache-2.0
#include "inputs.hpp"

#include <algorithm>
#include <cmath>

namespace colocate {
namespace {

constexpr std::uint64_t tokens_per_position = 16;
// Of the 8,819 rows of the trace: the median, and the standard deviation of the logarithm.
constexpr double median_tokens = 1469.0;
constexpr double log_spread = 1.36;

}  // namespace

std::uint32_t sequence_length(std::uint64_t context_tokens) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(context_tokens / tokens_per_position,
                                                              shortest_sequence, longest_sequence));
}

std::vector<std::uint32_t> input_lengths() {
  std::vector<std::uint32_t> lengths{shortest_sequence};
  while (lengths.back() < longest_sequence) {
    // What is left of the range, in as many equal ratios as there are inputs left, but never less
    // than one position.
    const double left = static_cast<double>(most_inputs - lengths.size());
    const double last = lengths.back();
    const double next = last * std::pow(longest_sequence / last, 1.0 / left);
    lengths.push_back(std::max(lengths.back() + 1, static_cast<std::uint32_t>(std::lround(next))));
  }
  return lengths;
}

std::size_t nearest_input(const std::vector<std::uint32_t>& lengths, std::uint32_t length) {
  const auto above = std::lower_bound(lengths.begin(), lengths.end(), length);
  if (above == lengths.end()) return lengths.size() - 1;
  if (above == lengths.begin()) return 0;
  const auto below = above - 1;
  // The geometric mean is the middle by ratio; squared, it needs no root.
  const std::uint64_t middle = static_cast<std::uint64_t>(*below) * *above;
  const auto nearest = static_cast<std::uint64_t>(length) * length < middle ? below : above;
  return static_cast<std::size_t>(nearest - lengths.begin());
}

std::uint64_t draw_context_tokens(generator& random) {
  return static_cast<std::uint64_t>(
      std::lround(median_tokens * std::exp(log_spread * random.normal())));
}

}  // namespace colocate
