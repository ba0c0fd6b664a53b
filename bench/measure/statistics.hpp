// SPDX-License-Identifier: Apache-2.0
// Medians and quantiles of what was measured.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace bench {

/// The value that a share `q` of the samples does not exceed, by nearest rank; 0 of none.
inline double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  const double rank = std::ceil(q * static_cast<double>(samples.size()));
  const std::size_t at =
      std::min(samples.size(), static_cast<std::size_t>(std::max(1.0, rank))) - 1;
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(at),
                   samples.end());
  return samples[at];
}

/// The middle value, or the mean of the two in the middle; 0 of none.
inline double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

}  // namespace bench
