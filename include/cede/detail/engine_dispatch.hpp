// SPDX-License-Identifier: Apache-2.0
// The dispatcher: the one thread that reads what the device published, asks the policy, raises gates
// for it and submits gated work. It sleeps when nothing is outstanding.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_inline.hpp>
#include <cede/detail/engine_queue.hpp>

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline bool engine::latency_critical_active() const {
  const unsigned n = activity_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i) {
    if (protocol::active<atomics>(*activities_[i].load(std::memory_order_relaxed))) return true;
  }
  return false;
}

inline bool on_device(const stream_core& s) {
  if (atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) < s.last_token) return true;
  return std::any_of(s.queue.begin(), s.queue.end(), [](const operation& op) { return op.in_flight; });
}

/// What waits for a point, other than a caller, need not wait any longer: it is done, or never will be.
inline bool engine::is_over(const stream_point& p) const {
  if (is_done(p)) return true;
  const stream_core& s = *p.stream;
  return !s.work->inline_path && s.cancelled && (s.queue.empty() || s.queue.back().number < p.number);
}

/// A driver call of the dispatcher: without the lock, since it may wait for other threads' calls, and
/// with its begin noted, so that the guard can tell when it does not come back.
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

// ---- collect --------------------------------------------------------------------------------------

inline void engine::finish_front(stream_core& s) {
  operation& op = s.queue.front();
  if (op.after != nullptr) spare_events_.push_back(op.after);
  ++s.work->stats.finished;
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
    typical_launch_ = (typical_launch_ * 7 + std::chrono::duration_cast<std::chrono::nanoseconds>(took)) / 8;
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
      if (wait->ours) spare_events_.push_back(wait->foreign);
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
      if (atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) < op.token) break;
      const auto now = clock::now();
      if (auto* opaque = std::get_if<opaque_work>(&op.work)) {
        s.work->stats.opaque_time += now - opaque->granted_at;
        timeline_.span(s.track, span_kind::opaque, "opaque", since_start(opaque->granted_at), since_start(now));
      } else if (auto* l = op.launch()) {
        s.work->stats.tiles += l->tiles;
        timeline_.span(s.track, l->plan.how == form::sliced ? span_kind::slice : span_kind::launch, l->kernel->name,
                       since_start(l->submitted_at), since_start(now));
      } else {
        timeline_.span(s.track, span_kind::copy, "copy", since_start(op.queued_at), since_start(now));
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
/// Before the device is told, so that the gate is raised first. Gives up the lock meanwhile. True if
/// there were some.
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
        met.push_back(i);  // one that waits for another latency-critical stream counts as soon as that does
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
      if (b.ours) {
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
      if (!std::all_of(until.begin(), until.end(), [&](const stream_point& p) { return is_done(p); })) {
        ++i;
        continue;
      }
      answered.push_back(std::move(answering_[i]));
      answering_.erase(answering_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    const auto now = clock::now();
    for (answering& a : answered) {
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
    log("a request of workload '" + r->work->options.name + "' was open for more than its max_hold of " +
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(r->work->options.max_hold).count()) +
        " ms while other work waited; it was closed. End requests when their launches are issued, or "
        "raise max_hold");
    close_request(r);
  }
  lock.lock();
}

// ---- submit ---------------------------------------------------------------------------------------

/// Whether the stream has an operation that may go to the device now, and which.
inline bool engine::ready(stream_core& s, std::size_t* position) {
  unsigned ahead = 0;
  std::size_t i = 0;
  for (; i < s.queue.size() && s.queue[i].in_flight; ++i) {
    // Only protocolled launches may have something queued behind them: the chain keeps the order.
    if (!s.queue[i].protocolled() || !s.queue[i].launch()->all_submitted) return false;
    ++ahead;
  }
  if (i == s.queue.size() || ahead >= max_in_flight) return false;
  operation& op = s.queue[i];
  if (std::holds_alternative<wait_work>(op.work)) return false;
  if (op.after != nullptr && !op.after_done) return false;
  if (!op.protocolled()) {
    if (i != 0) return false;
    // Slices: two in flight.
    if (s.last_token - atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) >= max_in_flight)
      return false;
  }
  *position = i;
  return true;
}

