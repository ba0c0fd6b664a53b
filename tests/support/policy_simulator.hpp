// SPDX-License-Identifier: Apache-2.0
// A GPU, its workloads and a latency-critical service in virtual time, driven by a policy: no
// threads, no clock, the same run for the same seed.
//
// The model: the latency-critical side is served at once, one request after another. A gated
// workload that was submitted runs at full speed while the gate is down; raised, it needs its
// turnaround to leave and keeps what it has done. Launches of a workload run in order, two
// submitted at most.
#pragma once

#include <cede/policy/policy.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "support/policy_oracle.hpp"
#include "support/random.hpp"

namespace cede_test {

struct simulated_workload {
  /// Where its launches come from.
  enum class source {
    backlogged,   ///< always the next one ready
    synchronous,  ///< the next one comes `gap` after the last is finished
    random        ///< at exponential distances of `gap`, however many wait
  };
  cede::priority level = cede::best_effort;
  double weight = 1;
  nanoseconds hold_off{0};
  source from = source::backlogged;
  nanoseconds launch{0};  ///< longest; each takes from half of it to all of it
  nanoseconds gap{0};
  nanoseconds turnaround{0};  ///< longest; from 0
  nanoseconds toggle{0};      ///< suspended and resumed at distances up to this; 0 = never
};

struct simulation_plan {
  std::uint64_t seed = 1;
  nanoseconds length{0};
  bool late_accounts = false;  ///< `used` is told when work has left, not while it runs
  nanoseconds request_gap{0};  ///< mean distance of requests; 0 = none
  nanoseconds service{0};      ///< longest; each takes from half of it to all of it
  std::vector<simulated_workload> workloads;
};

struct simulated_result {
  std::string wrong;  ///< the first rule broken; empty if none
  std::uint64_t decisions = 0;
  std::uint64_t digest = 0;  ///< of all decisions and their times
  nanoseconds open{0};       ///< time the latency-critical side was idle
  nanoseconds unused{0};     ///< of it, nobody ran although somebody on top could have
  std::vector<nanoseconds> used;
  std::vector<std::uint64_t> finished;
  std::vector<std::uint64_t> raises;
  /// Longest open time a workload could have run on top and did not.
  std::vector<nanoseconds> longest_wait;
  /// Largest spread of used / weight among workloads of one level seen after a decision.
  double spread = 0;
};

class policy_simulator {
 public:
  explicit policy_simulator(const simulation_plan& plan)
      : plan_(plan), rng_(plan.seed), states_(plan.workloads.size()), views_(states_.size()) {
    const std::size_t n = states_.size();
    result_.used.resize(n);
    result_.finished.resize(n);
    result_.raises.resize(n);
    result_.longest_wait.resize(n);
    next_request_ = plan.request_gap > nanoseconds{0} ? exponential(plan.request_gap) : never;
    for (std::size_t i = 0; i < n; ++i) {
      const simulated_workload& w = plan.workloads[i];
      states_[i].arrival =
          w.from == simulated_workload::source::backlogged ? never : exponential(w.gap);
      if (w.toggle > nanoseconds{0}) states_[i].toggle = up_to(w.toggle);
    }
  }

  simulated_result run(cede::scheduling_policy& policy) {
    while (now_ < plan_.length && result_.wrong.empty()) {
      happen();
      settle(policy);
      const nanoseconds next = std::max(next_event(), now_ + nanoseconds{1});
      advance(std::min(next, plan_.length));
    }
    for (std::size_t i = 0; i < states_.size(); ++i) result_.used[i] = states_[i].used;
    return result_;
  }

 private:
  static constexpr nanoseconds never = nanoseconds::max();

  struct state {
    std::deque<nanoseconds> pending;  ///< what is left of each launch not submitted
    std::deque<nanoseconds> submitted;
    bool raised = false;
    bool suspended = false;
    nanoseconds out_at = never;  ///< when a raised one has left
    nanoseconds arrival = never;
    nanoseconds toggle = never;
    nanoseconds used{0};
    nanoseconds told{0};
    nanoseconds waited{0};
  };

