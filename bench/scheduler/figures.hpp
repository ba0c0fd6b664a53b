// SPDX-License-Identifier: Apache-2.0
// From what was seen in a cell, and alone, to the counters of a row.
#pragma once

#include "measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace bench::scheduler {

/// Requests served, and the best-effort work done meanwhile.
struct observation {
  std::vector<double> service_us;   ///< taken up to answered
  std::vector<double> response_us;  ///< arrived to answered
  double window_us = 0;             ///< from the start to the last answer
  double units_per_us = 0;          ///< best-effort work; 0 where there was none
  bool unstable = false;
};

inline double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += x;
  return v.empty() ? 0 : sum / static_cast<double>(v.size());
}

/// The lower and the upper end of a 95 % interval.
struct interval {
  double low = 0;
  double high = 0;
};

/// Bootstrap interval (percentile method, Efron 1979) of P99 above / P99 below, both sides
/// resampled independently. The 99th percentile of a resample needs no resample: the rank in the
/// sorted samples that it falls on is drawn instead, from the beta distribution of that order
/// statistic.
inline interval p99_ratio_interval(std::vector<double> above, std::vector<double> below,
                                   std::uint64_t seed = 1) {
  if (above.empty() || below.empty()) return {};
  constexpr int resamples = 2000;
  std::mt19937_64 random(seed);
  auto draw = [&](const std::vector<double>& sorted) {
    const auto n = static_cast<double>(sorted.size());
    const double k = std::max(1.0, std::ceil(0.99 * n));
    // The k-th smallest of n uniform numbers is Beta(k, n + 1 - k), a ratio of gammas.
    const double a = std::gamma_distribution<double>(k)(random);
    const double b = std::gamma_distribution<double>(n + 1 - k)(random);
    const auto at = static_cast<std::size_t>(a / (a + b) * n);
    return sorted[std::min(at, sorted.size() - 1)];
  };
  std::sort(above.begin(), above.end());
  std::sort(below.begin(), below.end());
  std::vector<double> ratios;
  ratios.reserve(resamples);
  for (int i = 0; i < resamples; ++i) {
    const double up = draw(above);
    const double down = draw(below);
    if (down > 0) ratios.push_back(up / down);
  }
  return {quantile(ratios, 0.025), quantile(std::move(ratios), 0.975)};
}

using counters = std::map<std::string, double>;

/// Both halves of what was measured alone, before and after.
inline observation pooled(const observation& before, const observation& after) {
  observation all = before;
  all.service_us.insert(all.service_us.end(), after.service_us.begin(), after.service_us.end());
  all.response_us.insert(all.response_us.end(), after.response_us.begin(), after.response_us.end());
  all.window_us += after.window_us;
  all.unstable = before.unstable || after.unstable;
  return all;
}

/// Latencies against alone.
inline counters latency_counters(const observation& seen, const observation& alone) {
  counters c;
  const double p99 = quantile(seen.service_us, 0.99);
  const double alone_p99 = quantile(alone.service_us, 0.99);
  const double alone_response = quantile(alone.response_us, 0.99);
  const interval i = p99_ratio_interval(seen.service_us, alone.service_us);
  c["requests"] = static_cast<double>(seen.service_us.size());
  c["alone_requests"] = static_cast<double>(alone.service_us.size());
  c["p50_us"] = quantile(seen.service_us, 0.5);
  c["p99_us"] = p99;
  c["alone_p50_us"] = quantile(alone.service_us, 0.5);
  c["alone_p99_us"] = alone_p99;
  c["p99_ratio"] = alone_p99 > 0 ? p99 / alone_p99 : 0;
  c["p99_ratio_low"] = i.low;
  c["p99_ratio_high"] = i.high;
  c["added_p99_us"] = p99 - alone_p99;
  c["response_p99_ratio"] =
      alone_response > 0 ? quantile(seen.response_us, 0.99) / alone_response : 0;
  c["unstable"] = seen.unstable ? 1 : 0;
  return c;
}

/// What became of the time in which the service, alone, would have had nothing to do.
/// `units_alone`: best-effort work per microsecond alone.
inline void add_progress(counters& c, const observation& seen, const observation& alone,
                         double units_alone) {
  const auto requests = static_cast<double>(seen.service_us.size());
  const double idle_us = seen.window_us - requests * mean_of(alone.service_us);
  c["progress"] = units_alone > 0 ? seen.units_per_us / units_alone : 0;
  // A cell that never catches up has no idle time to speak of.
  if (seen.unstable || idle_us <= 0 || requests == 0) return;
  const double per_idle = c["progress"] * seen.window_us / idle_us;
  c["progress_per_idle"] = per_idle;
  c["lost_us_per_request"] = (1 - per_idle) * idle_us / requests;
}

}  // namespace bench::scheduler
