// SPDX-License-Identifier: Apache-2.0
// The dispatcher's hands: which operation may go to the device now, and how it gets there.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_collect.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

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
    // Slices and pieces: two in flight.
    if (s.last_token - atomics::load<protocol::order::acquire, protocol::scope::system>(*s.token) >=
        max_in_flight)
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
  what.terms = {.ordinal = l.ordinal,
                .tiles = l.tiles,
                .id = l.id,
                .epoch = l.epoch,
                .participants = 1,
                .batch = 1};
  what.words = {.slot = s.slots + slot,
                .chain = s.chain,
                .host_gate = s.work->host_gate,
                .device_gate = s.work->device_gate,
                .published = s.published + slot,
                .records = s.records};
  if (l.plan.how == form::persistent) {
    fill_persistent(what, l.plan, l.tiles - l.cursor, device_->facts().watchers, l.memory);
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
        gated_call here{this, self.get(), nullptr};
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
  std::size_t at = 0;  // of a copy
  if (l != nullptr) {
    l->submitted_at = now;
    if (l->protocolled()) {
      l->id = ++s.last_id;
      l->epoch = epoch;
      if (l->plan.batch > 1) {
        const auto seen = longest_tiles_.find({l->kernel, l->geometry.threads()});
        if (seen != longest_tiles_.end()) {
          l->plan.batch = batch_within(l->plan, s.work->options.turnaround, seen->second);
        }
      }
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
  } else if (auto* copy = std::get_if<copy_work>(&op.work)) {
    if (copy->sent == 0) op.handed_at = now;
    const bool one_in_flight = on_device(s);
    copy->piece =
        copy->pace.next(since_start(now), copy->bytes - copy->sent, copy->sent,
                        copy->sent - (one_in_flight ? copy->piece : 0), s.work->options.turnaround);
    at = std::exchange(copy->sent, copy->sent + copy->piece);
    op.token = ++s.last_token;
    op.in_flight = copy->sent == copy->bytes;
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
      if (copy->from != nullptr) {
        device_->copy(s.lane, copy->to + at, copy->from + at, copy->piece);
      } else if (copy->piece != 0) {
        device_->fill(s.lane, copy->to + at, copy->byte, copy->piece);
      }
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
      if (w.suspended || w.limited || has_failed_.load()) return;
      // The epoch first, then the look at the other side, then the launch: see protocol.hpp.
      const std::uint32_t epoch = protocol::sample<atomics>(*w.host_gate);
      if (options_.policy->gives_way() && keeps_gated_out()) return;
      if (!w.counting) {
        w.counting = true;
        w.counting_since = clock::now();
      }
      w.raised = false;
      submit_operation(*s, s->queue[position], epoch, lock);
    }
  }
}

