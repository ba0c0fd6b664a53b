// SPDX-License-Identifier: Apache-2.0
// The default policy: the latency-critical side first, then level by level, then shares by weight.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/policy/policy.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace policy {

struct strict_priority_options {
  /// GPU time a workload may use before a peer of its level gets its turn. Larger than 0.
  nanoseconds quantum = std::chrono::milliseconds{2};
};

/// Who runs:
/// - Latency-critical activity raises every gated workload in flight.
/// - A workload stays out until its hold-off has passed since that activity ended.
/// - Of the workloads that are in flight or could submit, only those of the highest level may go
/// on;
///   lower ones in flight are raised.
/// - Within that level one workload at a time holds the turn, for a quantum of GPU time; when it is
///   over the turn goes to the peer with the least weighted GPU time so far. A workload that is
///   away (nothing to submit, or held off) lends the machine to a peer meanwhile and gets it back
///   if it returns within a quantum, so that a program that synchronises after each launch keeps
///   its share.
/// - Absence earns nothing: who returns after more than a quantum starts level with those present;
///   who returns earlier is owed a quantum at most.
/// - Suspended workloads leave and never submit.
///
/// Keeps state between calls, by index into `view::workloads`: workloads are appended, never
/// removed. Time a workload has been in flight counts as used even before `used` says so.
///
/// One thread at a time; never waits; allocates only when the number of workloads or levels grows.
class strict_priority final : public scheduling_policy {
 public:
  /// Throws `invalid_argument` if the quantum is not larger than 0.
  explicit strict_priority(strict_priority_options options = {}) : quantum_(options.quantum) {
    if (quantum_ <= nanoseconds{0}) {
      throw invalid_argument("strict_priority: the quantum is " + std::to_string(quantum_.count()) +
                             " ns; a turn must last longer than 0");
    }
  }

  void decide(const view& v, verdict& out) override {
    out.actions.clear();
    out.again = nanoseconds::max();
    out.actions.reserve(2 * v.workloads.size());  // each is raised at most once, one submits
    keep_accounts(v);
    if (v.active) {
      for (std::size_t i = 0; i < v.workloads.size(); ++i) raise(i, out);
    } else {
      admit(v, out);
    }
    now_ = v.now;
  }

 private:
  static constexpr std::size_t nobody = std::numeric_limits<std::size_t>::max();

  struct account {
    nanoseconds used{0};      ///< as last told
    nanoseconds estimate{0};  ///< seen running since `used` last changed
    nanoseconds last_present{0};
    double virtual_time = 0;  ///< ns of GPU time divided by weight
    bool known = false;       ///< seen before
    bool present = false;     ///< at the last call
    bool running = false;     ///< was in flight, not raised, after the last call
  };

  /// The virtual time of a level: what its least served present member had. Never goes back, so it
  /// outlives the absence of all members.
  struct level_clock {
    priority level{};
    double time = 0;
  };

  static bool running(const workload_view& w) { return w.in_flight && !w.raised; }

  static double weight(const workload_view& w) {
    constexpr double least = 1e-9;
    return w.weight > least ? w.weight : least;  // also for not-a-number
  }

  /// `later - earlier`, at most the largest duration, at least 0.
  static nanoseconds since(nanoseconds later, nanoseconds earlier) {
    nanoseconds::rep difference = 0;
    if (later < earlier) return nanoseconds{0};
    if (__builtin_sub_overflow(later.count(), earlier.count(), &difference)) {
      return nanoseconds::max();
    }
    return nanoseconds{difference};
  }

  static nanoseconds after(nanoseconds now, nanoseconds span) {
    nanoseconds::rep sum = 0;
    return __builtin_add_overflow(now.count(), span.count(), &sum) ? nanoseconds::max()
                                                                   : nanoseconds{sum};
  }

  static nanoseconds held_off_for(const view& v, const workload_view& w) {
    const nanoseconds idle = since(v.now, v.idle_since);
    return idle >= w.hold_off ? nanoseconds{0} : w.hold_off - idle;
  }

  /// Could submit right now if it were its turn.
  static bool eligible(const view& v, const workload_view& w) {
    return w.ready && !w.suspended && held_off_for(v, w) == nanoseconds{0};
  }

  /// Has a claim to the machine before lower levels. Leaving counts: it is about to come back.
  static bool claims(const view& v, const workload_view& w) {
    return !w.suspended && (w.in_flight || eligible(v, w));
  }

  /// Present, as the accounts see it. A hold-off is absence, for those on their way out as well:
  /// who waits to be let in must not fall behind who is still leaving.
  static bool present(const view& v, const workload_view& w) {
    const bool kept_out = !v.active && held_off_for(v, w) > nanoseconds{0};
    return !w.suspended && (w.ready || w.in_flight) && (!kept_out || running(w));
  }

  void raise(std::size_t i, verdict& out) {
    if (!accounts_[i].running) return;
    out.actions.push_back({verb::raise, i});
    accounts_[i].running = false;
  }

  double& clock_of(priority level) {
    for (level_clock& c : clocks_) {
      if (c.level == level) return c.time;
    }
    clocks_.push_back({level, 0});
    return clocks_.back().time;
  }

