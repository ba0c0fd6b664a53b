// SPDX-License-Identifier: Apache-2.0
// Which configuration the next launch of a body and shape is to run in: each real launch, run once,
// is a measurement, until the fastest one that leaves in time is known well enough.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/tuning/advice.hpp>
#include <cede/tuning/candidate.hpp>
#include <cede/tuning/cost_model.hpp>
#include <cede/tuning/drift.hpp>
#include <cede/tuning/ranking.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

struct search_options {
  /// What a raise may have to wait for, as a bound. Larger than 0.
  nanoseconds budget{31'600};
  /// A launch that can keep the budget only by taking so many times what it takes in the fastest
  /// configuration known is reported as too coarse. At least 1.
  double slowest = 1.5;
  /// Trial launches that were timed, at most, until the best of what was measured is taken. Larger
  /// than 0.
  unsigned most_trials = 24;
  /// Difference in time, as a share, that is not worth another trial.
  double tolerance = 0.01;
  /// What occupying all places for blocks counts like, as a share of time: of two configurations of
  /// nearly the same speed, the one is taken that leaves more room for latency-critical blocks.
  double room = 0.015;
};

enum class search_state : std::uint8_t {
  searching,
  settled,
  too_coarse,  ///< settled, but out of budget or too slow
  pinned       ///< chosen by somebody else
};

/// The search for one body, shape, dynamic shared memory, device and budget. Deterministic: the
/// same calls give the same answers.
///
///     const candidate c = s.next(critical_active);   // before a launch
///     s.observe(c, {...});                           // once it has ended or left
///
/// A candidate is proposed only if its bound, as far as is known, is within the budget; before
/// anything is known that is the one that promises to leave soonest, and where nothing known keeps
/// the budget, what may leave sooner. Several launches may be under way at once.
///
/// One thread at a time; does not wait.
class search {
 public:
  /// Throws `invalid_argument` for options out of range.
  search(const launch_facts& l, const machine_facts& m, const machine_costs& c = {},
         search_options o = {})
      : options_(o), model_(l, m, c), drift_({}) {
    if (o.budget.count() <= 0 || !(o.slowest >= 1) || o.most_trials == 0 || !(o.tolerance >= 0) ||
        !(o.room >= 0)) {
      throw invalid_argument(
          "tuning::search: budget and most_trials must be larger than 0, slowest at least 1, "
          "tolerance and room not negative");
    }
    for (const candidate& each : enumerate(l, m)) prospects_.push_back({.what = each});
    choice_ = choice_when_opened_ = first();
  }

  /// The configuration for the next launch. Nothing is tried while the latency-critical side is
  /// active: then it is `current()`.
  [[nodiscard]] candidate next(bool critical_active = false) {
    if (state_ != search_state::searching || critical_active) return current();
    const std::optional<std::size_t> chosen = propose();
    if (!chosen) return current();
    ++prospects_[*chosen].under_way;
    return prospects_[*chosen].what;
  }

  /// What a launch that ran in a configuration showed; of any configuration, asked for by `next` or
  /// not. One that left in the middle tells how long its tiles were, not how long it takes.
  void observe(const candidate& c, const observation& o) {
    forget(c);
    ++launches_;
    model_.observe(c, o);
    know(c);
    if (state_ == search_state::pinned) return;
    const bool timed = o.complete && o.tiles >= model_.launch().tiles;
    if (state_ == search_state::searching) {
      ++trials_;
      if (timed) ++timed_;
      refresh();
      return;
    }
    if (!(c == choice_)) return;
    const std::optional<nanoseconds> b = model_.bound(choice_);
    const bool late = state_ == search_state::settled && b && *b > options_.budget &&
                      model_.bound_in(choice_, o).value_or(*b) > options_.budget;
    if (drift_.observe(timed ? o.elapsed : nanoseconds{0}, late)) reopen();
  }

  /// A launch that `next` was asked for did not take place.
  void forget(const candidate& c) {
    for (prospect& e : prospects_) {
      if (e.what == c && e.under_way > 0) --e.under_way;
    }
  }

  /// The best choice so far; what to run where nothing may be tried.
  [[nodiscard]] candidate current() const { return choice_; }
  [[nodiscard]] search_state state() const { return state_; }
  [[nodiscard]] bool settled() const { return state_ != search_state::searching; }
  /// Launches seen, those after it settled included.
  [[nodiscard]] std::uint64_t launches() const { return launches_; }
  /// Launches seen while it searched, since it was last opened.
  [[nodiscard]] unsigned trials() const { return trials_; }
  /// Times it was opened again.
  [[nodiscard]] unsigned reopened() const { return reopened_; }
  [[nodiscard]] const cost_model& model() const { return model_; }
  [[nodiscard]] const search_options& options() const { return options_; }

