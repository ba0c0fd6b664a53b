// SPDX-License-Identifier: Apache-2.0
// The latency-critical path. Everything here runs on the caller's thread: count the work, raise the
// gates, launch, leave word of its end. No hand-off, no allocation of device memory, no lock that a
// gated path holds across a driver call.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>

#include <algorithm>
#include <chrono>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline void engine::throw_if_failed() const {
  if (!has_failed_.load(std::memory_order_acquire)) return;
  std::exception_ptr why;
  {
    const std::scoped_lock lock(failure_mutex_);
    why = failure_;
  }
  std::rethrow_exception(why);
}

inline void engine::throw_if_gone(const workload_core& w) const {
  if (!gone_.load(std::memory_order_acquire)) return;
  throw contract_error("workload '" + w.options.name +
                       "': its scheduler is gone; keep the scheduler alive while its workloads and "
                       "streams are used");
}

/// Raises all gates for work that has been counted; returns when.
inline std::chrono::nanoseconds engine::raise_all() {
  const std::chrono::nanoseconds now = since_start(clock::now());
  if (!options_.policy->gives_way()) return now;
  last_raise_.store(now.count(), std::memory_order_relaxed);
  if (first_raise_.load(std::memory_order_relaxed) == 0)
    first_raise_.store(now.count(), std::memory_order_relaxed);
  raises_.fetch_add(1, std::memory_order_relaxed);
  const unsigned n = gate_count_.load(std::memory_order_acquire);
  for (unsigned i = 0; i < n; ++i)
    protocol::raise<atomics>(*gates_[i].load(std::memory_order_relaxed));
  return now;
}

/// Latency-critical work keeps the rest out from `since` on, unless some did already. Call with
/// `requests_mutex_`, once the work is counted: a look that finds nothing active then is later.
inline void engine::begin_busy(std::chrono::nanoseconds since) {
  if (!busy_since_) busy_since_ = std::max(since, busy_until_);
}

/// Nothing keeps the rest out at `now`. What began after that goes on. Call with `requests_mutex_`.
inline void engine::end_busy(std::chrono::nanoseconds now) {
  if (!busy_since_ || *busy_since_ > now) return;
  busy_time_ += now - *busy_since_;
  busy_until_ = now;
  busy_since_.reset();
}

/// Counts one unit of work of a stream; returns the value the stream must write when it is done.
/// While the stream waits for gated work the unit is not counted yet: that would keep out the very
/// work it waits for. `unblock` counts it later. Call with `inline_mutex` held.
inline std::uint64_t engine::begin_inline(stream_core& s) {
  const std::uint64_t n = ++s.last_write;
  if (s.blockers.load() == 0) {
    protocol::begin<atomics>(*s.activity);
    raise_all();
  }
  return n;
}

inline void engine::end_inline(stream_core& s, std::uint64_t n) {
  device_->write_value(s.lane, &s.activity->completed, n);
}

/// One launch-like call on a latency-critical stream: a request of its own unless one is open.
template <class F>
void engine::inline_call(stream_core& s, F&& f) {
  throw_if_failed();
  throw_if_gone(*s.work);
  const device_scope current(*device_);
  const std::scoped_lock lock(s.inline_mutex);
  // Read under the lock: `close_request` takes it after lowering `open`, so a unit is counted
  // either here or there, never by neither.
  if (s.work->open.load() > 0) {
    f();
    s.dirty = true;
    return;
  }
  const std::uint64_t n = begin_inline(s);
  try {
    f();
  } catch (...) {
    // The unit was counted; end it, or the gate would stay closed.
    try {
      end_inline(s, n);
    } catch (...) {
      fail(std::current_exception());
    }
    throw;
  }
  end_inline(s, n);
}

inline void engine::check_inline(const stream_core&, const kernel_entry& k,
                                 const shape& geometry) const {
  validate(geometry, device_->facts().limits, k.name);
}