inline void engine::build_view(clock::time_point now) {
  views_.resize(gated_.size());
  for (std::size_t i = 0; i < gated_.size(); ++i) {
    workload_core& w = *gated_[i];
    policy::workload_view& v = views_[i];
    v.level = w.options.priority;
    v.weight = w.options.weight;
    v.hold_off = w.options.hold_off;
    // What it has on the device counts before it is accounted for.
    const auto running =
        w.counting && now > w.counting_since ? now - w.counting_since : std::chrono::nanoseconds{0};
    w.limited = !w.bucket.look(since_start(now), w.used + running) && !stopping_;
    v.limited = w.limited && !w.suspended;
    v.suspended = w.suspended || w.limited;
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

/// Lifts latency-critical work that stands still while gated work waits. Call after `build_view`.
inline void engine::lift_what_stands_still(clock::time_point now) {
  const bool waits = options_.policy->gives_way() &&
                     std::any_of(views_.begin(), views_.end(),
                                 [](const auto& v) { return v.ready && !v.suspended; });
  sources_.resize(sources_of_.size());
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    sources_[i] = source_now(*activities_[i].load(std::memory_order_relaxed));
    sources_[i].max_hold = sources_of_[i].work->options.max_hold;
  }
  for (const std::size_t i : lift_.look(since_start(now), waits, sources_)) {
    ++lifts_;
    const auto limit =
        std::chrono::duration_cast<std::chrono::milliseconds>(sources_[i].max_hold).count();
    log("latency-critical work of workload '" + sources_of_[i].work->options.name + "' (" +
        sources_of_[i].name + ") has not moved for its max_hold of " + std::to_string(limit) +
        " ms while gated work waited: that goes on now, until it moves. The usual cause is a wait "
        "for gated work by a call on the raw stream, which the scheduler cannot see: use "
        "cede::stream::wait or record instead; if the work is just long, raise max_hold");
  }
}

/// Keeps the times that depend on whether the latency-critical side is active.
inline void engine::look_at_time(bool active, clock::time_point now) {
  const auto last = std::exchange(last_look_, now);
  const auto elapsed = now - last;
  {
    // Requests are timed by those who open and answer them. For other work the first raise since
    // the last look tells when it came.
    const std::chrono::nanoseconds raised(first_raise_.exchange(0, std::memory_order_relaxed));
    const std::scoped_lock requests(requests_mutex_);
    if (!active) {
      end_busy(since_start(now));
    } else if (busy_until_ <= since_start(now)) {  // else what was active has been answered since
      begin_busy(std::max(since_start(last), raised));
    }
    const bool in_flight =
        std::any_of(views_.begin(), views_.end(), [](const auto& v) { return v.in_flight; });
    if (auto took = idle_use_.clear(since_start(now), active && busy_since_.has_value(),
                                    busy_since_.value_or(std::chrono::nanoseconds{0}), in_flight))
      cleared_.add(*took);
  }
  for (workload_core* w : gated_) w->waits.pass(elapsed);
  idle_use_.pass(elapsed);
  // Also what came and went between two looks, or while this thread slept. What is launched behind
  // lifted work does not start: it must not renew the hold-off for ever.
  const std::uint64_t raises = raises_.load(std::memory_order_relaxed);
  if ((was_active_ && !active) || (raises != seen_raises_ && !lift_.any()))
    idle_since_ = since_start(now);
  seen_raises_ = raises;
  was_active_ = active;
}

/// Keeps what every workload is waiting for until the next look.
inline void engine::look_at_waits(const policy::view& v) {
  bool ready = false;
  bool in_flight = false;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    views_[i].in_flight = views_[i].in_flight || gated_[i]->counting;
    ready = ready || (views_[i].ready && !views_[i].suspended);
    in_flight = in_flight || views_[i].in_flight;
  }
  for (std::size_t i = 0; i < views_.size(); ++i) {
    gated_[i]->waits.see(policy::why_waits(v, i));
  }
  idle_use_.see(v.active, ready, in_flight);
}

/// The same as `cover`, by the dispatcher, after the wait was let go for a moment.
inline void engine::cover_again(std::unique_lock<std::mutex>& lock) {
  if (!may_cover()) return;
  covered_ = true;
  driver_call(lock, [&, value = ++cover_value_] {
    device_->wait_value(cover_stream_, cover_word_, value);
  });
}

/// Frees what nothing uses any more, at a moment when no wait of ours stands in the way of
/// `cudaFree`, which waits for the whole device. Until it is done nothing new is queued. False if
/// what is in flight has to end first.
inline bool engine::free_trash(std::unique_lock<std::mutex>& lock) {
  // Streams that wait for what is still to be submitted, or a callable that may, must not be kept
  // from it: the memory then waits for a better moment.
  if (placing_ != 0 || parked_streams() > 1) return true;
  bool in_flight = false;
  for (workload_core* w : gated_) {
    for (auto& s : w->busy) {
      if (!on_device(*s)) continue;
      if (!s->queue.empty() && std::holds_alternative<opaque_work>(s->queue.front().work))
        return true;
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

}  // namespace detail

CEDE_END_NAMESPACE
