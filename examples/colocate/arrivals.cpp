// SPDX-License-Identifier: Apache-2.0
#include "arrivals.hpp"

#include <algorithm>

#include "inputs.hpp"

namespace colocate {
namespace {

// The coefficient of variation of the gaps is 1 / sqrt(shape).
constexpr double bursty_shape = 0.25;

// Lengths come from a sequence of their own: another arrival process meets the same requests.
constexpr std::uint64_t stream_of_lengths = 0x6c656e677468ULL;

// Gives inputs to arrivals until their service times alone fill the load.
template <class Tokens>
void fill(schedule& out, const service_costs& costs, double load, Tokens next_tokens) {
  const double enough = load * out.window;
  double busy = 0.0;
  while (busy < enough) {
    const std::size_t input =
        nearest_input(costs.lengths, sequence_length(next_tokens(out.arrivals.size())));
    busy += costs.seconds[input];
    out.arrivals.push_back({0.0, input});
  }
  out.load = busy / out.window;
}

}  // namespace

schedule from_trace(const trace& t, const service_costs& costs, double load, double window,
                    std::uint64_t seed) {
  const std::size_t rows = t.ticks.size();
  generator lengths(seed ^ stream_of_lengths);
  schedule out;
  out.window = window;
  fill(out, costs, load, [&](std::size_t k) -> std::uint64_t {
    return t.tokens.empty() ? draw_context_tokens(lengths) : t.tokens[k % rows];
  });
  out.rows = out.arrivals.size();
  out.wraps = (out.rows - 1) / rows;

  // Behind the last row the trace begins anew after its mean gap.
  const double last = static_cast<double>(t.ticks.back());
  const double period = last + last / static_cast<double>(rows - 1);
  const auto time = [&](std::size_t k) {
    return static_cast<double>(k / rows) * period + static_cast<double>(t.ticks[k % rows]);
  };
  // Rows of one timestamp in front of the window's end: the first later one ends it.
  std::size_t end = out.rows;
  while (time(end) <= time(out.rows - 1)) ++end;
  const double scale = window / time(end);
  for (std::size_t k = 0; k < out.rows; ++k) out.arrivals[k].at = time(k) * scale;
  return out;
}

schedule from_process(arrival_process process, const service_costs& costs, double load,
                      double window, std::uint64_t seed) {
  generator lengths(seed ^ stream_of_lengths);
  schedule out;
  out.window = window;
  fill(out, costs, load, [&](std::size_t) { return draw_context_tokens(lengths); });

  // Given their number, the arrivals of a Poisson process lie as one gap more than there are
  // arrivals, scaled to the window, makes them lie.
  generator gaps(seed);
  double at = 0.0;
  for (arrival& a : out.arrivals) {
    at += process == arrival_process::gamma ? gaps.gamma(bursty_shape) : gaps.exponential();
    a.at = at;
  }
  at += process == arrival_process::gamma ? gaps.gamma(bursty_shape) : gaps.exponential();
  for (arrival& a : out.arrivals) a.at *= window / at;
  return out;
}

std::vector<double> starts_alone(std::span<const arrival> arrivals,
                                 std::span<const double> input_seconds) {
  std::vector<double> out;
  out.reserve(arrivals.size());
  double free = 0.0;
  for (const arrival& a : arrivals) {
    out.push_back(std::max(free, a.at));
    free = out.back() + input_seconds[a.input];
  }
  return out;
}

}  // namespace colocate
