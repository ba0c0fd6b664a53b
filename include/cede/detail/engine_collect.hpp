// SPDX-License-Identifier: Apache-2.0
// The dispatcher's eyes: what the device published, which operations are finished, who need not
// wait any longer.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_inline.hpp>
#include <cede/detail/engine_queue.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline bool engine::latency_critical_active() const {
  const unsigned n = activity_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i) {
    if (protocol::active<atomics>(*activities_[i].load(std::memory_order_relaxed))) return true;
  }
  return false;
}

/// What the lift is told of a source, `max_hold` apart.
inline policy::source_view source_now(const activity_words& a) {
  // `completed` first, as in `protocol::active`.
  const auto completed =
      atomics::load<protocol::order::seq_cst, protocol::scope::system>(a.completed);
  return {
      atomics::load<protocol::order::seq_cst, protocol::scope::system>(a.submitted), completed, {}};
}

/// Whether latency-critical work keeps gated work out: all that is active and not lifted. Only for
/// the dispatcher. To be asked between the sample of an epoch and the submission, like
/// `latency_critical_active`: what a lifted source is given meanwhile raises the gate, and what the
/// source completes makes it count again from that moment.
inline bool engine::keeps_gated_out() const {
  const unsigned n = activity_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i) {
    const auto source = source_now(*activities_[i].load(std::memory_order_relaxed));
    if (source.active() && !lift_.lifted(i, source.completed)) return true;
  }
  return false;
}

inline bool on_device(const stream_core& s) {
  if (atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) < s.last_token)
    return true;
  return std::any_of(s.queue.begin(), s.queue.end(),
                     [](const operation& op) { return op.in_flight; });
}

/// What waits for a point, other than a caller, need not wait any longer: it is done, or never will
/// be.
inline bool engine::is_over(const stream_point& p) const {
  if (is_done(p)) return true;
  const stream_core& s = *p.stream;
  return !s.work->inline_path && s.cancelled &&
         (s.queue.empty() || s.queue.back().number < p.number);
}

/// A driver call of the dispatcher: without the lock, since it may wait for other threads' calls,
/// and with its begin noted, so that the guard can tell when it does not come back.
template <class F>
void engine::driver_call(std::unique_lock<std::mutex>& lock, F&& call) {
  lock.unlock();
  driver_call_since_.store(since_start(clock::now()).count());
  try {
    call();
  } catch (...) {
    driver_call_since_.store(0);
    lock.lock();
    throw;
  }
  driver_call_since_.store(0);
  lock.lock();
}

inline void engine::finish_front(stream_core& s) {
  operation& op = s.queue.front();
  spare_events_of(op);
  if (op.launch() != nullptr) ++s.work->stats.finished;
  ++finished_operations_;
  s.finished.store(op.number, std::memory_order_release);
  s.queue.pop_front();
  --outstanding_;
}

/// Reads the publication of the launch at the front. A launch that left early takes those submitted
/// behind it with it: they find the chain not at their turn and fall through.
inline bool engine::collect_launch(stream_core& s, operation& op) {
  launch_work& l = *op.launch();
  const auto end = protocol::read<atomics>(s.published[l.ordinal % slots_per_stream], l.id);
  if (!end.published) return false;
  const auto now = clock::now();
  workload_stats& stats = s.work->stats;
  stats.tiles += end.cursor - l.cursor;
  stats.longest_tile = std::max(stats.longest_tile, std::chrono::nanoseconds(end.longest));
  // Also where the turnaround has cut the batch to one tile: shorter tiles let it grow again.
  if (l.plan.guide != 0) {
    longest_tiles_[{l.kernel, l.geometry.threads()}] = std::chrono::nanoseconds(end.longest);
  }
  const bool complete = end.reason == protocol::stop_reason::none;
  timeline_.span(s.track,
                 !complete         ? span_kind::yield
                 : l.was_preempted ? span_kind::resume
                                   : span_kind::launch,
                 l.kernel->name, since_start(l.submitted_at), since_start(now),
                 {.ordinal = l.ordinal, .cursor = end.cursor});
  l.cursor = end.cursor;
  op.in_flight = false;
  if (complete) {
    const auto took = now - l.submitted_at;
    typical_launch_ =
        (typical_launch_ * 7 + std::chrono::duration_cast<std::chrono::nanoseconds>(took)) / 8;
    finish_front(s);
    return true;
  }
  if (end.reason == protocol::stop_reason::gate) {
    ++stats.yields;
    const std::chrono::nanoseconds raised(last_raise_.load(std::memory_order_relaxed));
    const auto took = since_start(now) - raised;
    if (took.count() >= 0 && since_start(l.submitted_at) < raised) stats.turnaround.add(took);
    l.resumed = true;
    l.was_preempted = true;
  }
  for (operation& later : s.queue) later.in_flight = false;
  return false;
}