  /// Fixes the choice, until `unpin`. Throws `not_supported` for what the body does not allow.
  void pin(const candidate& c) {
    if (!allowed(c, model_.launch(), model_.machine())) {
      throw not_supported("tuning::search: \"" + to_text(c) +
                          "\" was pinned for a launch whose body or shape does not allow it; pin "
                          "another configuration or none");
    }
    choice_ = c;
    state_ = search_state::pinned;
  }
  /// Takes the search up where it was.
  void unpin() {
    if (state_ != search_state::pinned) return;
    state_ = search_state::searching;
    choice_ = choice_when_opened_ = first();
    refresh();
  }

  /// Begins with what an earlier run measured: as if `launches` launches had taken `elapsed` each.
  /// What the body does not allow is left out.
  void restore(const candidate& c, nanoseconds elapsed, nanoseconds longest, unsigned launches) {
    if (!allowed(c, model_.launch(), model_.machine())) return;
    const std::uint64_t tiles = model_.launch().tiles;
    for (unsigned i = 0; i < std::clamp(launches, 2U, 3U); ++i) {
      model_.observe(c, {.elapsed = elapsed, .tiles = tiles, .longest = longest});
    }
    know(c);
  }
  /// Begins settled: with the choice of an earlier run, whose measurements were restored. False,
  /// and the search goes on from those, if they know of a better choice, or do not know this one.
  bool adopt(const candidate& c) {
    const record* r = measured(c);
    if (!allowed(c, model_.launch(), model_.machine()) || r == nullptr) return false;
    estimate();
    const std::optional<nanoseconds> b = model_.bound(c);
    const bool fits = b && *b <= options_.budget;
    if (!fits && best() != nullptr) return false;
    choice_ = c;
    settle(fits);
    return true;
  }

  /// Why the launch is too coarse and what would help; empty if it is not.
  [[nodiscard]] std::string advice() const {
    if (state_ != search_state::too_coarse) return {};
    return too_coarse_text(model_, choice_, options_.budget, slowdown());
  }

  /// Time of the choice against the fastest configuration known, in budget or not; 1 if unknown.
  [[nodiscard]] double slowdown() const {
    double mine = 0;
    double fastest = std::numeric_limits<double>::infinity();
    for (const prospect& e : prospects_) {
      const double t = e.expected - options_.room * occupied(e.what, model_.launch());
      if (e.what == choice_) mine = t;
      if (measured(e.what) != nullptr || e.what == whole()) fastest = std::min(fastest, t);
    }
    return std::exp(std::max(mine - fastest, 0.0));
  }

  /// What was tried, measured and chosen, a line each.
  [[nodiscard]] std::string explain() const {
    const char* state = state_ == search_state::searching ? "searching"
                        : state_ == search_state::settled ? "settled"
                        : state_ == search_state::pinned  ? "pinned"
                                                          : "too coarse";
    std::string text = explain_text(model_, choice_, state, options_.budget);
    if (state_ == search_state::too_coarse) text += advice() + '\n';
    return text;
  }

 private:
  static constexpr double caution = 2;  ///< deviations by which an estimate may be too high

  void estimate() { tuning::estimate(model_, options_.budget, options_.room, prospects_); }

  /// What promises to leave soonest while nothing is known of the tiles.
  [[nodiscard]] candidate first() const {
    const launch_facts& l = model_.launch();
    const machine_facts& m = model_.machine();
    if (allows(l, m, form::persistent)) return persistent(std::min(4U, l.workers_fit), 1);
    candidate best = whole();
    for (const prospect& e : prospects_) {
      if (e.what.how == form::gated && best.how != form::gated) best = e.what;
    }
    return best;
  }

  /// What is launched first: how half as many workers do tells how long the tiles of more will be.
  [[nodiscard]] std::vector<candidate> opening() const {
    std::vector<candidate> all{choice_when_opened_};
    candidate half = choice_when_opened_;
    half.workers_per_sm /= 2;
    if (half.workers_per_sm != 0) all.push_back(half);
    return all;
  }

  void know(const candidate& c) {
    for (const prospect& e : prospects_) {
      if (e.what == c) return;
    }
    prospects_.push_back({.what = c});
  }

  [[nodiscard]] const record* measured(const candidate& c) const {
    const record* r = model_.find(c);
    return r != nullptr && !r->elapsed.empty() ? r : nullptr;
  }

  /// The fastest of what was measured and fits, as far as is known.
  [[nodiscard]] const prospect* best() const {
    const prospect* b = nullptr;
    for (const prospect& e : prospects_) {
      if (!e.fits || measured(e.what) == nullptr) continue;
      if (b == nullptr || e.expected < b->expected) b = &e;
    }
    return b;
  }

