// SPDX-License-Identifier: Apache-2.0
// How long best-effort work waits after the latency-critical side went idle, learned from how long
// that lasted before.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

struct hold_off_options {
  /// What it costs to come back too early: the time from a resume until work is done, and from the
  /// raise until the last block is out, in which the latency-critical side is delayed; weigh the
  /// latter as it is worth to you. Larger than 0.
  nanoseconds cost{20'000};
  nanoseconds least{0};
  nanoseconds most{1'000'000};  ///< at least `least`
};

/// After a gap of idleness it is known what any hold-off would have lost in it: all of a gap that
/// was shorter; of a longer one the hold-off itself, and the cost of having come back and been sent
/// away again. The hold-off that would have lost least over the last gaps is taken: none, or a
/// little more than one of them.
///
/// One thread at a time; does not wait.
class hold_off {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit hold_off(hold_off_options o = {}) : options_(o), value_(o.least) {
    if (o.cost.count() <= 0 || o.least.count() < 0 || o.most < o.least) {
      throw invalid_argument(
          "tuning::hold_off: cost must be larger than 0, least not negative, most at least "
          "`least`");
    }
  }

  /// The latency-critical side was idle for so long, and is active again.
  void observe(nanoseconds gap) {
    gaps_.add(std::max(cost_model::ns(gap), 0.0));
    if (++since_ >= every || gaps_.size() < every) {
      since_ = 0;
      choose();
    }
  }
  /// What coming back too early was measured to cost.
  void set_cost(nanoseconds cost) { options_.cost = std::max(cost, nanoseconds{1}); }

  [[nodiscard]] nanoseconds value() const { return value_; }
  [[nodiscard]] const hold_off_options& options() const { return options_; }

  /// Mean loss a gap, over the last ones, of some hold-off in ns.
  [[nodiscard]] double loss(double held) const {
    double sum = 0;
    for (const double g : gaps_.values()) sum += lost(g, held);
    return gaps_.empty() ? 0 : sum / static_cast<double>(gaps_.size());
  }

 private:
  static constexpr std::size_t kept = 256;
  static constexpr std::size_t every = 8;     ///< gaps between two choices
  static constexpr double longer = 1.0 / 16;  ///< than a gap that is waited for
  static constexpr double worth = 0.03;       ///< share of loss that a change has to save

  [[nodiscard]] double lost(double gap, double held) const {
    return gap <= held ? gap : held + cost_model::ns(options_.cost);
  }

  void choose() {
    std::vector<double> sorted = gaps_.values();
    std::sort(sorted.begin(), sorted.end());
    const auto n = static_cast<double>(sorted.size());
    const double cost = cost_model::ns(options_.cost);
    const double least = cost_model::ns(options_.least);
    const double most = cost_model::ns(options_.most);
    double best = least;
    double best_loss = n * loss(least);
    double shorter = 0;  // sum of the gaps up to the i-th
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      shorter += sorted[i];
      const double held = std::min(sorted[i] * (1 + longer), most);
      if (sorted[i] > most || held < least) continue;
      if (i + 1 < sorted.size() && sorted[i + 1] <= held) continue;  // that one is waited for, too
      const double l = shorter + (n - static_cast<double>(i + 1)) * (held + cost);
      if (l < best_loss) {
        best_loss = l;
        best = held;
      }
    }
    if (best_loss < (1 - worth) * n * loss(cost_model::ns(value_))) {
      value_ = nanoseconds{static_cast<std::int64_t>(best)};
    }
  }

  hold_off_options options_;
  recent<kept> gaps_;
  nanoseconds value_;
  std::size_t since_ = 0;
};

}  // namespace tuning

CEDE_END_NAMESPACE
