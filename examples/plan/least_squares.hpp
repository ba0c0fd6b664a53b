// SPDX-License-Identifier: Apache-2.0
// Small dense least-squares problems: plain, with a penalty, with coefficients that are not
// negative. A matrix is a list of its columns.
#pragma once

#include <span>
#include <vector>

namespace plan {

using columns_view = std::span<const std::vector<double>>;

/// Minimizes |a x - y|^2 + penalty |x|^2; of several solutions the shortest. Throws `input_error`
/// if there is no row, or a column has not one number for each of y.
std::vector<double> least_squares(columns_view a, const std::vector<double>& y, double penalty = 0);

/// Minimizes |a x - y|^2 over x that are nowhere negative (Lawson and Hanson, Solving Least Squares
/// Problems, chapter 23). Throws as `least_squares`.
std::vector<double> non_negative_least_squares(columns_view a, const std::vector<double>& y);

}  // namespace plan
