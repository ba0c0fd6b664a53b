// SPDX-License-Identifier: Apache-2.0
// What any single decision of the strict-priority policy must satisfy, whatever its past. Written
// as rules about a view and a verdict, apart from how the policy arrives at one.
#pragma once

#include <cede/policy/policy.hpp>

#include <algorithm>
#include <cstddef>
#include <string>

namespace cede_test {

using cede::policy::nanoseconds;
using cede::policy::verb;
using cede::policy::verdict;
using cede::policy::view;
using cede::policy::workload_view;

/// When the workload's hold-off ends, for values far from the limits of a duration.
inline nanoseconds let_in_at(const view& v, const workload_view& w) {
  return v.idle_since + w.hold_off;
}
inline bool can_submit(const view& v, const workload_view& w) {
  return w.ready && !w.suspended && !v.active && v.now >= let_in_at(v, w);
}
inline bool is_running(const workload_view& w) { return w.in_flight && !w.raised; }

/// The rule this decision breaks, as a sentence; empty if it breaks none.
inline std::string broken_rule(const view& v, const verdict& out) {
  const std::size_t n = v.workloads.size();
  const auto count = [&](verb what, std::size_t i) {
    return std::count(out.actions.begin(), out.actions.end(), cede::policy::action{what, i});
  };
  const auto submits = std::count_if(out.actions.begin(), out.actions.end(),
                                     [](const auto& a) { return a.what == verb::submit; });

  for (const auto& a : out.actions)
    if (a.workload >= n) return "an action names a workload that is not there";
  if (submits > 1) return "two are told to submit";
  if (v.active && submits != 0)
    return "somebody is told to submit while the latency-critical side is active";
  if (v.active && out.again != nanoseconds::max())
    return "activity ends with an event, not with time";
  if (out.again <= v.now) return "asks to be asked again at once";

  std::size_t run_after = 0;
  bool some_can_submit_on_top = false;
  for (std::size_t i = 0; i < n; ++i) {
    const workload_view& w = v.workloads[i];
    const auto raises = count(verb::raise, i);
    const bool submits_now = count(verb::submit, i) != 0;
    if (raises > 1) return "raises one workload twice";
    if (raises != 0 && !is_running(w)) return "raises what does not run";
    if (raises != 0 && submits_now) return "raises and submits the same workload";
    if (submits_now && !can_submit(v, w)) return "submits what may not or cannot submit";
    const bool runs_after = (is_running(w) && raises == 0) || submits_now;
    if (runs_after) ++run_after;
    if ((v.active || w.suspended) && runs_after) return "somebody runs who must be out";

    // Who else has a claim: in flight counts even while leaving.
    bool higher_claim = false;
    bool peer_goes_on = false;
    for (std::size_t j = 0; j < n; ++j) {
      const workload_view& other = v.workloads[j];
      if (j == i || other.suspended) continue;
      if (other.level > w.level && (other.in_flight || can_submit(v, other))) higher_claim = true;
      const bool goes_on =
          count(verb::submit, j) != 0 || (is_running(other) && count(verb::raise, j) == 0);
      if (other.level == w.level && goes_on) peer_goes_on = true;
    }
    if (higher_claim && runs_after) return "a lower level runs beside a higher one";
    if (!v.active && !w.suspended && raises != 0 && !higher_claim && !peer_goes_on)
      return "sends a workload out for nobody";
    if (can_submit(v, w) && !higher_claim) some_can_submit_on_top = true;
    if (!v.active && w.ready && !w.suspended && v.now < let_in_at(v, w) && !higher_claim &&
        out.again > let_in_at(v, w))
      return "sleeps beyond the end of a hold-off";
  }
  if (run_after > 1) return "two run at once";
  if (some_can_submit_on_top && run_after == 0) return "nobody runs although somebody could";
  return "";
}

inline std::string text_of(const view& v) {
  std::string text = "now " + std::to_string(v.now.count()) +
                     (v.active ? ", active" : ", idle since ") +
                     (v.active ? std::string() : std::to_string(v.idle_since.count()));
  for (const workload_view& w : v.workloads) {
    text += "\n  level " + std::to_string(static_cast<int>(w.level)) + " weight " +
            std::to_string(w.weight) + " hold-off " + std::to_string(w.hold_off.count()) +
            " used " + std::to_string(w.used.count());
    if (w.suspended) text += " suspended";
    if (w.ready) text += " ready";
    if (w.in_flight) text += w.raised ? " leaving" : " running";
  }
  return text;
}

inline std::string text_of(const verdict& out) {
  std::string text;
  for (const auto& a : out.actions)
    text += (a.what == verb::submit ? "submit " : "raise ") + std::to_string(a.workload) + ' ';
  return text + "again " + std::to_string(out.again.count());
}

}  // namespace cede_test