inline void engine::inline_launch(stream_core& s, const kernel_entry& k, const void* body,
                                  const shape& geometry) {
  submission what;
  what.kernel = &k;
  what.body = body;
  what.geometry = geometry;
  what.how = form::whole;
  what.count = geometry.tiles();
  inline_call(s, [&] { device_->submit(s.lane, what); });
  s.work->launches.fetch_add(1, std::memory_order_relaxed);
  s.work->tiles.fetch_add(what.count, std::memory_order_relaxed);
}

inline void engine::inline_copy(stream_core& s, void* to, const void* from, std::size_t bytes) {
  inline_call(s, [&] { device_->copy(s.lane, to, from, bytes); });
}

inline void engine::inline_fill(stream_core& s, void* to, unsigned char byte, std::size_t bytes) {
  inline_call(s, [&] { device_->fill(s.lane, to, byte, bytes); });
}

/// The callable may use the stream itself, so no lock is held while it runs; a hold of its own
/// keeps the gate closed meanwhile.
template <class F>
void engine::inline_run(stream_core& s, F&& f) {
  throw_if_failed();
  throw_if_gone(*s.work);
  const device_scope current(*device_);
  workload_core& w = *s.work;
  // Also inside a request: another thread may be the one to end it.
  protocol::begin<atomics>(w.held);
  raise_all();
  inline_runs_.fetch_add(1);
  run_hold hold{this, &w, false, 0, this_thread_runs()};
  this_thread_runs() = &hold;
  auto end = [&] {
    this_thread_runs() = hold.outer;
    inline_runs_.fetch_sub(1);
    const std::scoped_lock lock(s.inline_mutex);
    if (w.open.load() > 0) {
      s.dirty = true;
    } else {
      const std::uint64_t n = begin_inline(s);
      end_inline(s, n);
    }
    if (!hold.let_go) protocol::finish<atomics>(w.held);
  };
  try {
    std::forward<F>(f)(s.lane);
  } catch (...) {
    end();
    throw;
  }
  end();
}

inline bool engine::inline_done(const stream_core& s, std::uint64_t number) const {
  return atomics::load<protocol::order::acquire, protocol::scope::system>(s.activity->completed) >=
         number;
}

/// The end of everything issued on the stream so far, as a value it will write.
inline stream_point engine::inline_point(stream_core& s) {
  throw_if_failed();
  const device_scope current(*device_);
  const std::scoped_lock lock(s.inline_mutex);
  if (s.dirty) {
    // Inside a request: leave word of the work so far without giving up the request's hold.
    s.dirty = false;
    const std::uint64_t n = begin_inline(s);
    end_inline(s, n);
  }
  return {s.shared_from_this(), s.last_write};
}

inline void engine::inline_record(stream_core& s, cudaEvent_t e) {
  inline_call(s, [&] { device_->record_event(s.lane, e); });
}

// ---- waits of a latency-critical stream on something else

/// Puts waits of ours on streams of the program: without the lock, which a driver call that waits
/// for somebody must not hold, and not while the device must be free of such waits (`quiet_`).
template <class F>
void engine::place_wait(std::unique_lock<std::mutex>& lock, F&& put) {
  finished_.wait(lock, [&] { return !quiet_ || has_failed_.load(); });
  if (down_)
    throw contract_error("the scheduler is gone; keep it alive while its streams are used");
  ++placing_;
  lock.unlock();
  try {
    throw_if_failed();
    put();
  } catch (...) {
    lock.lock();
    --placing_;
    throw;
  }
  lock.lock();
  --placing_;
}
// ----------------------------------------

inline void engine::inline_wait(stream_core& s, const stream_point& p) {
  throw_if_failed();
  throw_if_gone(*s.work);
  if (p.stream.get() == &s || is_done(p)) return;
  const device_scope current(*device_);
  if (p.stream->work->inline_path && !held_back(*p.stream)) {
    const std::scoped_lock lock(s.inline_mutex);
    device_->wait_value(s.lane, &p.stream->activity->completed, p.number);
    return;
  }
  block_stream(s, {s.shared_from_this(), p, nullptr, {}}, nullptr);
}

/// Whether a latency-critical stream waits for work that a gate, or somebody else, holds up.
inline bool engine::held_back(const stream_core& s) const { return s.blockers.load() > 0; }