inline void engine::submit_protocolled(stream_core& s, launch_work& l) {
  const std::size_t slot = l.ordinal % slots_per_stream;
  submission what;
  what.kernel = l.kernel;
  what.body = l.body.data();
  what.geometry = l.geometry;
  what.how = l.plan.how;
  what.terms = {.ordinal = l.ordinal, .tiles = l.tiles, .id = l.id, .epoch = l.epoch, .participants = 1, .batch = 1};
  what.words = {.slot = s.slots + slot,
                .chain = s.chain,
                .host_gate = s.work->host_gate,
                .device_gate = s.work->device_gate,
                .published = s.published + slot};
  if (l.plan.how == form::persistent) {
    const std::uint64_t rest = l.tiles - l.cursor;
    what.count = std::min(l.plan.workers, (rest + l.plan.batch - 1) / l.plan.batch);
    what.terms.batch = l.plan.batch;
    what.terms.participants = static_cast<std::uint32_t>(what.count) + device_->facts().watchers;
    device_->submit(s.lane, what);
    return;
  }
  std::uint64_t cursor = l.cursor;
  for (unsigned i = 0; i < chunks_per_submission && cursor < l.tiles; ++i) {
    what.count = std::min(l.plan.chunk, l.tiles - cursor);
    cursor += what.count;
    what.limit = cursor;
    what.closes = i + 1 == chunks_per_submission || cursor == l.tiles;
    device_->submit(s.lane, what);
  }
}

inline void engine::submit_operation(stream_core& s, operation& op, std::uint32_t epoch,
                                     std::unique_lock<std::mutex>& lock) {
  const auto now = clock::now();
  if (auto* opaque = std::get_if<opaque_work>(&op.work)) {
    op.in_flight = true;
    opaque->granted_at = now;
    opaque->turn->granted = true;
    if (opaque->is_deferred) {
      deferred_queue_.emplace_back([this, self = s.shared_from_this(), turn = opaque->turn,
                                    call = std::move(opaque->deferred)] {
        const device_scope current(*device_);
        self->inside_run.store(std::this_thread::get_id());
        gated_call here{this, self.get(), true, nullptr};
        this_thread_calls() = &here;
        try {
          call(self->lane);
        } catch (const std::exception& e) {
          log("a callable given to defer() on stream " + self->name + " threw: " + e.what());
        } catch (...) {
          log("a callable given to defer() on stream " + self->name + " threw something");
        }
        this_thread_calls() = nullptr;
        self->inside_run.store({});
        const std::scoped_lock inner(mutex_);
        turn->called = true;
        nudged_.store(true);
      });
      deferred_wake_.notify_one();
    }
    finished_.notify_all();
    return;
  }
  // Everything the driver call needs is decided under the lock; the call itself is made without it.
  // `op` stays where it is: a deque's elements do not move, and only this thread removes them.
  auto* l = op.launch();
  if (l != nullptr) {
    l->submitted_at = now;
    if (l->protocolled()) {
      l->id = ++s.last_id;
      l->epoch = epoch;
      l->all_submitted = l->plan.how == form::persistent ||
                         l->tiles - l->cursor <= l->plan.chunk * chunks_per_submission;
      op.in_flight = true;
      ++s.work->stats.submissions;
      if (l->resumed) {
        l->resumed = false;
        ++s.work->stats.resumes;
      }
    } else {
      op.token = ++s.last_token;
      op.in_flight = l->next_slice + 1 == l->plan.slices;
      ++s.work->stats.submissions;
    }
  } else {
    op.token = ++s.last_token;
    op.in_flight = true;
  }
  driver_call(lock, [&] {
    if (l != nullptr && l->protocolled()) {
      submit_protocolled(s, *l);
    } else if (l != nullptr) {
      submission what;
      what.kernel = l->kernel;
      what.body = l->body.data();
      what.geometry = l->geometry;
      what.how = l->plan.how;
      // Slices differ by at most one tile: the first `tiles % slices` are one larger.
      const std::uint64_t small = l->tiles / l->plan.slices;
      const std::uint64_t larger = l->tiles % l->plan.slices;
      what.first = l->next_slice * small + std::min(l->next_slice, larger);
      what.count = small + (l->next_slice < larger ? 1 : 0);
      ++l->next_slice;
      device_->submit(s.lane, what);
      device_->write_value(s.lane, s.token, op.token);
    } else if (auto* copy = std::get_if<copy_work>(&op.work)) {
      device_->copy(s.lane, copy->to, copy->from, copy->bytes);
      device_->write_value(s.lane, s.token, op.token);
    } else if (auto* fill = std::get_if<fill_work>(&op.work)) {
      device_->fill(s.lane, fill->to, fill->byte, fill->bytes);
      device_->write_value(s.lane, s.token, op.token);
    }
  });
}

