// SPDX-License-Identifier: Apache-2.0
// Percentiles, their ratio and its uncertainty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace colocate {

/// The smallest sample that at least the share `p` of all samples does not exceed (nearest rank);
/// NaN without samples. `p` in (0, 1].
double percentile(std::span<const double> samples, double p);

double mean(std::span<const double> samples);
double median(std::span<const double> samples);

/// A ratio of two percentiles with a bootstrap 95 % interval.
struct ratio {
  double value;
  double low;
  double high;
};

/// `percentile(samples, p) / percentile(base, p)`; the interval comes from resampling both sides
/// independently. All NaN where a side has no samples.
ratio percentile_ratio(std::span<const double> samples, std::span<const double> base, double p,
                       std::uint64_t seed = 1);

}  // namespace colocate
