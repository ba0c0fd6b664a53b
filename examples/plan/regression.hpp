// SPDX-License-Identifier: Apache-2.0
// Lines through columns of numbers.
#pragma once

#include <cstddef>
#include <vector>

#include "quality.hpp"
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

/// How a line does on rows of a table.
quality try_on(const line& l, const table& features, const std::vector<double>& target);

}  // namespace plan
