// SPDX-License-Identifier: Apache-2.0
// How fast a workload runs alone on a part of the SMs.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// Speed alone at a share of the SMs, divided by the speed alone on all of them. Straight between
/// the measured points and from (0, 0) to the first of them; never falls as the share grows, and
/// ends at (1, 1).
///
/// Not thread-safe; does not wait.
class solo_curve {
 public:
  struct point {
    double share = 0;  ///< of the SMs, above 0, at most 1
    double speed = 0;  ///< by the speed on all SMs; noise may bring it above 1
  };

  /// Speed grows as the share does: what is to be assumed where nothing was measured. It is
  /// pessimistic for every workload that does not fill the device.
  solo_curve() : points_{{.share = 1, .speed = 1}} {}

  /// Points in any order, each share once. A measured speed below that of a smaller share is noise
  /// and is raised to it; one above 1 is taken for 1. Throws `invalid_argument` for a share or a
  /// speed out of range and for a share that is there twice.
  explicit solo_curve(std::vector<point> measured) : points_(std::move(measured)) {
    for (const point& p : points_) {
      if (!(p.share > 0 && p.share <= 1)) {
        throw invalid_argument("a solo curve has a point at share " + std::to_string(p.share) +
                               ", which is not above 0 and at most 1; give SMs used by SMs of the "
                               "device");
      }
      if (!(p.speed >= 0 && std::isfinite(p.speed))) {
        throw invalid_argument("a solo curve has speed " + std::to_string(p.speed) + " at share " +
                               std::to_string(p.share) +
                               "; give the speed there by the speed on all SMs");
      }
    }
    std::sort(points_.begin(), points_.end(),
              [](const point& a, const point& b) { return a.share < b.share; });
    double before = 0;
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (i > 0 && points_[i].share <= points_[i - 1].share) {
        throw invalid_argument("a solo curve has two points at share " +
                               std::to_string(points_[i].share) + "; give their mean");
      }
      points_[i].speed = before = std::clamp(points_[i].speed, before, 1.0);
    }
    if (points_.empty() || points_.back().share < 1) points_.push_back({.share = 1, .speed = 1});
    points_.back().speed = 1;
  }

  /// Throws `invalid_argument` for a share that is not above 0 and at most 1.
  [[nodiscard]] double at(double share) const {
    if (!(share > 0 && share <= 1)) {
      throw invalid_argument("a solo curve was asked for share " + std::to_string(share) +
                             "; a share is above 0 and at most 1");
    }
    point left;
    for (const point& right : points_) {
      if (share <= right.share) {
        const double part = (share - left.share) / (right.share - left.share);
        return left.speed + part * (right.speed - left.speed);
      }
      left = right;
    }
    return 1;
  }

  [[nodiscard]] const std::vector<point>& points() const { return points_; }

 private:
  std::vector<point> points_;
};

}  // namespace colocate

CEDE_END_NAMESPACE
