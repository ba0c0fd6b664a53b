// SPDX-License-Identifier: Apache-2.0
// The guard: notices when the dispatcher is stuck in a driver call or nothing moves, and says so.
//
// `cudaFree` waits for the whole device while it holds the driver's lock. If work is held back and
// its resume needs a launch, that launch waits for the lock and the free waits for the launch. The
// guard ends the wait that stands for held-back work, so that the free returns, early but aloud. It
// needs no driver call to do so.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_dispatch.hpp>

#include <cstdio>
#include <cstdlib>
#include <sstream>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline void engine::log(const std::string& sentence) const {
  const std::string line = "cede: " + sentence + "\n";
  std::fputs(line.c_str(), stderr);
}

/// Seconds without progress after which the state is printed; 0 = never. `CEDE_WATCHDOG`.
inline double watchdog_seconds() {
  const char* text = std::getenv("CEDE_WATCHDOG");
  if (text == nullptr) return 0;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  return end != text && seconds > 0 ? seconds : 0;
}

/// Changes whenever something on the device ends. Call with the lock.
inline std::uint64_t engine::device_progress() const {
  std::uint64_t sum = finished_operations_;
  const unsigned n = activity_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i) {
    sum += atomics::load<protocol::order::relaxed, protocol::scope::system>(
        activities_[i].load()->completed);
  }
  for (const workload_core* w : gated_) {
    for (const auto& s : w->busy) {
      sum += atomics::load<protocol::order::relaxed, protocol::scope::system>(*s->token);
    }
  }
  return sum;
}

inline bool engine::something_on_device() const {
  if (inline_runs_.load() > 0) return true;
  // Work that was launched, not requests that are merely open.
  const unsigned n = activity_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i) {
    const activity_words* a = activities_[i].load();
    const bool hold = std::any_of(workloads_.begin(), workloads_.end(),
                                  [&](const auto& w) { return &w->held == a; });
    if (!hold && protocol::active<atomics>(*a)) return true;
  }
  return std::any_of(gated_.begin(), gated_.end(), [](const workload_core* w) {
    return std::any_of(w->busy.begin(), w->busy.end(), [](const auto& s) { return on_device(*s); });
  });
}

inline void engine::guard_loop() {
  this_thread_serves() = {this, false};
  ::prctl(PR_SET_NAME, "cede-guard", 0UL, 0UL, 0UL);
  const double watchdog = watchdog_seconds();
  std::unique_lock lock(mutex_);
  std::uint64_t seen = finished_operations_;
  auto moved = clock::now();
  std::int64_t answered_call = 0;  // the stuck driver call that was let go
  std::int64_t given_up_call = 0;
  std::uint64_t seen_progress = 0;
  auto progressed = moved;
  bool let_go = false;  // the cover, for a moment, since nothing moved
  bool told = false;
  while (!down_) {
    if (outstanding_ == 0) {
      guard_wake_.wait(lock, [&] { return down_ || outstanding_ != 0; });
      seen = finished_operations_;
      moved = clock::now();
      continue;
    }
    guard_wake_.wait_for(lock, std::chrono::milliseconds(100));
    const auto now = clock::now();
    if (finished_operations_ != seen) {
      seen = finished_operations_;
      moved = now;
    }
    // Nothing ended for a while: ask whether the device does anything. A long kernel lets the probe
    // through; code that is being loaded does not, and waits for all streams, parked ones included.
    const std::uint64_t progress = device_progress();
    const bool probing = atomics::load<protocol::order::acquire, protocol::scope::system>(
                             *probe_word_) < probe_value_;
    if (progress != seen_progress) {
      if (let_go && !told) {
        told = true;
        log("work on the device stood still until the wait that stands for held-back work was let "
            "go for a "
            "moment: code was being loaded, most likely the first launch of a kernel. Meanwhile "
            "cudaDeviceSynchronize may have returned early. Launch kernels once before work is "
            "shared, or set "
            "CUDA_MODULE_LOADING=EAGER");
      }
      let_go = false;
      seen_progress = progress;
      progressed = now;
    } else if (!probing && !probe_wanted_ && now - progressed > options_.stuck_after / 2 &&
               something_on_device()) {
      probe_wanted_ = true;
      progressed = now;
    } else if (probing && !let_go && now - probed_ > options_.stuck_after / 2) {
      let_go = true;
      uncovered_until_ = now + 4 * options_.stuck_after;
      uncover();
    } else if (probing && let_go && now - probed_ > 2 * options_.stuck_after &&
               parked_streams() > 1) {
      fail(std::make_exception_ptr(
          contract_error("the device stands still: code is being loaded (the first launch of a "
                         "kernel), which waits for all streams, "
                         "and one of them waits for gated work. The scheduler gave that work up so "
                         "that nothing hangs. Launch kernels "
                         "once before work is shared, or set CUDA_MODULE_LOADING=EAGER")));
    }
    const std::int64_t since = driver_call_since_.load();
    const auto stuck = since == 0 ? std::chrono::nanoseconds(0)
                                  : since_start(now) - std::chrono::nanoseconds(since);
    if (since != 0 && stuck > options_.stuck_after && answered_call != since) {
      answered_call = since;
      log("a launch has been waiting for the driver for " +
          std::to_string(stuck.count() / 1000000) +
          " ms while work is held back: another thread is probably inside cudaFree, which waits "
          "for that "
          "work. The wait is let go, so cudaFree may return before the held-back work is done; use "
          "cede::stream::free_after instead");
      uncover();
    } else if (since != 0 && stuck > 2 * options_.stuck_after && given_up_call != since) {
      given_up_call = since;
      log("that launch still waits for the driver: giving up on all held-back work so that nothing "
          "hangs");
      fail(std::make_exception_ptr(
          contract_error("a driver call waited for held-back work while a launch waited for that "
                         "call (cudaFree on "
                         "memory in use is the usual one); the scheduler gave the work up. Use "
                         "cede::stream::free_after, or free after synchronising the stream")));
    }
    if (has_failed_.load()) tell_failure();  // the dispatcher may be stuck
    if (watchdog > 0 && std::chrono::duration<double>(now - moved).count() > watchdog) {
      moved = now;
      lock.unlock();
      log("no operation finished for " + std::to_string(watchdog) + " s\n" + state_text());
      lock.lock();
    }
  }
}

