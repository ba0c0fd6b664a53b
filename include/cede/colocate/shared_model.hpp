// SPDX-License-Identifier: Apache-2.0
// Who slows whom where all share all SMs, from what the victim and its neighbours ask for.
#pragma once

#include <cede/colocate/model.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// progress = base + sum over the fields of a demand of a ln(victim's) + b ln(neighbours'), where
/// the neighbours' is the sum of theirs, each times its busy fraction. Victim and neighbours have
/// coefficients of their own: whose grid is larger matters, not how large both are together.
/// Outside the range of what it was fitted to it refuses, for there its line leads anywhere.
///
/// Not thread-safe while it is assigned to; does not wait.
class shared_model final : public model {
 public:
  static constexpr std::size_t fields = std::size(demand_fields);
  /// The victim's fields, then the neighbours'.
  using features_type = std::array<double, 2 * fields>;
  struct coefficients {
    double base = 1;
    features_type of{};
  };
  /// Smallest and largest of each feature among what was fitted.
  struct range {
    features_type least{};
    features_type most{};
  };

  /// Throws `invalid_argument` if a number is not finite, p95 is not from 0 to 1, or the range of a
  /// feature is none.
  shared_model(const coefficients& c, const range& seen, double p95 = 1)
      : c_(c), seen_(seen), p95_(p95) {
    bool finite = std::isfinite(c.base);
    for (const double x : c.of) finite = finite && std::isfinite(x);
    if (!finite) {
      throw invalid_argument(
          "a shared model got a coefficient that is no finite number; fit it again without rows "
          "that hold such");
    }
    if (!(p95 >= 0 && p95 <= 1)) {
      throw invalid_argument("a shared model got p95 = " + std::to_string(p95) +
                             "; give an error of progress from 0 to 1");
    }
    for (std::size_t i = 0; i < seen.least.size(); ++i) {
      if (!(seen.least[i] <= seen.most[i])) {
        throw invalid_argument("a shared model got no range for " + name(i) +
                               "; give the smallest and the largest it was fitted to");
      }
    }
  }

  [[nodiscard]] answer progress(std::span<const resident> together,
                                std::size_t victim) const override {
    check(together, victim);
    for (const resident& r : together) {
      if (r.share < 1) {
        return answer::refused("workload '" + r.who->name +
                               "' is confined to a part of the SMs; the shared model is for "
                               "workloads that have all of them");
      }
    }
    if (together.size() == 1) return answer::of({.progress = 1, .p95 = 0});  // nobody is there
    const features_type f = features(together, victim);
    double sum = c_.base;
    for (std::size_t i = 0; i < f.size(); ++i) {
      if (f[i] < seen_.least[i] - rounding || f[i] > seen_.most[i] + rounding) {
        return answer::refused("beside workload '" + together[victim].who->name + "' " + name(i) +
                               " is " + std::to_string(std::exp(f[i])) + ", which is not between " +
                               std::to_string(std::exp(seen_.least[i])) + " and " +
                               std::to_string(std::exp(seen_.most[i])) +
                               ", all that the shared model was fitted to");
      }
      sum += c_.of[i] * f[i];
    }
    return answer::of({.progress = std::clamp(sum, 0.0, 1.0), .p95 = p95_});
  }

  /// Logarithms; what is below a thousandth counts as that, since 0 has none.
  [[nodiscard]] static features_type features(std::span<const resident> together,
                                              std::size_t victim) {
    features_type f{};
    for (std::size_t i = 0; i < fields; ++i) {
      const auto field = demand_fields[i].second;
      double neighbours = 0;
      for (std::size_t r = 0; r < together.size(); ++r) {
        if (r != victim) neighbours += together[r].who->busy * (together[r].who->of.*field);
      }
      f[i] = std::log(std::max(together[victim].who->of.*field, smallest));
      f[fields + i] = std::log(std::max(neighbours, smallest));
    }
    return f;
  }
  /// A feature in words.
  [[nodiscard]] static std::string name(std::size_t feature) {
    return (feature < fields ? "the victim's " : "the neighbours' ") +
           std::string(demand_fields[feature % fields].first);
  }
  /// The range of some observations, to be kept with their fit; of none, the widest there is.
  [[nodiscard]] static range range_of(std::span<const observation> seen) {
    range r;
    const double far = std::numeric_limits<double>::max();
    r.least.fill(seen.empty() ? -far : far);
    r.most.fill(seen.empty() ? far : -far);
    for (const observation& o : seen) {
      check(o);
      const features_type f = features(o.together, o.victim);
      for (std::size_t i = 0; i < f.size(); ++i) {
        r.least[i] = std::min(r.least[i], f[i]);
        r.most[i] = std::max(r.most[i], f[i]);
      }
    }
    return r;
  }

 private:
  static constexpr double smallest = 1e-3;
  static constexpr double rounding = 1e-9;

  coefficients c_;
  range seen_;
  double p95_;
};

}  // namespace colocate

CEDE_END_NAMESPACE