  nanoseconds exponential(nanoseconds mean) {
    // The sum of four is close enough to exponential for arrivals, and the same on every machine.
    double product = 1;
    for (int i = 0; i < 4; ++i) product *= 0.25 + 1.5 * rng_.unit();
    return std::max(
        nanoseconds{1},
        nanoseconds{static_cast<std::int64_t>(static_cast<double>(mean.count()) * product)});
  }
  nanoseconds up_to(nanoseconds longest) {
    return nanoseconds{
        1 + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(longest.count()) + 1))};
  }
  nanoseconds half_to(nanoseconds longest) { return longest / 2 + up_to(longest / 2); }

  [[nodiscard]] bool active() const { return !requests_.empty(); }

  void happen() {
    while (!requests_.empty() && requests_.front() <= nanoseconds{0}) {
      requests_.pop_front();
      if (requests_.empty()) idle_since_ = now_;
    }
    for (; next_request_ <= now_; next_request_ = now_ + exponential(plan_.request_gap))
      requests_.push_back(half_to(plan_.service));
    for (std::size_t i = 0; i < states_.size(); ++i) happen(i);
  }

  void happen(std::size_t i) {
    const simulated_workload& w = plan_.workloads[i];
    state& s = states_[i];
    while (!s.submitted.empty() && s.submitted.front() <= nanoseconds{0}) {
      s.submitted.pop_front();
      ++result_.finished[i];
      s.told = s.used;
      if (w.from == simulated_workload::source::synchronous) s.arrival = now_ + w.gap;
    }
    if (s.raised && (s.submitted.empty() || s.out_at <= now_)) {
      s.pending.insert(s.pending.begin(), s.submitted.begin(), s.submitted.end());
      s.submitted.clear();
      s.raised = false;
      s.out_at = never;
      s.told = s.used;
    }
    if (s.arrival <= now_) {
      s.pending.push_back(half_to(w.launch));
      s.arrival = w.from == simulated_workload::source::random ? now_ + exponential(w.gap) : never;
    }
    if (w.from == simulated_workload::source::backlogged) {
      while (s.pending.size() + s.submitted.size() < 3) s.pending.push_back(half_to(w.launch));
    }
    if (s.toggle <= now_) {
      s.suspended = !s.suspended;
      s.toggle = now_ + up_to(w.toggle);
    }
  }

  // Decides and carries out until nothing more is submitted, as a scheduler does.
  void settle(cede::scheduling_policy& policy) {
    for (int round = 0; round < 10; ++round) {
      for (std::size_t i = 0; i < states_.size(); ++i) {
        const simulated_workload& w = plan_.workloads[i];
        const state& s = states_[i];
        views_[i] = {.level = w.level,
                     .weight = w.weight,
                     .hold_off = w.hold_off,
                     .suspended = s.suspended,
                     .ready = !s.pending.empty() && s.submitted.size() < 2 && !s.raised,
                     .in_flight = !s.submitted.empty(),
                     .raised = s.raised,
                     .used = plan_.late_accounts ? s.told : s.used};
      }
      const view v{now_, active(), idle_since_, views_};
      policy.decide(v, verdict_);
      ++result_.decisions;
      note(static_cast<std::uint64_t>(now_.count()));
      for (const auto& a : verdict_.actions) note(2 * a.workload + (a.what == verb::raise ? 1 : 0));
      if (result_.wrong.empty()) {
        result_.wrong = broken_rule(v, verdict_);
        if (!result_.wrong.empty()) result_.wrong += '\n' + text_of(v) + '\n' + text_of(verdict_);
      }
      bool submitted = false;
      for (const auto& a : verdict_.actions) {
        state& s = states_[a.workload];
        if (a.what == verb::raise) {
          s.raised = true;
          s.out_at = now_ + up_to(plan_.workloads[a.workload].turnaround);
          ++result_.raises[a.workload];
        } else if (!s.pending.empty()) {
          s.submitted.push_back(s.pending.front());
          s.pending.pop_front();
          submitted = true;
        }
      }
      if (!submitted) return;
    }
    result_.wrong = "submits without end at one moment";
  }

  void note(std::uint64_t value) { result_.digest = random(result_.digest ^ value).next(); }

  /// Uses the device: runs, or is on its way out.
  static bool occupies(const state& s) { return !s.submitted.empty(); }

  nanoseconds next_event() const {
    nanoseconds next = std::min(next_request_, verdict_.again);
    if (active()) next = std::min(next, now_ + requests_.front());
    for (const state& s : states_) {
      next = std::min({next, s.out_at, s.arrival, s.toggle});
      if (occupies(s)) next = std::min(next, now_ + s.submitted.front());
    }
    return next;
  }

  // Who could submit on the highest level, at a moment without a decision in between.
  [[nodiscard]] bool could_run_on_top(std::size_t i, nanoseconds when) const {
    const auto claims = [&](std::size_t k) {
      const bool let_in = when >= idle_since_ + plan_.workloads[k].hold_off;
      return !states_[k].suspended && (occupies(states_[k]) || (views_[k].ready && let_in));
    };
    const state& s = states_[i];
    if (s.suspended || s.raised || !claims(i)) return false;
    for (std::size_t k = 0; k < states_.size(); ++k)
      if (plan_.workloads[k].level > plan_.workloads[i].level && claims(k)) return false;
    return true;
  }

  void advance(nanoseconds to) {
    const nanoseconds span = to - now_;
    if (active())
      requests_.front() -= span;
    else
      result_.open += span;

    bool somebody_runs = false;
    bool somebody_could = false;
    for (std::size_t i = 0; i < states_.size(); ++i) {
      state& s = states_[i];
      const bool running = occupies(s) && !s.raised;
      somebody_runs = somebody_runs || running;
      if (!active()) {
        // Just before the next decision: what changes in between must have been asked for.
        const bool could = could_run_on_top(i, to - nanoseconds{1});
        somebody_could = somebody_could || could;
        const bool absent = s.suspended || (s.pending.empty() && s.submitted.empty());
        if (running || absent)
          s.waited = nanoseconds{0};
        else if (could)
          s.waited += span;
        result_.longest_wait[i] = std::max(result_.longest_wait[i], s.waited);
      }
      if (occupies(s)) {
        const nanoseconds done = std::min(span, s.submitted.front());
        s.submitted.front() -= done;
        s.used += done;
      }
    }
    if (!active() && somebody_could && !somebody_runs) result_.unused += span;
    now_ = to;
    measure_spread();
  }

  void measure_spread() {
    for (std::size_t i = 0; i < states_.size(); ++i)
      for (std::size_t k = 0; k < i; ++k) {
        const simulated_workload& a = plan_.workloads[i];
        const simulated_workload& b = plan_.workloads[k];
        if (a.level != b.level) continue;
        const double difference = static_cast<double>(states_[i].used.count()) / a.weight -
                                  static_cast<double>(states_[k].used.count()) / b.weight;
        result_.spread = std::max(result_.spread, std::max(difference, -difference));
      }
  }

  const simulation_plan& plan_;
  random rng_;
  nanoseconds now_{0};
  nanoseconds idle_since_{0};
  nanoseconds next_request_{0};
  std::deque<nanoseconds> requests_;  ///< what is left of each
  std::vector<state> states_;
  std::vector<workload_view> views_;
  verdict verdict_;
  simulated_result result_;
};

}  // namespace cede_test