inline void engine::submit_workload(workload_core& w, std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < w.busy.size(); ++i) {
    const std::shared_ptr<stream_core> s = w.busy[i];
    std::size_t position = 0;
    while (ready(*s, &position)) {
      // Others may have spoken while the lock was given up for the last submission.
      if (w.suspended || has_failed_.load()) return;
      // The epoch first, then the look at the other side, then the launch: see protocol.hpp.
      const std::uint32_t epoch = protocol::sample<atomics>(*w.host_gate);
      if (options_.policy->gives_way() && latency_critical_active()) return;
      if (!w.counting) {
        w.counting = true;
        w.counting_since = clock::now();
      }
      w.raised = false;
      submit_operation(*s, s->queue[position], epoch, lock);
    }
  }
}

inline void engine::build_view() {
  views_.resize(gated_.size());
  for (std::size_t i = 0; i < gated_.size(); ++i) {
    workload_core& w = *gated_[i];
    policy::workload_view& v = views_[i];
    v.level = w.options.priority;
    v.weight = w.options.weight;
    v.hold_off = w.options.hold_off;
    v.suspended = w.suspended;
    v.raised = w.raised;
    v.used = w.used;
    v.ready = false;
    v.in_flight = false;
    for (auto& s : w.busy) {
      std::size_t position = 0;
      v.ready = v.ready || ready(*s, &position);
      v.in_flight = v.in_flight || (on_device(*s) && s->waiting_inside.load() == 0);
    }
  }
}

/// The same as `cover`, by the dispatcher, after the wait was let go for a moment.
inline void engine::cover_again(std::unique_lock<std::mutex>& lock) {
  if (!may_cover()) return;
  covered_ = true;
  driver_call(lock, [&, value = ++cover_value_] { device_->wait_value(cover_stream_, cover_word_, value); });
}

// ---- memory handed over by free_after ---------------------------------------------------------------

/// Frees what nothing uses any more, at a moment when no wait of ours stands in the way of
/// `cudaFree`, which waits for the whole device. Until it is done nothing new is queued. False if what
/// is in flight has to end first.
inline bool engine::free_trash(std::unique_lock<std::mutex>& lock) {
  // Streams that wait for what is still to be submitted, or a callable that may, must not be kept from
  // it: the memory then waits for a better moment.
  if (placing_ != 0 || parked_streams() > 1) return true;
  bool in_flight = false;
  for (workload_core* w : gated_) {
    for (auto& s : w->busy) {
      if (!on_device(*s)) continue;
      if (!s->queue.empty() && std::holds_alternative<opaque_work>(s->queue.front().work)) return true;
      in_flight = true;
    }
  }
  if (in_flight) return false;
  std::vector<void*> now;
  now.swap(trash_);
  uncover();
  quiet_ = true;
  lock.unlock();
  std::exception_ptr trouble;
  for (void* p : now) {
    try {
      device_->release(p);
    } catch (...) {
      trouble = std::current_exception();
    }
  }
  lock.lock();
  quiet_ = false;
  finished_.notify_all();
  if (outstanding_ != 0) cover_again(lock);
  if (trouble) std::rethrow_exception(trouble);
  return true;
}

// ---- the loop -------------------------------------------------------------------------------------

inline bool engine::anything_outstanding() const {
  return outstanding_ != 0 || placing_ != 0 || !trash_.empty() || !condemned_.empty() ||
         std::any_of(gated_.begin(), gated_.end(), [](const workload_core* w) { return !w->busy.empty(); });
}

/// How long to leave the device alone. Short while the latency-critical side is active and something
/// waits for it to go idle; at most a fraction of a launch while two are in flight.
inline std::chrono::nanoseconds engine::pause_length(bool progressed) const {
  using namespace std::chrono_literals;
  if (progressed) return 0ns;
  if (was_active_) return 4us;
  // While latency-critical work comes and goes its end must be seen soon; else two launches in flight
  // leave time.
  const auto most = clock::now() - idle_since_ < 50ms ? std::chrono::nanoseconds(40us) : 250us;
  return std::clamp<std::chrono::nanoseconds>(typical_launch_ / 4, 4us, most);
}

