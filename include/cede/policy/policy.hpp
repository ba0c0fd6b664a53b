// SPDX-License-Identifier: Apache-2.0
// What a policy is told and what it may ask for. A policy is a pure function of its own state and a
// view: no threads, no clock, no device.
#pragma once

#include <cede/config.hpp>
#include <cede/priority.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace policy {

using std::chrono::nanoseconds;

/// A gated workload (any but a latency-critical one) as the scheduler sees it at one moment.
struct workload_view {
  priority level = best_effort;
  double weight = 1;        ///< share of GPU time against workloads of the same level
  nanoseconds hold_off{0};  ///< stays out this long after the latency-critical side went idle
  bool suspended = false;   ///< by `workload::suspend`, or kept out by its rate limit
  bool ready = false;       ///< has an operation that could be submitted now
  bool in_flight = false;   ///< has submissions on the device
  bool raised = false;      ///< its gate was raised since its last submission: it is leaving
  nanoseconds used{0};      ///< GPU time it had, monotone
  bool limited = false;     ///< `suspended` by its rate limit alone
};

/// Everything a decision may depend on.
struct view {
  nanoseconds now{0};  ///< since the scheduler began
  /// Latency-critical work is in progress or a request is open, and not all of it is lifted
  /// (policy/lift.hpp).
  bool active = false;
  nanoseconds idle_since{0};  ///< when it last went idle; meaningless while active
  std::span<const workload_view> workloads;
};

enum class verb : std::uint8_t {
  submit,  ///< this workload may submit what it has ready
  raise    ///< this workload must leave
};

struct action {
  verb what = verb::submit;
  std::size_t workload = 0;  ///< index into `view::workloads`
  friend bool operator==(const action&, const action&) = default;
};

/// What to do now, and when to ask again if nothing happens (`nanoseconds::max()`: only on events).
struct verdict {
  std::vector<action> actions;
  nanoseconds again = nanoseconds::max();
};

}  // namespace policy

namespace detail {
class policy_use;
}

/// Decides who runs. Belongs to one scheduler at a time. Called by one thread at a time; must not
/// wait; the same state and view give the same verdict.
class scheduling_policy {
 public:
  virtual ~scheduling_policy() = default;
  /// Fills `out` (cleared before; its capacity is reused, so that steady state allocates nothing).
  virtual void decide(const policy::view& v, policy::verdict& out) = 0;
  /// False for a baseline that never gives way: the scheduler then raises no gate on the
  /// latency-critical path either.
  [[nodiscard]] virtual bool gives_way() const { return true; }

 private:
  friend class detail::policy_use;
  /// Whether a scheduler uses this object; a copy is nobody's yet.
  struct taken {
    std::atomic<bool> flag{false};
    taken() = default;
    taken(const taken&) noexcept {}
    taken& operator=(const taken&) noexcept { return *this; }
  } taken_;
};

CEDE_END_NAMESPACE