  // GPU time since the last call, then the level clocks, then those who return.
  void keep_accounts(const view& v) {
    const std::size_t n = v.workloads.size();
    if (accounts_.size() < n) accounts_.resize(n);
    const nanoseconds elapsed = since(v.now, now_);
    for (std::size_t i = 0; i < n; ++i) {
      const workload_view& w = v.workloads[i];
      account& a = accounts_[i];
      const nanoseconds before = a.used + a.estimate;
      if (!a.known || w.used != a.used || !w.in_flight) {
        a.estimate = nanoseconds{0};
      } else if (a.running) {
        a.estimate += elapsed;
      }
      if (a.known) {
        const nanoseconds delta = w.used + a.estimate - before;
        a.virtual_time += static_cast<double>(delta.count()) / weight(w);
        if (i == holder_) turn_ = std::max(nanoseconds{0}, turn_ + delta);
      }
      a.used = w.used;
      a.running = running(w);
    }
    for (level_clock& c : clocks_) advance(c, v);
    for (std::size_t i = 0; i < n; ++i) {
      const workload_view& w = v.workloads[i];
      account& a = accounts_[i];
      const bool here = present(v, w);
      if (here && !a.present) {
        const bool away = !a.known || since(v.now, a.last_present) > quantum_;
        const double owed = away ? 0 : static_cast<double>(quantum_.count()) / weight(w);
        a.virtual_time = std::max(a.virtual_time, clock_of(w.level) - owed);
      }
      // What changed since the last call changed just now.
      if (here || a.present) a.last_present = v.now;
      a.known = true;
      a.present = here;
    }
  }

  // Over those who were present until now, so that who leaves now still counts.
  void advance(level_clock& clock, const view& v) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      if (v.workloads[i].level == clock.level && accounts_[i].present) {
        least = std::min(least, accounts_[i].virtual_time);
      }
    }
    if (least < std::numeric_limits<double>::infinity()) clock.time = std::max(clock.time, least);
  }

  void admit(const view& v, verdict& out) {
    const std::size_t n = v.workloads.size();
    bool any = false;
    priority top{};
    for (const workload_view& w : v.workloads) {
      if (claims(v, w) && (!any || w.level > top)) {
        any = true;
        top = w.level;
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      const workload_view& w = v.workloads[i];
      if (w.suspended || w.level < top) raise(i, out);
      const bool waits = w.ready && !w.suspended && (!any || w.level >= top);
      const nanoseconds out_for = waits ? held_off_for(v, w) : nanoseconds{0};
      if (out_for > nanoseconds{0}) out.again = std::min(out.again, after(v.now, out_for));
    }
    if (!any) return;

    const std::size_t chosen = choose(v, top, out);
    if (chosen == nobody) return;
    for (std::size_t i = 0; i < n; ++i) {
      if (i != chosen && v.workloads[i].level == top) raise(i, out);
    }
    if (eligible(v, v.workloads[chosen])) {
      out.actions.push_back({verb::submit, chosen});
      accounts_[chosen].running = true;
    }
  }

  /// Can use the machine now: runs, or would submit.
  static bool contends(const view& v, const workload_view& w, priority top) {
    return w.level == top && !w.suspended && (running(w) || eligible(v, w));
  }

  /// The contender with the least virtual time, ties in index order after `last`.
  std::size_t least_served(const view& v, priority top, std::size_t last) const {
    const std::size_t n = v.workloads.size();
    std::size_t best = nobody;
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t i = last < n ? (last + 1 + k) % n : k;
      if (!contends(v, v.workloads[i], top)) continue;
      if (best == nobody || accounts_[i].virtual_time < accounts_[best].virtual_time) best = i;
    }
    return best;
  }

  /// Another workload of the level that could submit if it were its turn.
  static bool rival_of(std::size_t chosen, const view& v, priority top) {
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      if (i != chosen && v.workloads[i].level == top && eligible(v, v.workloads[i])) return true;
    }
    return false;
  }

  std::size_t choose(const view& v, priority top, verdict& out) {
    const bool held = holder_ < v.workloads.size() && v.workloads[holder_].level == top &&
                      !v.workloads[holder_].suspended;
    const bool back = held && contends(v, v.workloads[holder_], top);
    if (back) {
      away_ = false;
    } else if (!away_) {
      away_ = true;
      away_since_ = v.now;
    }
    const nanoseconds away = since(v.now, away_since_);

    if (held && !back && away < quantum_ && turn_ < quantum_) {
      // Away for a moment: a peer uses the machine until the holder returns or its turn lapses.
      const bool goes_on =
          stand_in_ < v.workloads.size() && contends(v, v.workloads[stand_in_], top);
      if (!goes_on) stand_in_ = least_served(v, top, holder_);
      if (stand_in_ != nobody && rival_of(stand_in_, v, top)) {
        out.again = std::min(out.again, after(v.now, quantum_ - away));
      }
      return stand_in_;
    }
    stand_in_ = nobody;
    if (!back || (turn_ >= quantum_ && rival_of(holder_, v, top))) {
      const std::size_t next = least_served(v, top, holder_);
      if (next == nobody) return nobody;
      holder_ = next;
      turn_ = nanoseconds{0};
      away_ = false;
    }
    if (rival_of(holder_, v, top)) {
      out.again = std::min(out.again, after(v.now, quantum_ - turn_));
    }
    return holder_;
  }

  nanoseconds quantum_;
  nanoseconds now_{0};
  std::size_t holder_ = nobody;  ///< whose turn it is
  nanoseconds turn_{0};          ///< GPU time the holder used of it
  bool away_ = false;            ///< the holder cannot use its turn at the moment
  nanoseconds away_since_{0};
  std::size_t stand_in_ = nobody;  ///< uses the machine while the holder is away
  std::vector<account> accounts_;
  std::vector<level_clock> clocks_;
};

}  // namespace policy

CEDE_END_NAMESPACE