inline bool engine::collect_stream(stream_core& s, std::unique_lock<std::mutex>& lock) {
  // The lock is given up for driver calls: others only append to the queue meanwhile.
  bool progressed = false;
  while (!s.queue.empty()) {
    operation& op = s.queue.front();
    if (auto* wait = std::get_if<wait_work>(&op.work)) {
      bool met = false;
      if (wait->foreign != nullptr) {
        driver_call(lock, [&] { met = device_->event_done(wait->foreign); });
      } else {
        met = is_over(wait->until);
        if (met && !is_done(wait->until)) {
          cancel_stream(s);  // it would go on without what it waits for
          return true;
        }
      }
      if (!met) break;
    } else if (op.protocolled()) {
      if (!op.in_flight) break;
      const bool was_in_flight = op.in_flight;
      if (!collect_launch(s, op)) {
        progressed |= was_in_flight && !s.queue.front().in_flight;
        break;
      }
      progressed = true;
      continue;
    } else {
      if (!op.in_flight) break;
      if (auto* opaque = std::get_if<opaque_work>(&op.work); opaque != nullptr && op.token == 0) {
        if (!opaque->turn->called) break;
        op.token = ++s.last_token;
        driver_call(lock, [&] { device_->write_value(s.lane, s.token, op.token); });
      }
      if (atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) < op.token)
        break;
      const auto now = clock::now();
      if (auto* opaque = std::get_if<opaque_work>(&op.work)) {
        s.work->stats.opaque_time += now - opaque->granted_at;
        timeline_.span(s.track, span_kind::opaque, "opaque", since_start(opaque->granted_at),
                       since_start(now));
      } else if (auto* l = op.launch()) {
        s.work->stats.tiles += l->tiles;
        timeline_.span(s.track, l->plan.how == form::sliced ? span_kind::slice : span_kind::launch,
                       l->kernel->name, since_start(l->submitted_at), since_start(now));
      } else {
        timeline_.span(s.track, span_kind::copy, "copy", since_start(op.handed_at),
                       since_start(now));
      }
    }
    finish_front(s);
    progressed = true;
  }
  if (!s.queue.empty() && s.queue.front().after != nullptr && !s.queue.front().after_done) {
    operation& op = s.queue.front();
    driver_call(lock, [&] { op.after_done = device_->event_done(op.after); });
  }
  return progressed;
}

/// Tells waits on the device how far the stream is.
inline void engine::publish_done(stream_core& s) {
  atomics::store<protocol::order::release, protocol::scope::system>(
      *s.done, s.cancelled ? s.last_number : s.finished.load(std::memory_order_relaxed));
}

