// SPDX-License-Identifier: Apache-2.0
// Ends other than the good one: a failed device, and work that is cancelled.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_collect.hpp>

#include <exception>
#include <mutex>
#include <string>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline void engine::fail(std::exception_ptr why) noexcept {
  {
    const std::scoped_lock lock(failure_mutex_);
    if (has_failed_.load()) return;
    failure_ = std::move(why);
    has_failed_.store(true, std::memory_order_release);
  }
  // Whoever misses this notice looks again within 100 ms.
  nudged_.store(true);
  work_.notify_one();
  guard_wake_.notify_one();
}

/// Tells every waiter of the failure. Call with the lock.
inline void engine::tell_failure() {
  if (std::exchange(told_failure_, true)) return;
  for (workload_core* w : gated_) {
    for (auto& s : w->busy) {
      for (operation& op : s->queue) {
        if (auto* opaque = std::get_if<opaque_work>(&op.work);
            opaque != nullptr && !opaque->turn->granted) {
          const std::scoped_lock failure(failure_mutex_);
          opaque->turn->refused = failure_;
        }
      }
      // Waits on the device that stand for work which will not come must not hold anybody.
      s->cancelled = true;
      publish_done(*s);
    }
  }
  uncover();
  finished_.notify_all();
}

/// Lets go of everything queued, after a failure. What runs on the device is told to leave.
inline void engine::drop_queues() {
  for (workload_core* w : gated_) {
    protocol::raise<atomics>(*w->host_gate);
    for (auto& s : w->busy) {
      left_running_.push_back(s->lane);
      while (!s->queue.empty()) {
        discard(s->queue.back());
        s->queue.pop_back();
      }
    }
    w->busy.clear();
  }
  outstanding_ = 0;
}

/// An operation that will not happen. What a deferred callable owns may call the scheduler as it is
/// destroyed: that is done without the lock, by the thread that runs those callables. Call with the
/// lock.
inline void engine::discard(operation& op) {
  spare_events_of(op);
  if (auto* opaque = std::get_if<opaque_work>(&op.work); opaque != nullptr && opaque->deferred) {
    deferred_queue_.emplace_back([owner = std::move(opaque->deferred)] {});
    deferred_wake_.notify_one();
  }
}

/// Takes back what has not been submitted; who waits for it is told. Call with the lock.
inline void engine::cancel_stream(stream_core& s) {
  std::size_t dropped = 0;
  while (!s.queue.empty() && !s.queue.back().in_flight) {
    operation& op = s.queue.back();
    if (auto* opaque = std::get_if<opaque_work>(&op.work)) {
      opaque->turn->refused = std::make_exception_ptr(
          cancelled("stream " + s.name +
                    ": its work was cancelled because its scheduler ended while the workload, "
                    "or one it waited for, was suspended"));
    }
    discard(op);
    s.queue.pop_back();
    --outstanding_;
    ++dropped;
  }
  if (dropped == 0) return;
  if (!s.cancelled) {
    log("stream " + s.name +
        " was suspended, or waited for one that was, when its scheduler ended: " +
        std::to_string(dropped) + " operations were cancelled");
  }
  s.cancelled = true;
  publish_done(s);
  finished_.notify_all();
}

/// On shutdown: what suspended workloads have queued will not run. What they have on the device
/// leaves or ends first.
inline void engine::cancel_suspended() {
  for (workload_core* w : gated_) {
    if (!w->suspended) continue;
    for (auto& s : w->busy) cancel_stream(*s);
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
