// SPDX-License-Identifier: Apache-2.0
// How far predictions are from what was seen.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace plan {

/// None where it is not defined.
struct quality {
  std::size_t rows = 0;
  std::optional<double> r2;    ///< not where all values are the same
  std::optional<double> mae;   ///< not of no rows
  std::optional<double> mape;  ///< a fraction; not where all values are 0
  std::optional<double> p95;   ///< of absolute errors, interpolated as NumPy and R do by default
};

/// One prediction for each value seen.
quality quality_of(const std::vector<double>& predicted, const std::vector<double>& seen);

double mean_of(const std::vector<double>& v);

/// Of a sample; 0 for one value all along, whatever rounding makes of its mean.
double deviation_of(const std::vector<double>& v);

}  // namespace plan
