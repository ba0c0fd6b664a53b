// SPDX-License-Identifier: Apache-2.0
// Why a gated workload that has something ready is not on the device, and what that costs.
#pragma once

#include <cede/config.hpp>
#include <cede/policy/policy.hpp>
#include <cede/stats.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace policy {

/// What workload `i` of a view waits for. The first in the order above: what is raised for
/// latency-critical work would not run either if its peers were gone.
[[nodiscard]] inline wait_cause why_waits(const view& v, std::size_t i) {
  const workload_view& w = v.workloads[i];
  if (!w.ready || w.in_flight || (w.suspended && !w.limited)) return wait_cause::none;
  if (w.limited) return wait_cause::rate_limit;
  if (v.active) return wait_cause::critical;
  if (v.idle_since > v.now - w.hold_off) return wait_cause::hold_off;
  for (const workload_view& other : v.workloads) {
    if (other.in_flight) return wait_cause::peer;
  }
  return wait_cause::scheduler;
}

/// Adds up a workload's waits from looks at it. What a look finds is taken to last until the next
/// one. One thread at a time; never waits or allocates.
class wait_account {
 public:
  /// So much time went by since the last look.
  void pass(nanoseconds elapsed) {
    if (seen_ == wait_cause::none) return;
    const auto cause = static_cast<std::size_t>(seen_);
    all_.time[cause] += elapsed;
    current_.longest[cause] += elapsed;
    if (current_.longest_total() > all_.longest_total()) all_.longest = current_.longest;
  }
  void see(wait_cause now) {
    if (now == wait_cause::none) {
      current_ = {};
    } else if (seen_ == wait_cause::none) {
      ++all_.count;
    }
    seen_ = now;
  }
  [[nodiscard]] const waits& all() const { return all_; }

 private:
  waits all_;
  waits current_;  ///< its `longest` is the wait that goes on
  wait_cause seen_ = wait_cause::none;
};

/// What became of the time that latency-critical work left, and how soon it had the device to
/// itself; from looks, as `wait_account`.
class idle_account {
 public:
  void pass(nanoseconds elapsed) {
    if (seen_ == use::harvested) harvested_ += elapsed;
    if (seen_ == use::lost) lost_ += elapsed;
  }
  /// `ready`: some gated workload could submit; `in_flight`: one has work on the device.
  void see(bool active, bool ready, bool in_flight) {
    seen_ = active ? use::none : in_flight ? use::harvested : ready ? use::lost : use::none;
  }
  /// Latency-critical work is active (since `since`) or not, gated work on the device or not. What
  /// it took to clear the device, when that has just ended.
  std::optional<nanoseconds> clear(nanoseconds now, bool active, nanoseconds since,
                                   bool in_flight) {
    if (!active) {
      clearing_ = false;  // it ended beside work that had not left yet, or needed no room
      was_active_ = false;
      return {};
    }
    if (in_flight) {
      // Work that is on the device when latency-critical work begins, not what slips in later.
      if (!was_active_) clearing_ = true;
      was_active_ = true;
      return {};
    }
    was_active_ = true;
    if (!std::exchange(clearing_, false)) return {};
    return now - since;
  }
  [[nodiscard]] nanoseconds harvested() const { return harvested_; }
  [[nodiscard]] nanoseconds lost() const { return lost_; }

 private:
  enum class use : std::uint8_t { none, harvested, lost };
  use seen_ = use::none;
  nanoseconds harvested_{0};
  nanoseconds lost_{0};
  bool was_active_ = false;
  bool clearing_ = false;
};

}  // namespace policy

CEDE_END_NAMESPACE
