// SPDX-License-Identifier: Apache-2.0
// How Tally (ASPLOS 2025) chooses a configuration, to be measured against: each launch runs a few
// times under each candidate, workers before slices and the widest first; what a raise has to wait
// for is taken to be half a wave of workers, or a slice; of those that are estimated to leave in
// time the fastest tenth of speeds wins, and in it what leaves soonest.
#pragma once

#include <cede/tuning/candidate.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace bench {

struct tally_options {
  std::chrono::nanoseconds limit{31'600};  ///< of the estimated turnaround
  unsigned runs = 5;                       ///< of each candidate
};

/// The same calls as `cede::tuning::search`. Deterministic; does not wait.
class tally_rule {
 public:
  using candidate = cede::tuning::candidate;

  tally_rule(const cede::tuning::launch_facts& l, const cede::tuning::machine_facts& m,
             tally_options o = {})
      : launch_(l), machine_(m), options_(o) {
    using cede::form;
    // One tile a claim; a grid no larger than the device has SMs is never made preemptible.
    if (allows(l, m, form::persistent) && l.tiles > m.sms) {
      for (unsigned w = l.workers_fit; w >= 1; --w) {
        tried_.push_back({.what = cede::tuning::persistent(w, 1)});
      }
    }
    if (allows(l, m, form::sliced) && l.tiles > m.sms) {
      for (std::uint64_t k = 2; k <= l.tiles / m.sms; k *= 2) {
        tried_.push_back({.what = cede::tuning::sliced(k)});
      }
    }
    if (tried_.empty()) tried_.push_back({.what = cede::tuning::whole()});
  }

  [[nodiscard]] candidate next() const {
    for (const trial& t : tried_) {
      if (t.runs < options_.runs) return t.what;
    }
    return choice_;
  }
  /// One that left early is run again.
  void observe(const candidate& c, const cede::tuning::observation& o) {
    if (settled() || !o.complete) return;
    for (trial& t : tried_) {
      if (!(t.what == c)) continue;
      t.sum += cede::tuning::cost_model::ns(o.elapsed);
      ++t.runs;
    }
    if (settled()) choose();
  }
  [[nodiscard]] bool settled() const {
    return std::all_of(tried_.begin(), tried_.end(),
                       [&](const trial& t) { return t.runs >= options_.runs; });
  }
  [[nodiscard]] candidate current() const { return settled() ? choice_ : next(); }

 private:
  struct trial {
    candidate what;
    double sum = 0;
    unsigned runs = 0;
    [[nodiscard]] double mean() const { return sum / runs; }
  };

  /// A mean and no bound: that of a wave, halved; of a slice, all.
  [[nodiscard]] double turnaround(const trial& t) const {
    const auto tiles = static_cast<double>(launch_.tiles);
    switch (t.what.how) {
      case cede::form::persistent: {
        const auto workers =
            static_cast<double>(cede::tuning::workers_of(t.what, launch_, machine_));
        return t.mean() / (tiles / workers) / 2;
      }
      case cede::form::sliced:
        return t.mean() / static_cast<double>(t.what.slices);
      default:
        return t.mean();
    }
  }

  void choose() {
    double fastest = std::numeric_limits<double>::infinity();
    for (const trial& t : tried_) fastest = std::min(fastest, t.mean());
    const double limit = cede::tuning::cost_model::ns(options_.limit);
    const auto bucket = [&](const trial& t) { return static_cast<int>(10 * fastest / t.mean()); };
    const trial* best = nullptr;
    // Up to ten times slower is taken without a word; beyond that, what leaves soonest.
    for (const trial& t : tried_) {
      if (turnaround(t) > limit || bucket(t) < 1) continue;
      if (best == nullptr || bucket(t) > bucket(*best) ||
          (bucket(t) == bucket(*best) && turnaround(t) < turnaround(*best))) {
        best = &t;
      }
    }
    for (const trial& t : tried_) {
      if (best == nullptr || (turnaround(*best) > limit && turnaround(t) < turnaround(*best))) {
        best = &t;
      }
    }
    choice_ = best->what;
  }

  cede::tuning::launch_facts launch_;
  cede::tuning::machine_facts machine_;
  tally_options options_;
  std::vector<trial> tried_;
  candidate choice_ = cede::tuning::whole();
};

}  // namespace bench
