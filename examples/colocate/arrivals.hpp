// SPDX-License-Identifier: Apache-2.0
// When requests arrive and which input each one carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "options.hpp"
#include "trace.hpp"

namespace colocate {

struct arrival {
  double at = 0.0;        ///< seconds since the window began, in [0, window)
  std::size_t input = 0;  ///< index of the input it carries
};

/// The arrivals of one window: the same in every mode.
struct schedule {
  std::vector<arrival> arrivals;  ///< by time
  double window = 0.0;            ///< seconds
  double load = 0.0;              ///< sum of the service times alone / window
  std::size_t rows = 0;           ///< arrivals taken from the trace; 0 without one
  std::size_t wraps = 0;          ///< how often the trace began anew
};

/// What an arrival process needs to know of the service.
struct service_costs {
  std::vector<std::uint32_t> lengths;  ///< of the inputs, rising
  std::vector<double> seconds;         ///< service time alone of each input
};

/// The first K arrivals of the trace, beginning anew where it ends, where K is the least number
/// whose service times alone fill `load` of the window; time is rescaled so that arrival K + 1
/// would be the first one after the window. Without a column of tokens, lengths are drawn.
schedule from_trace(const trace& t, const service_costs& costs, double load, double window,
                    std::uint64_t seed);

/// As many arrivals as fill `load` of the window, with independent gaps: exponential (Poisson) or
/// gamma-distributed (bursty: a coefficient of variation of 2); lengths are drawn.
schedule from_process(arrival_process process, const service_costs& costs, double load,
                      double window, std::uint64_t seed);

/// When a service that is alone would take each arrival up: at once, or after those before it.
/// Seconds since the window began, never falling.
std::vector<double> starts_alone(std::span<const arrival> arrivals,
                                 std::span<const double> input_seconds);

}  // namespace colocate
