// SPDX-License-Identifier: Apache-2.0
// Who slows whom where each workload has SMs of its own: they still share caches and memory.
#pragma once

#include <cede/colocate/model.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// progress = curve(s_v) (base - own_dram D_v s_v - other_dram sum D_a s_a - own_l2 M_v s_v -
/// other_l2 sum M_a s_a), where D and M are DRAM and L2 throughput times busy fraction, s the
/// share, v the victim, a each neighbour. No coefficient is negative, so that one more neighbour
/// never raises the progress of those there.
///
/// Not thread-safe while it is assigned to; does not wait.
class partition_model final : public model {
 public:
  struct coefficients {
    double base = 1;
    double own_dram = 0;
    double other_dram = 0;
    double own_l2 = 0;
    double other_l2 = 0;
  };

  /// Throws `invalid_argument` if one is negative or p95 is not from 0 to 1.
  explicit partition_model(const coefficients& c, double p95 = 1) : c_(c), p95_(p95) {
    for (const double x : {c.base, c.own_dram, c.other_dram, c.own_l2, c.other_l2}) {
      if (!(x >= 0 && std::isfinite(x))) {
        throw invalid_argument("a partition model got the coefficient " + std::to_string(x) +
                               "; give numbers from 0, for neighbours do not speed one up");
      }
    }
    if (!(p95 >= 0 && p95 <= 1)) {
      throw invalid_argument("a partition model got p95 = " + std::to_string(p95) +
                             "; give an error of progress from 0 to 1");
    }
  }

  [[nodiscard]] const coefficients& fitted() const { return c_; }
  [[nodiscard]] double p95() const { return p95_; }

  /// Refuses shares that overlap, which is another setting.
  [[nodiscard]] answer progress(std::span<const resident> together,
                                std::size_t victim) const override {
    check(together, victim);
    if (!disjoint(together)) {
      return answer::refused(
          "the shares of the co-location add up to more than 1; the partition model is for "
          "workloads that each have SMs of their own");
    }
    const std::array<double, 5> f = features(together, victim);
    const double seen = c_.base * f[0] + c_.own_dram * f[1] + c_.other_dram * f[2] +
                        c_.own_l2 * f[3] + c_.other_l2 * f[4];
    return answer::of({.progress = std::clamp(seen, 0.0, 1.0), .p95 = p95_});
  }

  /// Shares that do not add up to more than 1.
  [[nodiscard]] static bool disjoint(std::span<const resident> together) {
    double sum = 0;
    for (const resident& r : together) sum += r.share;
    return sum <= 1 + 1e-9;
  }
  /// What each coefficient is multiplied by: the solo speed, and less than nothing for the rest.
  [[nodiscard]] static std::array<double, 5> features(std::span<const resident> together,
                                                      std::size_t victim) {
    const resident& v = together[victim];
    const double alone = v.who->curve.at(v.share);
    std::array<double, 5> f{alone, 0, 0, 0, 0};
    for (std::size_t i = 0; i < together.size(); ++i) {
      const resident& r = together[i];
      const double weight = alone * r.who->busy * r.share;
      f[i == victim ? 1 : 2] -= weight * r.who->of.dram;
      f[i == victim ? 3 : 4] -= weight * r.who->of.l2;
    }
    return f;
  }

 private:
  coefficients c_;
  double p95_;
};

}  // namespace colocate

CEDE_END_NAMESPACE
