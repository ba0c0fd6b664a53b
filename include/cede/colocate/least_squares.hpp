// SPDX-License-Identifier: Apache-2.0
// Small dense least-squares problems: plain, with a penalty, with coefficients that are not
// negative.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// Numbers in rows of one length.
class table {
 public:
  explicit table(std::size_t columns) : columns_(columns) {}

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::size_t rows() const { return columns_ == 0 ? 0 : values_.size() / columns_; }
  [[nodiscard]] double at(std::size_t row, std::size_t column) const {
    return values_[row * columns_ + column];
  }
  [[nodiscard]] std::span<const double> row(std::size_t r) const {
    return std::span<const double>(values_).subspan(r * columns_, columns_);
  }
  /// Throws `invalid_argument` for a row of another length or with what is no finite number.
  void add(std::span<const double> row) {
    if (row.size() != columns_) {
      throw invalid_argument("a row of " + std::to_string(row.size()) +
                             " numbers was added to a table of " + std::to_string(columns_) +
                             " columns; give one number for each");
    }
    for (std::size_t c = 0; c < columns_; ++c) {
      if (!std::isfinite(row[c])) {
        throw invalid_argument("row " + std::to_string(rows()) +
                               " of a table has no finite number "
                               "in column " +
                               std::to_string(c) + "; leave the row out");
      }
    }
    values_.insert(values_.end(), row.begin(), row.end());
  }

 private:
  std::size_t columns_;
  std::vector<double> values_;
};

struct least_squares_result {
  std::vector<double> coefficients;  ///< 0 where not kept
  std::vector<bool> kept;            ///< false: this column adds nothing to those before it
};

/// Minimizes |a x - y|^2 + penalty |x|^2 by Householder's reflections (Golub and Van Loan, Matrix
/// Computations, 5.2 and 5.3). A column that depends on those before it gets the coefficient 0, so
/// that a fit to few rows has an answer too. Columns where `use` is false are left out. Throws
/// `invalid_argument` if there is no row, or not one y for each, or if the penalty is negative.
///
/// Thread-safe; does not wait.
[[nodiscard]] inline least_squares_result least_squares(const table& a, std::span<const double> y,
                                                        double penalty = 0,
                                                        const std::vector<bool>& use = {}) {
  if (a.rows() == 0 || a.rows() != y.size()) {
    throw invalid_argument("a fit got " + std::to_string(a.rows()) + " rows and " +
                           std::to_string(y.size()) +
                           " values; give one value for each row, and one row at least");
  }
  if (!(penalty >= 0 && std::isfinite(penalty))) {
    throw invalid_argument("a fit got the penalty " + std::to_string(penalty) +
                           "; give 0 for none, or a positive number");
  }
  const std::size_t n = a.columns();
  const std::size_t rows = a.rows() + (penalty > 0 ? n : 0);
  std::vector<std::vector<double>> column(n, std::vector<double>(rows, 0.0));
  std::vector<double> right(rows, 0.0);
  for (std::size_t r = 0; r < a.rows(); ++r) {
    for (std::size_t c = 0; c < n; ++c) column[c][r] = a.at(r, c);
    right[r] = y[r];
  }
  if (penalty > 0) {
    for (std::size_t c = 0; c < n; ++c) column[c][a.rows() + c] = std::sqrt(penalty);
  }

  least_squares_result result{std::vector<double>(n, 0.0), std::vector<bool>(n, false)};
  std::vector<std::size_t> order;  // columns kept; the k-th has its diagonal in row k
  for (std::size_t c = 0; c < n && order.size() < rows; ++c) {
    if (!use.empty() && !use[c]) continue;
    const std::size_t k = order.size();
    double all = 0;
    double rest = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const double square = column[c][r] * column[c][r];
      all += square;
      if (r >= k) rest += square;
    }
    constexpr double dependent = 1e-10;  // of the column's length; far above rounding
    if (!(std::sqrt(rest) > dependent * std::sqrt(all))) continue;

    std::vector<double> v(column[c].begin() + static_cast<std::ptrdiff_t>(k), column[c].end());
    const double diagonal = v[0] > 0 ? -std::sqrt(rest) : std::sqrt(rest);
    v[0] -= diagonal;
    double length = 0;
    for (const double x : v) length += x * x;
    const auto reflect = [&](std::vector<double>& into) {
      double dot = 0;
      for (std::size_t i = 0; i < v.size(); ++i) dot += v[i] * into[k + i];
      for (std::size_t i = 0; i < v.size(); ++i) into[k + i] -= 2 * dot / length * v[i];
    };
    for (std::size_t later = c; later < n; ++later) reflect(column[later]);
    reflect(right);
    result.kept[c] = true;
    order.push_back(c);
  }
  for (std::size_t k = order.size(); k-- > 0;) {
    double value = right[k];
    for (std::size_t j = k + 1; j < order.size(); ++j) {
      value -= column[order[j]][k] * result.coefficients[order[j]];
    }
    result.coefficients[order[k]] = value / column[order[k]][k];
  }
  return result;
}

