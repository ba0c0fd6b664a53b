// SPDX-License-Identifier: Apache-2.0
#include "regression.hpp"

#include "../colocate/input_error.hpp"
#include "least_squares.hpp"

namespace plan {
namespace {

double standardised(double x, double mean, double deviation) {
  return deviation > 0 ? (x - mean) / deviation : 0;
}

}  // namespace

double line::at(const table& features, std::size_t row) const {
  double y = intercept;
  for (std::size_t c = 0; c < coefficients.size(); ++c)
    y += coefficients[c] * standardised(features.columns[c][row], means[c], deviations[c]);
  return y;
}

line fit(const table& features, const std::vector<double>& target, double penalty) {
  const std::size_t rows = features.rows();
  if (rows < 2) {
    throw colocate::input_error("A line through one row is none; the training file needs two.");
  }
  line l;
  l.intercept = mean_of(target);
  for (const auto& column : features.columns) {
    l.means.push_back(mean_of(column));
    l.deviations.push_back(deviation_of(column));
  }
  std::vector<std::vector<double>> a = features.columns;
  std::vector<double> y = target;
  for (std::size_t c = 0; c < a.size(); ++c) {
    for (double& x : a[c]) x = standardised(x, l.means[c], l.deviations[c]);
  }
  for (double& value : y) value -= l.intercept;
  l.coefficients = least_squares(a, y, penalty);
  return l;
}

quality try_on(const line& l, const table& features, const std::vector<double>& target) {
  std::vector<double> predicted;
  for (std::size_t r = 0; r < target.size(); ++r) predicted.push_back(l.at(features, r));
  return quality_of(predicted, target);
}

}  // namespace plan
