// SPDX-License-Identifier: Apache-2.0
// Eigen decomposes the matrix: a rank that rounding blurs is not for us to judge anew.
#include "regression.hpp"

#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../colocate/input_error.hpp"

namespace plan {
namespace {

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

double deviation_of(const std::vector<double>& v, double mean) {
  // One value all along has none, whatever rounding makes of its mean.
  if (std::ranges::all_of(v, [&](double x) { return x == v[0]; })) return 0;
  double sum = 0;
  for (const double x : v) sum += (x - mean) * (x - mean);
  return std::sqrt(sum / static_cast<double>(v.size() - 1));
}

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
  const std::size_t n = features.columns.size();
  line l;
  l.intercept = mean_of(target);
  for (const auto& column : features.columns) {
    l.means.push_back(mean_of(column));
    l.deviations.push_back(deviation_of(column, l.means.back()));
  }
  // The penalty as rows below: sqrt(penalty) for one coefficient each, which should be 0.
  const std::size_t more = penalty > 0 ? n : 0;
  const auto index = [](std::size_t i) { return static_cast<Eigen::Index>(i); };
  Eigen::MatrixXd a = Eigen::MatrixXd::Zero(index(rows + more), index(n));
  Eigen::VectorXd y = Eigen::VectorXd::Zero(index(rows + more));
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < n; ++c) {
      a(index(r), index(c)) = standardised(features.columns[c][r], l.means[c], l.deviations[c]);
    }
    y(index(r)) = target[r] - l.intercept;
  }
  for (std::size_t c = 0; c < more; ++c) a(index(rows + c), index(c)) = std::sqrt(penalty);
  const Eigen::VectorXd x = a.completeOrthogonalDecomposition().solve(y);
  l.coefficients.assign(x.data(), x.data() + x.size());
  return l;
}

quality try_on(const line& l, const table& features, const std::vector<double>& target) {
  quality q;
  q.rows = target.size();
  const double mean = mean_of(target);
  std::vector<double> errors;
  double squares = 0;
  double spread = 0;
  double relative = 0;
  std::size_t not_zero = 0;
  for (std::size_t r = 0; r < target.size(); ++r) {
    const double error = std::fabs(l.at(features, r) - target[r]);
    errors.push_back(error);
    squares += error * error;
    spread += (target[r] - mean) * (target[r] - mean);
    if (target[r] == 0) continue;
    relative += error / std::fabs(target[r]);
    ++not_zero;
  }
  q.mae = mean_of(errors);
  if (deviation_of(target, mean) > 0) q.r2 = 1 - squares / spread;
  if (not_zero > 0) q.mape = relative / static_cast<double>(not_zero);
  std::ranges::sort(errors);
  const double place = 0.95 * static_cast<double>(errors.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, errors.size() - 1);
  q.p95 = errors[below] + (place - std::floor(place)) * (errors[above] - errors[below]);
  return q;
}

}  // namespace plan