/// Minimizes |a x - y|^2 over x that are nowhere negative (Lawson and Hanson, Solving Least Squares
/// Problems, chapter 23). Throws `invalid_argument` as `least_squares`.
///
/// Thread-safe; does not wait.
[[nodiscard]] inline std::vector<double> non_negative_least_squares(const table& a,
                                                                    std::span<const double> y) {
  const std::size_t n = a.columns();
  std::vector<double> x(n, 0.0);
  std::vector<bool> free(n, false);
  std::vector<bool> useless(n, false);
  double scale = 0;
  for (const double v : y) scale += v * v;
  (void)least_squares(a, y, 0, std::vector<bool>(n, false));  // for what it throws
  // Each round lowers the sum of squares; the bound is for rounding, which may make it go in
  // circles.
  for (std::size_t round = 0; round < 10 * n + 10; ++round) {
    std::vector<double> rest(y.begin(), y.end());
    for (std::size_t r = 0; r < a.rows(); ++r) {
      for (std::size_t c = 0; c < n; ++c) rest[r] -= a.at(r, c) * x[c];
    }
    std::size_t best = n;
    double steepest = 0;
    for (std::size_t c = 0; c < n; ++c) {
      if (free[c] || useless[c]) continue;
      double slope = 0;
      double length = 0;
      for (std::size_t r = 0; r < a.rows(); ++r) {
        slope += a.at(r, c) * rest[r];
        length += a.at(r, c) * a.at(r, c);
      }
      const double relative = length > 0 && scale > 0 ? slope / std::sqrt(length * scale) : 0;
      if (relative > steepest) {
        steepest = relative;
        best = c;
      }
    }
    if (best == n || steepest < 1e-12) break;
    free[best] = true;
    bool moved = false;
    while (true) {
      const least_squares_result s = least_squares(a, y, 0, free);
      bool dropped = false;
      for (std::size_t c = 0; c < n; ++c) {
        // Depends on the others, or rounding gave it the wrong sign at once: it cannot help now.
        const bool no_help =
            free[c] && (!s.kept[c] || (c == best && !moved && s.coefficients[c] <= 0));
        if (!no_help || (c != best && x[c] > 0)) continue;
        free[c] = false;
        useless[c] = dropped = true;
      }
      if (dropped) {
        if (!free[best]) break;
        continue;
      }
      double step = 1;
      std::size_t blocking = n;
      for (std::size_t c = 0; c < n; ++c) {
        if (!free[c] || s.coefficients[c] > 0) continue;
        const double t = x[c] / (x[c] - s.coefficients[c]);
        if (t <= step || blocking == n) {
          step = t;
          blocking = c;
        }
      }
      if (blocking == n) step = 1;
      for (std::size_t c = 0; c < n; ++c) {
        if (free[c]) x[c] += step * (s.coefficients[c] - x[c]);
      }
      moved = true;
      if (blocking == n) break;
      x[blocking] = 0;
      free[blocking] = false;
    }
    if (moved) useless.assign(n, false);
  }
  return x;
}

}  // namespace colocate

CEDE_END_NAMESPACE