inline void engine::dispatch_loop() {
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);  // short sleeps are meant to be short
  ::prctl(PR_SET_NAME, "cede-dispatch", 0UL, 0UL, 0UL);
  device_->enter();
  std::unique_lock lock(mutex_);
  auto last_check = clock::now();
  auto last_look = last_check;
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
        asleep_.store(true);
        if (!nudged_.exchange(false)) {
          work_.wait(lock, [&] {
            return nudged_.exchange(false) || stopping_ || outstanding_ != 0 || !condemned_.empty() ||
                   has_failed_.load();
          });
        }
        asleep_.store(false);
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

      const bool active = latency_critical_active();
      const auto now = clock::now();
      if (was_active_) busy_time_ += now - last_look;
      last_look = now;
      if (was_active_ && !active) idle_since_ = now;
      was_active_ = active;
      build_view();
      verdict_.actions.clear();
      verdict_.again = std::chrono::nanoseconds::max();
      options_.policy->decide({since_start(now), active, since_start(idle_since_), views_}, verdict_);
      for (const policy::action& a : verdict_.actions) {
        workload_core& w = *gated_[a.workload];
        if (a.what == policy::verb::raise) {
          w.raised = true;
          if (w.counting) account(w, clock::now());
          w.counting = false;
          // On the latency-critical path the gate is up already; a second raise is harmless.
          if (!active) last_raise_.store(since_start(clock::now()).count(), std::memory_order_relaxed);
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
      if (quiet > 1000 && !active) pause = std::min<std::chrono::nanoseconds>(pause * (quiet / 1000), std::chrono::milliseconds(1));
      if (verdict_.again != std::chrono::nanoseconds::max()) {
        pause = std::clamp<std::chrono::nanoseconds>(verdict_.again - since_start(clock::now()),
                                                     std::chrono::nanoseconds(0), pause);
      }
      const bool all_out = active && !progressed && std::none_of(views_.begin(), views_.end(), [](const auto& v) {
        return v.in_flight;
      });
      lock.unlock();
      // With everything gated out there is one thing to see, the end of latency-critical work: it is
      // looked for without locks and without touching what that side's threads write.
      unsigned looks = all_out && !blocked_inline ? 50 : 1;
      while (looks-- > 0 && pause.count() > 0 && !nudged_.exchange(false)) {
        const timespec t{0, static_cast<long>(pause.count())};
        ::nanosleep(&t, nullptr);
        if (!latency_critical_active()) break;
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

// ---- ends other than the good one -----------------------------------------------------------------

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
        if (auto* opaque = std::get_if<opaque_work>(&op.work); opaque != nullptr && !opaque->turn->granted) {
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
        if (s->queue.back().after != nullptr) spare_events_.push_back(s->queue.back().after);
        s->queue.pop_back();
      }
    }
    w->busy.clear();
  }
  outstanding_ = 0;
}

/// Takes back what has not been submitted; who waits for it is told. Call with the lock.
inline void engine::cancel_stream(stream_core& s) {
  std::size_t dropped = 0;
  while (!s.queue.empty() && !s.queue.back().in_flight) {
    operation& op = s.queue.back();
    if (auto* opaque = std::get_if<opaque_work>(&op.work)) {
      opaque->turn->refused = std::make_exception_ptr(
          cancelled("stream " + s.name + ": its work was cancelled because its scheduler ended while the workload, "
                    "or one it waited for, was suspended"));
    }
    if (op.after != nullptr) spare_events_.push_back(op.after);
    s.queue.pop_back();
    --outstanding_;
    ++dropped;
  }
  if (dropped == 0) return;
  if (!s.cancelled) {
    log("stream " + s.name + " was suspended, or waited for one that was, when its scheduler ended: " +
        std::to_string(dropped) + " operations were cancelled");
  }
  s.cancelled = true;
  publish_done(s);
  finished_.notify_all();
}

/// On shutdown: what suspended workloads have queued will not run. What they have on the device leaves
/// or ends first.
inline void engine::cancel_suspended() {
  for (workload_core* w : gated_) {
    if (!w->suspended) continue;
    for (auto& s : w->busy) cancel_stream(*s);
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
