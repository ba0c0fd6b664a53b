// SPDX-License-Identifier: Apache-2.0
// Eigen decomposes the matrix: a rank that rounding blurs is not for us to judge anew.
#include "least_squares.hpp"

#include <Eigen/QR>

#include <cmath>
#include <cstddef>
#include <string>

#include "../colocate/input_error.hpp"

namespace plan {
namespace {

Eigen::Index index(std::size_t i) { return static_cast<Eigen::Index>(i); }

// The matrix with `more` rows of zeros below.
Eigen::MatrixXd matrix_of(columns_view a, std::size_t rows, std::size_t more) {
  if (rows == 0) throw colocate::input_error("A fit needs one row at least, it was given none.");
  Eigen::MatrixXd m = Eigen::MatrixXd::Zero(index(rows + more), index(a.size()));
  for (std::size_t c = 0; c < a.size(); ++c) {
    if (a[c].size() != rows) {
      throw colocate::input_error("A fit needs one value for each row; column " +
                                  std::to_string(c + 1) + " has " + std::to_string(a[c].size()) +
                                  " rows, there are " + std::to_string(rows) + " values.");
    }
    for (std::size_t r = 0; r < rows; ++r) m(index(r), index(c)) = a[c][r];
  }
  return m;
}

// Solves with the columns in `free` alone; 0 for the others.
Eigen::VectorXd solved(const Eigen::MatrixXd& m, const Eigen::VectorXd& y,
                       const std::vector<bool>& free) {
  std::vector<Eigen::Index> kept;
  for (std::size_t c = 0; c < free.size(); ++c) {
    if (free[c]) kept.push_back(index(c));
  }
  Eigen::VectorXd x = Eigen::VectorXd::Zero(m.cols());
  const Eigen::MatrixXd some = m(Eigen::all, kept);
  const Eigen::VectorXd of_some = some.completeOrthogonalDecomposition().solve(y);
  x(kept) = of_some;
  return x;
}

std::vector<double> numbers(const Eigen::VectorXd& x) { return {x.data(), x.data() + x.size()}; }

// The column outside `free` along which the error falls most, by the lengths of both; none if it
// falls along none by more than rounding.
std::size_t steepest(const Eigen::MatrixXd& m, const Eigen::VectorXd& y, const Eigen::VectorXd& x,
                     const std::vector<bool>& free, const std::vector<bool>& useless) {
  const Eigen::VectorXd slope = m.transpose() * (y - m * x);
  std::size_t best = free.size();
  double most = 1e-12;
  for (std::size_t c = 0; c < free.size(); ++c) {
    const double scale = m.col(index(c)).norm() * y.norm();
    if (free[c] || useless[c] || !(slope(index(c)) > most * scale)) continue;
    most = slope(index(c)) / scale;
    best = c;
  }
  return best;
}

}  // namespace

std::vector<double> least_squares(columns_view a, const std::vector<double>& y, double penalty) {
  // The penalty as rows below: sqrt(penalty) for one coefficient each, which should be 0.
  const std::size_t more = penalty > 0 ? a.size() : 0;
  Eigen::MatrixXd m = matrix_of(a, y.size(), more);
  Eigen::VectorXd right = Eigen::VectorXd::Zero(m.rows());
  for (std::size_t r = 0; r < y.size(); ++r) right(index(r)) = y[r];
  for (std::size_t c = 0; c < more; ++c) m(index(y.size() + c), index(c)) = std::sqrt(penalty);
  return numbers(m.completeOrthogonalDecomposition().solve(right));
}

std::vector<double> non_negative_least_squares(columns_view a, const std::vector<double>& y) {
  const std::size_t n = a.size();
  const Eigen::MatrixXd m = matrix_of(a, y.size(), 0);
  const Eigen::VectorXd right = Eigen::Map<const Eigen::VectorXd>(y.data(), index(y.size()));
  Eigen::VectorXd x = Eigen::VectorXd::Zero(m.cols());
  std::vector<bool> free(n, false);
  std::vector<bool> useless(n, false);
  // Each round lowers the error; the bound is for rounding, which may make it go in circles.
  for (std::size_t round = 0; round < 10 * n + 10; ++round) {
    const std::size_t next = steepest(m, right, x, free, useless);
    if (next == n) break;
    free[next] = true;
    Eigen::VectorXd to = solved(m, right, free);
    if (!(to(index(next)) > 0)) {  // rounding gave it the wrong sign: it cannot help now
      free[next] = false;
      useless[next] = true;
      continue;
    }
    for (;;) {
      // As far towards the solution as nothing becomes negative.
      double step = 1;
      std::size_t blocking = n;
      for (std::size_t c = 0; c < n; ++c) {
        const Eigen::Index i = index(c);
        if (!free[c] || to(i) > 0) continue;
        const double until = x(i) / (x(i) - to(i));
        if (blocking == n || until < step) {
          step = until;
          blocking = c;
        }
      }
      x += step * (to - x);
      if (blocking == n) break;
      x(index(blocking)) = 0;
      free[blocking] = false;
      to = solved(m, right, free);
    }
    useless.assign(n, false);
  }
  return numbers(x);
}

}  // namespace plan
