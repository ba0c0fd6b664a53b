// SPDX-License-Identifier: Apache-2.0
// When requests arrive, whether or not earlier ones are answered, and what the service would make
// of that with the device to itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace bench::scheduler {

/// Arrivals of a Poisson process, in microseconds from the start, rising. The same seed gives the
/// same arrivals on every machine; the gaps are scaled so that the last one ends at `count` times
/// `mean_gap_us`, since the load of a cell is to be what its name says.
inline std::vector<double> poisson_arrivals(std::size_t count, double mean_gap_us,
                                            std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> at;
  at.reserve(count);
  double now = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // 53 bits, never 0: distributions of the standard library differ between libraries.
    const double u = (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53;
    now += -std::log(u);
    at.push_back(now);
  }
  const double scale = count == 0 ? 1 : static_cast<double>(count) * mean_gap_us / now;
  for (double& t : at) t *= scale;
  return at;
}

/// When a service that takes `service_us` each time, and is alone, takes every arrival up.
inline std::vector<double> starts_alone(const std::vector<double>& arrivals, double service_us) {
  std::vector<double> starts;
  starts.reserve(arrivals.size());
  double free = 0;
  for (const double at : arrivals) {
    starts.push_back(std::max(at, free));
    free = starts.back() + service_us;
  }
  return starts;
}

/// Mean length of the times between requests in which that service has nothing to do, 0 without
/// any.
inline double mean_idle_gap(const std::vector<double>& arrivals, double service_us) {
  double sum = 0;
  std::size_t gaps = 0;
  double free = 0;
  for (const double start : starts_alone(arrivals, service_us)) {
    if (start > free) {
      sum += start - free;
      ++gaps;
    }
    free = start + service_us;
  }
  return gaps == 0 ? 0 : sum / static_cast<double>(gaps);
}

/// A cell that falls so far behind, against alone, is never going to catch up.
inline constexpr std::size_t most_behind = 200;

}  // namespace bench::scheduler
