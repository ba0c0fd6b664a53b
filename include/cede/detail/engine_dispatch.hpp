// SPDX-License-Identifier: Apache-2.0
// The dispatcher: the one thread that reads what the device published, asks the policy, raises
// gates for it and submits gated work. It sleeps when nothing is outstanding.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_collect.hpp>
#include <cede/detail/engine_end.hpp>
#include <cede/detail/engine_submit.hpp>

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline bool engine::anything_outstanding() const {
  return outstanding_ != 0 || placing_ != 0 || !trash_.empty() || !condemned_.empty() ||
         std::any_of(gated_.begin(), gated_.end(),
                     [](const workload_core* w) { return !w->busy.empty(); });
}

/// How long to leave the device alone. Short while the latency-critical side is active and
/// something waits for it to go idle; at most a fraction of a launch while two are in flight.
inline std::chrono::nanoseconds engine::pause_length(bool progressed) const {
  using namespace std::chrono_literals;
  if (progressed) return 0ns;
  if (was_active_) return 4us;
  // While latency-critical work comes and goes its end must be seen soon; else two launches in
  // flight leave time.
  const auto most =
      idle_since_ > since_start(clock::now()) - 50ms ? std::chrono::nanoseconds(40us) : 250us;
  return std::clamp<std::chrono::nanoseconds>(typical_launch_ / 4, 4us, most);
}

inline void engine::dispatch_loop() {
  this_thread_serves() = {this, false};
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // short sleeps are meant to be short
  ::prctl(PR_SET_NAME, "cede-dispatch", 0UL, 0UL, 0UL);
  device_->enter();
  std::unique_lock lock(mutex_);
  auto last_check = clock::now();
  unsigned quiet = 0;
  while (true) {
    try {
      throw_if_failed();
      bool blocked_inline = false;
      bool progressed = collect(lock);
      if (stopping_) cancel_suspended();
      {
        const std::scoped_lock requests(requests_mutex_);
        blocked_inline = !blockers_.empty();
      }
      collect_answers();
      std::erase_if(condemned_, [&](const auto& c) {
        if (!is_over(c.first)) return false;
        trash_.push_back(c.second);
        return true;
      });
      const bool drain = !trash_.empty() && !quiet_ && !free_trash(lock);
      if (!anything_outstanding() && !blocked_inline) {
        uncover();
        finished_.notify_all();
        if (stopping_) break;
        {
          // Work outside requests is not timed while it keeps nobody out.
          const std::scoped_lock requests(requests_mutex_);
          if (open_requests_.empty() && answering_.empty()) end_busy(since_start(clock::now()));
        }
        asleep_.store(true);
        if (!nudged_.exchange(false)) {
          work_.wait(lock, [&] {
            return nudged_.exchange(false) || stopping_ || outstanding_ != 0 ||
                   !condemned_.empty() || has_failed_.load();
          });
        }
        asleep_.store(false);
        last_look_ = clock::now();
        first_raise_.store(0, std::memory_order_relaxed);
        quiet = 0;
        continue;
      }
      if (outstanding_ != 0 && !quiet_) cover_again(lock);
      if (std::exchange(probe_wanted_, false)) {
        probed_ = clock::now();
        ++probe_value_;
        driver_call(lock, [&] { device_->write_value(probe_stream_, probe_word_, probe_value_); });
      }
      close_overdue_requests(lock);

      const auto now = clock::now();
      build_view(now);
      lift_what_stands_still(now);
      const bool active = keeps_gated_out();
      look_at_time(active, now);
      verdict_.actions.clear();
      verdict_.again = std::chrono::nanoseconds::max();
      const policy::view seen{since_start(now), active, idle_since_, views_};
      options_.policy->decide(seen, verdict_);
      for (const policy::action& a : verdict_.actions) {
        if (a.workload >= views_.size()) {
          throw contract_error(
              "the policy named workload " + std::to_string(a.workload) + ", but was shown " +
              std::to_string(views_.size()) +
              "; policy::action::workload is an index into policy::view::workloads");
        }
        workload_core& w = *gated_[a.workload];
        if (a.what == policy::verb::raise) {
          w.raised = true;
          if (w.counting) account(w, clock::now());
          w.counting = false;
          // On the latency-critical path the gate is up already; a second raise is harmless.
          if (!active)
            last_raise_.store(since_start(clock::now()).count(), std::memory_order_relaxed);
          protocol::raise<atomics>(*w.host_gate);
        } else if (!drain && !quiet_) {
          submit_workload(w, lock);
        }
      }
      if (now - last_check > std::chrono::milliseconds(20)) {
        last_check = now;
        driver_call(lock, [&] { device_->check(); });
      }
      quiet = progressed || !verdict_.actions.empty() ? 0 : quiet + 1;
      auto pause = pause_length(progressed);
      // Nothing moved for a while (suspended, or waiting for the host): look less often.
      if (quiet > 1000 && !active)
        pause = std::min<std::chrono::nanoseconds>(pause * (quiet / 1000),
                                                   std::chrono::milliseconds(1));
      if (verdict_.again != std::chrono::nanoseconds::max()) {
        const auto at = std::max(verdict_.again, std::chrono::nanoseconds(0));
        pause = std::clamp<std::chrono::nanoseconds>(at - since_start(clock::now()),
                                                     std::chrono::nanoseconds(0), pause);
      }
      look_at_waits(seen);
      const bool all_out =
          active && !progressed &&
          std::none_of(views_.begin(), views_.end(), [](const auto& v) { return v.in_flight; });
      lock.unlock();
      // With everything gated out there is one thing to see, the end of latency-critical work: it
      // is looked for without locks and without touching what that side's threads write.
      unsigned looks = all_out && !blocked_inline ? 50 : 1;
      while (looks-- > 0 && pause.count() > 0 && !nudged_.exchange(false)) {
        const timespec t{0, static_cast<long>(pause.count())};
        ::nanosleep(&t, nullptr);
        if (!keeps_gated_out()) break;
      }
      lock.lock();
    } catch (...) {
      fail(std::current_exception());
      if (!lock.owns_lock()) lock.lock();
      tell_failure();
      drop_queues();
      work_.wait(lock, [&] { return stopping_; });
      break;
    }
  }
  down_ = true;
  finished_.notify_all();
}

}  // namespace detail

CEDE_END_NAMESPACE
