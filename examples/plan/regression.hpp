// SPDX-License-Identifier: Apache-2.0
// Lines through columns of numbers, and how well they do.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "table.hpp"

namespace plan {

/// y = intercept + sum of coefficient * (x - mean) / deviation.
struct line {
  double intercept = 0;
  std::vector<double> coefficients;
  std::vector<double> means;
  std::vector<double> deviations;  ///< of a sample; 0: the column is constant, its coefficient 0

  [[nodiscard]] double at(const table& features, std::size_t row) const;
};

/// Minimizes the squared error plus `penalty` times the squared coefficients; the intercept is free
/// of it. Where columns depend on each other, the shortest of all solutions. Throws `input_error`
/// for less than two rows.
line fit(const table& features, const std::vector<double>& target, double penalty);

/// None where it is not defined.
struct quality {
  std::size_t rows = 0;
  std::optional<double> r2;  ///< not where all values are the same
  double mae = 0;
  std::optional<double> mape;  ///< a fraction; not where all values are 0
  double p95 = 0;              ///< of absolute errors, interpolated as NumPy and R do by default
};
quality try_on(const line& l, const table& features, const std::vector<double>& target);

}  // namespace plan
