// SPDX-License-Identifier: Apache-2.0
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "random.hpp"

namespace colocate {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t resamplings = 1000;
constexpr double low_end = 0.025;
constexpr double high_end = 0.975;

std::size_t rank(std::size_t count, double p) {
  const double r = std::ceil(p * static_cast<double>(count) - 1e-9);
  return std::clamp<std::size_t>(static_cast<std::size_t>(std::max(r, 1.0)), 1, count) - 1;
}

double percentile_in_place(std::vector<double>& samples, double p) {
  const auto at = samples.begin() + static_cast<std::ptrdiff_t>(rank(samples.size(), p));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

double resampled_percentile(std::span<const double> samples, std::vector<double>& scratch, double p,
                            generator& random) {
  scratch.resize(samples.size());
  for (double& s : scratch) s = samples[random.below(samples.size())];
  return percentile_in_place(scratch, p);
}

}  // namespace

double percentile(std::span<const double> samples, double p) {
  if (samples.empty()) return nan;
  std::vector<double> scratch(samples.begin(), samples.end());
  return percentile_in_place(scratch, p);
}

double mean(std::span<const double> samples) {
  if (samples.empty()) return nan;
  return std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
}

double median(std::span<const double> samples) { return percentile(samples, 0.5); }

ratio percentile_ratio(std::span<const double> samples, std::span<const double> base, double p,
                       std::uint64_t seed) {
  if (samples.empty() || base.empty()) return {nan, nan, nan};
  generator random(seed);
  std::vector<double> scratch;
  std::vector<double> ratios;
  ratios.reserve(resamplings);
  for (std::size_t i = 0; i < resamplings; ++i) {
    const double above = resampled_percentile(samples, scratch, p, random);
    ratios.push_back(above / resampled_percentile(base, scratch, p, random));
  }
  return {percentile(samples, p) / percentile(base, p), percentile(ratios, low_end),
          percentile(ratios, high_end)};
}

}  // namespace colocate
