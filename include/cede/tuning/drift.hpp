// SPDX-License-Identifier: Apache-2.0
// Whether a configuration still behaves as it did when it was chosen.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

CEDE_BEGIN_NAMESPACE

namespace tuning {

struct drift_options {
  /// Change of the time, as a share, that is worth another search. Larger than 0.
  double change = 0.12;
  /// Launches between two searches, at least; doubled, up to `rarest`, each time the last search
  /// soon turned out to be no better, so that launches that take turns are not searched for ever.
  unsigned often = 32;
  unsigned rarest = 4096;
  /// Launches in succession whose bound is beyond the budget until that is believed.
  unsigned late = 3;
};

/// Compares the last launches with the first ones after a choice, by their medians: other
/// arguments, other company, another clock.
///
/// One thread at a time; does not wait.
class drift {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit drift(drift_options o) : options_(o), rest_(o.often) {
    if (!(o.change > 0) || o.often == 0 || o.rarest < o.often || o.late == 0) {
      throw invalid_argument(
          "tuning::drift: change, often and late must be larger than 0, rarest at least `often`");
    }
  }

  /// A choice was made, on the grounds that a launch takes `expected`. What comes now is compared
  /// with that, and then with the first launches.
  void begin(nanoseconds expected) {
    expected_ = cost_model::ns(expected);
    first_.clear();
    last_.clear();
    since_ = 0;
    late_ = 0;
  }

  /// A launch in the chosen configuration took `elapsed` (0: it was not timed); `late`: its bound,
  /// as it is known now, is beyond the budget. True if the choice is to be searched anew.
  [[nodiscard]] bool observe(nanoseconds elapsed, bool late) {
    ++since_;
    late_ = late ? late_ + 1 : 0;
    if (late_ >= options_.late) return true;
    if (elapsed.count() <= 0) return false;
    const double t = cost_model::ns(elapsed);
    recent<compared>& now = first_.size() < compared ? first_ : last_;
    now.add(t);
    if (now.size() < compared) return false;
    const double before =
        &now == &first_ || changed(expected_, first_.median()) ? expected_ : first_.median();
    if (since_ < rest_ || !changed(before, now.median())) return false;
    const bool soon = since_ < 4 * std::uint64_t{rest_};
    rest_ = soon ? std::min(2 * rest_, options_.rarest) : options_.often;
    return true;
  }

 private:
  static constexpr std::size_t compared = 9;

  [[nodiscard]] bool changed(double before, double now) const {
    return before > 0 && std::abs(std::log(now / before)) > std::log1p(options_.change);
  }

  drift_options options_;
  double expected_ = 0;
  recent<compared> first_;
  recent<compared> last_;
  unsigned rest_;  ///< launches that must have passed
  std::uint64_t since_ = 0;
  unsigned late_ = 0;
};

}  // namespace tuning

CEDE_END_NAMESPACE