/// Ends waits of latency-critical streams whose producers are done: from now on their work counts.
/// Before the device is told, so that the gate is raised first. Gives up the lock meanwhile. True
/// if there were some.
inline bool engine::unblock(std::unique_lock<std::mutex>& lock) {
  // Only this thread removes entries, others append: an index stays what it is.
  std::vector<std::size_t> met;
  std::vector<std::pair<std::size_t, cudaEvent_t>> foreign;
  {
    const std::scoped_lock requests(requests_mutex_);
    for (std::size_t i = 0; i < blockers_.size(); ++i) {
      if (blockers_[i].foreign != nullptr) {
        foreign.emplace_back(i, blockers_[i].foreign);
      } else if (const stream_point& p = blockers_[i].until;
                 is_over(p) || (p.stream->work->inline_path && !held_back(*p.stream))) {
        met.push_back(
            i);  // one that waits for another latency-critical stream counts as soon as that does
      }
    }
  }
  if (met.empty() && foreign.empty()) return false;
  bool any = false;
  driver_call(lock, [&] {
    for (const auto& [i, event] : foreign) {
      if (device_->event_done(event)) met.push_back(i);
    }
    std::vector<blocker> over;
    {
      const std::scoped_lock requests(requests_mutex_);
      std::sort(met.begin(), met.end(), std::greater<>());
      for (const std::size_t i : met) {
        over.push_back(std::move(blockers_[i]));
        blockers_.erase(blockers_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      blockers_count_.store(blockers_.size(), std::memory_order_relaxed);
    }
    any = !over.empty();
    for (blocker& b : over) {
      {
        const std::scoped_lock inline_lock(b.stream->inline_mutex);
        if (--b.stream->blockers == 0) {
          activity_words& a = *b.stream->activity;
          while (atomics::load<protocol::order::relaxed, protocol::scope::system>(a.submitted) <
                 b.stream->last_write) {
            protocol::begin<atomics>(a);
          }
        }
      }
      raise_all();
      unpark_requests(b.parked);
      if (b.foreign != nullptr) {
        const std::scoped_lock inner(mutex_);
        spare_events_.push_back(b.foreign);
      }
    }
  });
  return any;
}

inline bool engine::collect(std::unique_lock<std::mutex>& lock) {
  bool progressed = false;
  // By index: the lock is given up in between, and others append.
  for (std::size_t i = 0; i < gated_.size(); ++i) {
    workload_core* w = gated_[i];
    for (std::size_t k = 0; k < w->busy.size(); ++k) {
      const std::shared_ptr<stream_core> s = w->busy[k];
      progressed |= collect_stream(*s, lock);
    }
  }
  while (unblock(lock)) {
  }
  for (workload_core* w : gated_) {
    std::erase_if(w->busy, [&](const std::shared_ptr<stream_core>& s) {
      publish_done(*s);
      return s->queue.empty() && !on_device(*s);
    });
    const bool device_busy =
        std::any_of(w->busy.begin(), w->busy.end(), [](const auto& s) { return on_device(*s); });
    const auto now = clock::now();
    if (w->counting) account(*w, now);
    w->counting = device_busy && !w->raised;
    w->counting_since = now;
    if (!device_busy) w->raised = false;
  }
  if (progressed) finished_.notify_all();
  return progressed;
}

inline void engine::account(workload_core& w, clock::time_point now) {
  w.used += now - w.counting_since;
  w.counting_since = now;
}

/// Notes which requests have been answered.
inline void engine::collect_answers() {
  std::vector<answering> answered;
  {
    const std::scoped_lock lock(requests_mutex_);
    for (std::size_t i = 0; i < answering_.size();) {
      const auto& until = answering_[i].until;
      if (!std::all_of(until.begin(), until.end(),
                       [&](const stream_point& p) { return is_done(p); })) {
        ++i;
        continue;
      }
      answered.push_back(std::move(answering_[i]));
      answering_.erase(answering_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (answered.empty()) return;
    const auto now = clock::now();
    if (open_requests_.empty() && answering_.empty()) end_busy(since_start(now));
    for (answering& a : answered) {
      device_->end_range(a.request->range);
      workload_stats& stats = a.request->work->request_stats;
      ++stats.requests;
      stats.service.add(now - a.request->opened);
      stats.response.add(now - a.request->arrived);
      timeline_.request(a.request->work->track, a.request->flow, a.request->work->options.name,
                        since_start(a.request->opened), since_start(now));
    }
  }
}

inline void engine::close_overdue_requests(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<request_core>> overdue;
  const auto now = clock::now();
  {
    const std::scoped_lock requests(requests_mutex_);
    for (auto& r : open_requests_) {
      if (r->parked == 0 && now - r->opened > r->work->options.max_hold) overdue.push_back(r);
    }
  }
  if (overdue.empty()) return;
  lock.unlock();
  for (auto& r : overdue) {
    log("a request of workload '" + r->work->options.name +
        "' was open for more than its max_hold of " +
        std::to_string(
            std::chrono::duration_cast<std::chrono::milliseconds>(r->work->options.max_hold)
                .count()) +
        " ms while other work waited; it was closed. End requests when their launches are issued, "
        "or "
        "raise max_hold");
    close_request(r);
  }
  lock.lock();
}

}  // namespace detail

CEDE_END_NAMESPACE