/// Makes the stream wait on the device, and until then counts neither its work nor the requests
/// this thread has open as active. What is already launched stays counted until it is done. For an
/// event of the program's, `theirs`, the stream records `b.foreign` once it has passed the wait.
inline void engine::block_stream(stream_core& s, blocker b, cudaEvent_t theirs) {
  b.parked = park_requests(std::this_thread::get_id());
  std::vector<run_hold*> let_go;
  for (run_hold* h = this_thread_runs(); h != nullptr; h = h->outer) {
    if (h->owner != this || std::exchange(h->let_go, true)) continue;
    let_go.push_back(h);
    if (h->parked == 0) protocol::finish<atomics>(h->work->held);
  }
  try {
    std::unique_lock lock(mutex_);
    await_room_to_park(lock, s);
    place_wait(lock, [&] {
      const std::scoped_lock mine(s.inline_mutex);
      const stream_core* until = b.until.stream.get();
      if (theirs != nullptr) {
        device_->wait_event(s.lane, theirs);
        device_->record_event(s.lane, b.foreign);
      } else if (b.foreign != nullptr) {
        device_->wait_event(s.lane, b.foreign);
      } else {
        device_->wait_value(s.lane,
                            until->work->inline_path ? &until->activity->completed : until->done,
                            b.until.number);
      }
      b.after = s.last_write;
      ++s.blockers;
    });
    const std::scoped_lock requests(requests_mutex_);
    blockers_.push_back(std::move(b));
    blockers_count_.store(blockers_.size(), std::memory_order_relaxed);
  } catch (...) {
    // Nothing is waited for: all holds as before.
    for (run_hold* h : let_go) {
      h->let_go = false;
      if (h->parked == 0) protocol::begin<atomics>(h->work->held);
    }
    if (!let_go.empty()) raise_all();
    unpark_requests(b.parked);
    throw;
  }
  wake_dispatcher();
}

// ---- requests
// -------------------------------------------------------------------------------------

inline std::shared_ptr<request_core> engine::open_request(workload_core* w,
                                                          clock::time_point arrived) {
  throw_if_failed();
  if (!w->inline_path) {
    throw contract_error("request() on workload '" + w->options.name +
                         "', which is not latency-critical; make it with .priority = "
                         "cede::latency_critical, or launch without a request");
  }
  if (arrived.time_since_epoch().count() < 0) {
    throw invalid_argument("request() on workload '" + w->options.name +
                           "': request_options.arrived lies before the beginning of "
                           "std::chrono::steady_clock; take it from that clock's now()");
  }
  auto r = std::make_shared<request_core>();
  r->work = w;
  r->opener = std::this_thread::get_id();
  r->opened = clock::now();
  r->arrived = arrived == clock::time_point{} ? r->opened : std::min(arrived, r->opened);
  const std::scoped_lock lock(requests_mutex_);
  throw_if_gone(*w);  // under the lock: `shutdown` closes what is in the list by then
  protocol::begin<atomics>(w->held);
  w->open.fetch_add(1);
  begin_busy(raise_all());
  r->flow = ++flows_;
  r->range = device_->start_range(w->request_name);
  ++requests_opened_;
  open_requests_.push_back(r);
  return r;
}

/// Leaves word of all work launched since the last time, per stream of the workload.
inline void engine::flush_dirty(workload_core* w, std::vector<stream_point>* points) {
  std::vector<std::shared_ptr<stream_core>> streams;
  {
    const std::scoped_lock lock(requests_mutex_);
    for (auto& weak : w->streams) {
      if (auto s = weak.lock()) streams.push_back(std::move(s));
    }
  }
  for (auto& s : streams) {
    const std::scoped_lock lock(s->inline_mutex);
    if (s->dirty) {
      s->dirty = false;
      const std::uint64_t n = begin_inline(*s);
      end_inline(*s, n);
    }
    if (points != nullptr && s->last_write != 0 && !inline_done(*s, s->last_write)) {
      points->push_back({s, s->last_write});
    }
  }
}