  /// What of the opening is still to be launched.
  [[nodiscard]] std::optional<std::size_t> to_open() const {
    std::optional<std::size_t> chosen;
    for (const candidate& c : opening()) {
      const record* r = model_.find(c);
      // The first twice: all others are compared with it.
      const std::size_t enough = c == choice_when_opened_ ? 2 : 1;
      if (r != nullptr && !r->stale && (r->elapsed.size() >= enough || r->launches > 8)) continue;
      const auto b = model_.hoped_bound(c);
      if (b && *b > options_.budget) continue;
      for (std::size_t i = 0; i < prospects_.size(); ++i) {
        if (prospects_[i].what == c && (prospects_[i].under_way == 0 || !chosen)) chosen = i;
      }
      if (chosen) return chosen;
    }
    return std::nullopt;
  }
  /// The candidate that may be the fastest, given what is not known of it.
  [[nodiscard]] std::optional<std::size_t> propose() const {
    std::optional<std::size_t> chosen = to_open();
    if (chosen) return chosen;
    if (!anything_timed()) {
      const std::optional<nanoseconds> b = model_.bound(choice_);
      return b && *b > options_.budget ? sooner() : std::nullopt;
    }
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < prospects_.size(); ++i) {
      const prospect& e = prospects_[i];
      if (!e.fits || (e.under_way > 0 && measured(e.what) == nullptr)) continue;
      const double hope = e.expected - caution * e.deviation;
      if (hope < least) {
        least = hope;
        chosen = i;
      }
    }
    return chosen ? chosen : sooner();
  }
  /// Where nothing keeps the budget: what is to be hoped to leave sooner than all that was tried.
  [[nodiscard]] std::optional<std::size_t> sooner() const {
    nanoseconds least = nanoseconds::max();
    for (const record& r : model_.records()) {
      if (const auto b = model_.bound(r.what)) least = std::min(least, *b);
    }
    std::optional<std::size_t> chosen;
    for (std::size_t i = 0; i < prospects_.size(); ++i) {
      const prospect& e = prospects_[i];
      if (e.under_way > 0 || model_.find(e.what) != nullptr) continue;
      const auto b = model_.hoped_bound(e.what);
      if (!b || *b >= least) continue;
      least = *b;
      chosen = i;
    }
    return chosen;
  }

  [[nodiscard]] bool anything_timed() const {
    return std::any_of(model_.records().begin(), model_.records().end(),
                       [](const record& r) { return !r.elapsed.empty(); });
  }

  /// After an observation: what is the best choice now, and is it good enough?
  void refresh() {
    const bool timed = anything_timed();
    if (timed) estimate();
    const prospect* b = timed ? best() : nullptr;
    if (b == nullptr) {
      // Nothing is known to keep the budget, or nothing but the lengths of tiles: what leaves
      // soonest.
      nanoseconds least = nanoseconds::max();
      for (const record& r : model_.records()) {
        const auto bound = model_.bound(r.what);
        if (r.stale || r.elapsed.empty() == timed || !bound || *bound >= least) continue;
        least = *bound;
        choice_ = r.what;
      }
      if (!timed) return;
      const bool done = !propose() && !anything_under_way();
      if (timed_ >= options_.most_trials || done) settle(false);
      return;
    }
    choice_ = b->what;
    if (timed_ >= options_.most_trials || certain(*b)) settle(true);
  }
  [[nodiscard]] bool anything_under_way() const {
    return std::any_of(prospects_.begin(), prospects_.end(),
                       [](const prospect& e) { return e.under_way > 0; });
  }
  /// Whether nothing else is likely to be faster by more than the tolerance.
  [[nodiscard]] bool certain(const prospect& b) const {
    if (measured(b.what)->elapsed.size() < 2 || to_open()) return false;
    for (const prospect& e : prospects_) {
      if (!e.fits || e.what == b.what) continue;
      if (e.expected - caution * e.deviation < b.expected - options_.tolerance) return false;
    }
    return true;
  }
  void settle(bool fits) {
    state_ = search_state::settled;
    if (!fits || slowdown() > options_.slowest) state_ = search_state::too_coarse;
    const record* r = measured(choice_);
    drift_.begin(nanoseconds{r == nullptr ? 0 : static_cast<std::int64_t>(r->elapsed.median())});
  }

  /// What was measured is not true any more. Longest tiles are kept until they are measured again,
  /// so that nothing is proposed that was out of budget.
  void reopen() {
    model_.age();
    ++reopened_;
    trials_ = 0;
    timed_ = 0;
    state_ = search_state::searching;
    if (const auto b = model_.bound(choice_); b && *b > options_.budget) choice_ = soonest();
    choice_when_opened_ = choice_;
    for (const candidate& c : opening()) know(c);
  }
  [[nodiscard]] candidate soonest() const {
    candidate best = first();
    nanoseconds least = nanoseconds::max();
    for (const record& r : model_.records()) {
      const auto b = model_.bound(r.what);
      if (!b || *b >= least) continue;
      least = *b;
      best = r.what;
    }
    return best;
  }

  search_options options_;
  cost_model model_;
  drift drift_;
  std::vector<prospect> prospects_;
  candidate choice_;
  candidate choice_when_opened_;
  search_state state_ = search_state::searching;
  std::uint64_t launches_ = 0;
  unsigned trials_ = 0;
  unsigned timed_ = 0;  ///< of these, that ran from their first tile to their last
  unsigned reopened_ = 0;
};

}  // namespace tuning

CEDE_END_NAMESPACE