/// Runs the callables given to `defer`, one after another.
inline void engine::deferred_loop() {
  this_thread_serves() = {this, true};
  ::prctl(PR_SET_NAME, "cede-deferred", 0UL, 0UL, 0UL);
  std::unique_lock lock(mutex_);
  while (true) {
    deferred_wake_.wait(lock, [&] { return down_ || !deferred_queue_.empty(); });
    if (deferred_queue_.empty()) return;
    auto call = std::move(deferred_queue_.front());
    deferred_queue_.pop_front();
    lock.unlock();
    call();
    call = nullptr;
    lock.lock();
  }
}

/// What is pending, per stream, for people who look at a hang.
inline std::string engine::state_text() {
  std::ostringstream out;
  const std::scoped_lock lock(mutex_, requests_mutex_);
  out << "scheduler on " << device_->facts().name << ": " << outstanding_
      << " operations outstanding, "
      << (latency_critical_active() ? "latency-critical work active" : "latency-critical side idle")
      << '\n';
  for (const auto& w : workloads_) {
    out << "  workload '" << w->options.name << "'";
    if (!w->inline_path) {
      out << (w->suspended ? ", suspended" : "") << ", gate epoch "
          << protocol::sample<atomics>(*w->host_gate);
    }
    out << '\n';
    for (auto& s : w->busy) {
      out << "    stream " << s->name << ": operations " << s->finished.load() + 1 << " to "
          << s->last_number << " pending";
      if (!s->queue.empty()) {
        operation& op = s->queue.front();
        out << "; first: ";
        if (auto* l = op.launch()) {
          out << "launch of " << l->kernel->name << ", ordinal " << l->ordinal << ", cursor "
              << l->cursor << " of " << l->tiles << " tiles, epoch " << l->epoch;
        } else if (std::holds_alternative<opaque_work>(op.work)) {
          out << "run or defer";
        } else if (auto* wait = std::get_if<wait_work>(&op.work)) {
          out << "wait for ";
          if (wait->foreign != nullptr) {
            out << "a CUDA event";
          } else {
            out << "operation " << wait->until.number << " of stream " << wait->until.stream->name;
          }
        } else if (auto* copy = std::get_if<copy_work>(&op.work)) {
          out << (copy->from != nullptr ? "copy, " : "fill, ") << copy->sent << " of "
              << copy->bytes << " bytes sent";
        }
        out << (op.in_flight ? " (on the device)" : " (held back)");
      }
      out << '\n';
    }
  }
  for (const auto& r : open_requests_) {
    out << "  open request of workload '" << r->work->options.name << "', by thread " << r->opener
        << " for "
        << std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - r->opened).count()
        << " ms" << (r->parked > 0 ? ", parked: it waits for other work" : "") << '\n';
  }
  for (const auto& b : blockers_) {
    out << "  stream " << b.stream->name << " waits for "
        << (b.foreign != nullptr ? std::string("a CUDA event")
                                 : "operation " + std::to_string(b.until.number) + " of stream " +
                                       b.until.stream->name)
        << '\n';
  }
  return out.str();
}

inline scheduler_stats engine::snapshot() {
  collect_answers();
  const std::scoped_lock lock(mutex_, requests_mutex_);
  scheduler_stats all;
  all.device = device_->facts().name;
  all.raises = raises_.load(std::memory_order_relaxed);
  all.lifts = lifts_;
  const std::chrono::nanoseconds now = since_start(clock::now());
  all.busy = busy_time_ + (busy_since_ ? now - *busy_since_ : std::chrono::nanoseconds{0});
  all.idle = now - all.busy;
  all.harvested = idle_use_.harvested();
  all.lost = idle_use_.lost();
  all.cleared = cleared_;
  for (const auto& w : workloads_) {
    workload_stats one = w->inline_path ? w->request_stats : w->stats;
    one.name = w->options.name;
    one.level = w->options.priority;
    if (w->inline_path) {
      one.launches = w->launches.load(std::memory_order_relaxed);
      one.submissions = one.launches;
      one.tiles = w->tiles.load(std::memory_order_relaxed);
    } else {
      one.gpu_time = w->used;
      one.waits = w->waits.all();
    }
    all.workloads.push_back(std::move(one));
  }
  return all;
}

