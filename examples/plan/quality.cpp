// SPDX-License-Identifier: Apache-2.0
#include "quality.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plan {
namespace {

double squares_of(const std::vector<double>& v, double mean) {
  double sum = 0;
  for (const double x : v) sum += (x - mean) * (x - mean);
  return sum;
}

}  // namespace

double mean_of(const std::vector<double>& v) {
  return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
}

double deviation_of(const std::vector<double>& v) {
  if (std::ranges::all_of(v, [&](double x) { return x == v[0]; })) return 0;
  return std::sqrt(squares_of(v, mean_of(v)) / static_cast<double>(v.size() - 1));
}

quality quality_of(const std::vector<double>& predicted, const std::vector<double>& seen) {
  quality q;
  q.rows = seen.size();
  if (seen.empty()) return q;
  std::vector<double> errors;
  std::vector<double> relative;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    errors.push_back(std::fabs(predicted[r] - seen[r]));
    if (seen[r] != 0) relative.push_back(errors.back() / std::fabs(seen[r]));
  }
  q.mae = mean_of(errors);
  if (deviation_of(seen) > 0) q.r2 = 1 - squares_of(errors, 0) / squares_of(seen, mean_of(seen));
  if (!relative.empty()) q.mape = mean_of(relative);
  std::ranges::sort(errors);
  const double place = 0.95 * static_cast<double>(errors.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, errors.size() - 1);
  q.p95 = errors[below] + (place - std::floor(place)) * (errors[above] - errors[below]);
  return q;
}

}  // namespace plan
