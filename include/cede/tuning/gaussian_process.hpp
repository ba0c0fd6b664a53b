// SPDX-License-Identifier: Apache-2.0
// What is to be expected of a configuration that was not measured, and how sure that is, from those
// that were: Gaussian-process regression over a few dozen points.
#pragma once

#include <cede/config.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// Values at points of a plane, of several families (here: forms). Points of one family resemble
/// each other by their distance, those of two by a common level alone. Rasmussen and Williams,
/// Gaussian Processes for Machine Learning, algorithm 2.1.
///
/// Not thread-safe; does not wait.
class gaussian_process {
 public:
  struct point {
    int family = 0;
    std::array<double, 2> at{};
  };
  struct value {
    double mean = 0;
    double deviation = 0;
  };
  /// Standard deviations of what is common to all, to a family, and to near points; the distance,
  /// along each axis, over which points forget each other.
  struct priors {
    double common = 0.1;
    double family = 0.1;
    double local = 0.15;
    std::array<double, 2> reach{1.5, 2};
  };

  explicit gaussian_process(priors p) : priors_(p) {}

  void add(const point& p, double seen, double variance) {
    points_.push_back(p);
    values_.push_back(seen);
    variances_.push_back(variance);
  }

  /// To be called after the last `add` and before the first `predict`.
  void fit() {
    const std::size_t n = points_.size();
    factor_.assign(n * n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        double sum = covariance(points_[i], points_[j]);
        if (i == j) sum += std::fmax(variances_[i], least_variance);
        for (std::size_t k = 0; k < j; ++k) sum -= factor_[i * n + k] * factor_[j * n + k];
        factor_[i * n + j] =
            i == j ? std::sqrt(std::fmax(sum, least_variance)) : sum / factor_[j * n + j];
      }
    }
    weights_ = solve(values_);
    for (std::size_t i = n; i-- > 0;) {  // the transposed factor, from below
      for (std::size_t k = i + 1; k < n; ++k) weights_[i] -= factor_[k * n + i] * weights_[k];
      weights_[i] /= factor_[i * n + i];
    }
  }

  [[nodiscard]] value predict(const point& p) const {
    std::vector<double> with(points_.size());
    value v;
    for (std::size_t i = 0; i < with.size(); ++i) {
      with[i] = covariance(p, points_[i]);
      v.mean += with[i] * weights_[i];
    }
    double rest = covariance(p, p);
    for (const double x : solve(with)) rest -= x * x;
    v.deviation = std::sqrt(std::fmax(rest, 0.0));
    return v;
  }

 private:
  static constexpr double least_variance = 1e-6;

  [[nodiscard]] double covariance(const point& a, const point& b) const {
    double c = priors_.common * priors_.common;
    if (a.family != b.family) return c;
    double square = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      const double d = (a.at[i] - b.at[i]) / priors_.reach[i];
      square += d * d;
    }
    c += priors_.family * priors_.family;
    return c + priors_.local * priors_.local * std::exp(-square / 2);
  }
  [[nodiscard]] std::vector<double> solve(std::vector<double> x) const {
    const std::size_t n = points_.size();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) x[i] -= factor_[i * n + k] * x[k];
      x[i] /= factor_[i * n + i];
    }
    return x;
  }

  priors priors_;
  std::vector<point> points_;
  std::vector<double> values_;
  std::vector<double> variances_;
  std::vector<double> factor_;  ///< lower triangle
  std::vector<double> weights_;
};

}  // namespace tuning

CEDE_END_NAMESPACE