inline std::string counted(std::uint64_t n, const std::string& one, const std::string& many) {
  return std::to_string(n) + ' ' + (n == 1 ? one : many);
}
inline std::string times(std::uint64_t n) { return n == 1 ? "once" : std::to_string(n) + " times"; }
inline std::string in_us(std::chrono::nanoseconds d) {
  return std::to_string(d.count() / 1000) + " us";
}
/// What 99 of 100 do not exceed; of fewer, what none does.
inline std::chrono::nanoseconds nearly_longest(const histogram& h) {
  return h.count() < 100 ? h.max() : h.quantile(0.99);
}

/// What a workload waited for, and what would change it.
inline std::string in_words(wait_cause c) {
  switch (c) {
    case wait_cause::critical:
      return "for latency-critical work to end";
    case wait_cause::hold_off:
      return "for its hold-off to pass (a shorter hold_off would let it back sooner)";
    case wait_cause::peer:
      return "for another gated workload (weight and priority share the device)";
    case wait_cause::scheduler:
      return "for the policy or the way to the device";
    case wait_cause::rate_limit:
      return "for its rate limit (a larger limit.share would let it back sooner)";
    case wait_cause::none:
      break;
  }
  return "for nothing";
}

/// How long a gated workload was kept out and why.
inline std::string waits_in_words(const waits& w) {
  if (w.total().count() == 0) return {};
  std::string text = "; with work ready it waited " + times(w.count) + ", " +
                     short_time(w.total()) + " in all, mostly " + in_words(w.mostly());
  if (w.count > 1) {
    text += "; longest " + short_time(w.longest_total()) + ", " + in_words(w.longest_mostly());
  }
  return text;
}

/// In words: who waited, for what, and what would change it.
inline std::string engine::explain() {
  const scheduler_stats all = snapshot();
  std::ostringstream out;
  out << "On " << all.device << ", latency-critical work raised the gates " << times(all.raises)
      << ".\n";
  if (all.lifts > 0) {
    out << "It stood still for longer than max_hold " << times(all.lifts)
        << " while gated work waited, and was passed over until it moved.\n";
  }
  if (all.cleared.count() > 0) {
    out << counted(all.cleared.count(), "time", "times")
        << " gated work was on the device then; it was clear within "
        << in_us(nearly_longest(all.cleared)) << " (as seen by the host).\n";
  }
  if (all.harvested.count() > 0 || all.lost.count() > 0) {
    out << "Of " << short_time(all.idle)
        << " that latency-critical work left, gated work had the device for "
        << short_time(all.harvested) << " and was kept from it for " << short_time(all.lost);
    if (const auto n = requests(all); n != 0) {
      out << ", " << short_time(all.lost / static_cast<std::int64_t>(n)) << " a request";
    }
    out << ".\n";
  }
  for (const auto& w : all.workloads) {
    out << "'" << w.name << "' ";
    if (w.level == latency_critical) {
      out << "launched " << times(w.launches);
      if (w.requests == 0) {
        out << "; no request() was answered, and only those are timed";
      } else {
        out << "; it answered " << counted(w.requests, "request", "requests");
        if (w.requests > 1) {
          out << ", half within " << in_us(w.service.quantile(0.5)) << ", "
              << (w.requests < 100 ? "all" : "99 of 100");
        }
        out << " within " << in_us(nearly_longest(w.service)) << " of being taken up";
      }
    } else {
      out << "finished " << w.finished << " of " << counted(w.launches, "launch", "launches")
          << " in " << counted(w.submissions, "submission", "submissions") << "; it gave way "
          << times(w.yields);
      if (w.turnaround.count() > 0) {
        out << ", leaving within " << in_us(nearly_longest(w.turnaround)) << " of "
            << (w.turnaround.count() < 100 ? "the raise" : "99 of 100 raises")
            << " (as seen by the host)";
      }
      if (w.longest_tile.count() > 0) {
        out << "; its longest tile took " << in_us(w.longest_tile)
            << ": a raise may have to wait that long";
      }
      out << waits_in_words(w.waits);
    }
    out << ".\n";
  }
  out << state_text();
  return out.str();
}

inline void engine::write_timeline(const std::string& path) {
  if (!timeline_.on()) {
    throw contract_error(
        "write_timeline: this scheduler keeps no timeline; make it with "
        "scheduler_options{.timeline = true}");
  }
  collect_answers();
  timeline_.write(path);
}

}  // namespace detail

CEDE_END_NAMESPACE