inline void engine::close_request(const std::shared_ptr<request_core>& r) {
  workload_core* w = r->work;
  bool holds = false;
  {
    const std::scoped_lock lock(requests_mutex_);
    if (r->closed) return;
    r->closed = true;
    holds = r->parked == 0;
    std::erase(open_requests_, r);
  }
  const device_scope current(*device_);
  // In this order: launches that see `open` at zero count themselves; those that saw it higher have
  // marked their stream, and it is visited now; the hold goes last, so the gate never opens
  // between.
  if (holds) w->open.fetch_sub(1);
  std::vector<stream_point> points;
  std::exception_ptr trouble;
  try {
    flush_dirty(w, &points);
  } catch (...) {
    trouble = std::current_exception();
    fail(trouble);
  }
  if (holds) protocol::finish<atomics>(w->held);
  bool look = false;
  {
    const bool nothing_left = points.empty();
    const std::scoped_lock lock(requests_mutex_);
    answering_.push_back({r, std::move(points)});
    look = nothing_left || answering_.size() % 64 == 0;
  }
  if (look) collect_answers();  // nobody else may
  if (trouble) std::rethrow_exception(trouble);
}

/// Lets go of the holds of the requests `opener` has open; what they launched stays counted.
inline std::vector<std::shared_ptr<request_core>> engine::park_requests(std::thread::id opener) {
  std::vector<std::shared_ptr<request_core>> parked;
  {
    const std::scoped_lock lock(requests_mutex_);
    for (auto& r : open_requests_) {
      if (r->opener == opener && !r->closed) parked.push_back(r);
    }
  }
  for (auto& r : parked) {
    bool first = false;
    {
      const std::scoped_lock lock(requests_mutex_);
      // Another thread may have closed it meanwhile: its hold is given back already.
      first = r->parked++ == 0 && !r->closed;
    }
    if (!first) continue;
    r->work->open.fetch_sub(1);
    flush_dirty(r->work, nullptr);
    protocol::finish<atomics>(r->work->held);
  }
  return parked;
}

inline void engine::unpark_requests(const std::vector<std::shared_ptr<request_core>>& parked) {
  for (const auto& r : parked) {
    bool last = false;
    {
      const std::scoped_lock lock(requests_mutex_);
      last = --r->parked == 0 && !r->closed;
      if (last) {
        protocol::begin<atomics>(r->work->held);
        r->work->open.fetch_add(1);
        begin_busy(since_start(clock::now()));
      }
    }
    if (last) raise_all();
  }
}

/// A gated callable that waits for gated work is not in the way of workloads of lower priority: its
/// stream does not count as on the device meanwhile.
inline void engine::mark_waiting_calls(bool begin) {
  for (gated_call* c = this_thread_calls(); c != nullptr; c = c->outer) {
    if (c->owner == this) begin ? ++c->stream->waiting_inside : --c->stream->waiting_inside;
  }
}

/// Parks this thread's requests, and its callables of `run`, while it waits for gated work.
class parked_requests {
 public:
  explicit parked_requests(engine& e)
      : engine_(e), parked_(e.park_requests(std::this_thread::get_id())) {
    for (run_hold* h = this_thread_runs(); h != nullptr; h = h->outer) {
      if (h->owner == &engine_ && h->parked++ == 0 && !h->let_go)
        protocol::finish<atomics>(h->work->held);
    }
    engine_.mark_waiting_calls(true);
  }
  parked_requests(const parked_requests&) = delete;
  parked_requests& operator=(const parked_requests&) = delete;
  ~parked_requests() {
    engine_.mark_waiting_calls(false);
    bool again = false;
    for (run_hold* h = this_thread_runs(); h != nullptr; h = h->outer) {
      if (h->owner != &engine_ || --h->parked != 0 || h->let_go) continue;
      protocol::begin<atomics>(h->work->held);
      again = true;
    }
    if (again) engine_.raise_all();
    engine_.unpark_requests(parked_);
  }

 private:
  engine& engine_;
  std::vector<std::shared_ptr<request_core>> parked_;
};

}  // namespace detail

CEDE_END_NAMESPACE
