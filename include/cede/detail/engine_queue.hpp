// SPDX-License-Identifier: Apache-2.0
// What callers do to gated streams: queue operations, wait for them, suspend and resume workloads.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_behind.hpp>
#include <cede/detail/engine_inline.hpp>
#include <cede/detail/worker_memory.hpp>

#include <algorithm>
#include <optional>

CEDE_BEGIN_NAMESPACE

namespace detail {

inline void engine::wake_dispatcher() {
  nudged_.store(true);
  if (asleep_.load()) {
    // Taken so that the notice cannot fall between the dispatcher's last look and its sleep.
    const std::scoped_lock lock(mutex_);
    work_.notify_one();
  }
}

/// One wait on a stream of its own that ends when nothing gated is outstanding: with it,
/// `cudaDeviceSynchronize` and its like cover what is held back or preempted. Call with the lock.
inline void engine::cover(std::unique_lock<std::mutex>&) {
  if (!may_cover()) return;
  covered_ = true;
  device_->wait_value(cover_stream_, cover_word_, ++cover_value_);
}

inline bool engine::may_cover() const {
  const auto now = clock::now();
  if (covered_ || cover_stream_ == nullptr || now < uncovered_until_) return false;
  // The guard may have let it go for the sake of a call that is still stuck.
  const std::chrono::nanoseconds since(driver_call_since_.load());
  return since.count() == 0 || since_start(now) - since < options_.stuck_after / 2;
}

inline void engine::uncover() {
  if (!covered_) return;
  covered_ = false;
  atomics::store<protocol::order::release, protocol::scope::system>(*cover_word_, cover_value_);
}

/// Streams of the program that stand in a wait of ours on the device, the cover included.
inline std::size_t engine::parked_streams() const {
  std::size_t n = 1;
  for (const workload_core* w : gated_) {
    for (const auto& s : w->busy) {
      if (s->adopted != nullptr && !s->queue.empty()) ++n;
      if (s->marked > s->finished.load(std::memory_order_relaxed)) ++n;
    }
  }
  return n + blockers_count_.load(std::memory_order_relaxed);
}

/// Sleeps until something has moved, or for a moment. Without the stream's order, if the caller has
/// it: what is waited for may be the end of a callable that itself uses the stream.
inline void engine::await_progress(std::unique_lock<std::mutex>& lock,
                                   std::unique_lock<std::mutex>* order) {
  const bool ordered = order != nullptr && order->owns_lock();
  if (ordered) order->unlock();
  finished_.wait_for(lock, std::chrono::milliseconds(100));
  if (!ordered) return;
  lock.unlock();
  order->lock();
  lock.lock();
}

/// Waits until one more stream may be parked: the device has few queues, and one whose head waits
/// holds up every stream mapped to it. Gives up the lock meanwhile; the requests of this thread
/// give way.
inline void engine::await_room_to_park(std::unique_lock<std::mutex>& lock, const stream_core& s,
                                       std::unique_lock<std::mutex>* order) {
  std::unique_ptr<parked_requests> giving_way;
  while (parked_streams() >= device_->facts().parked_limit && !down_ && !has_failed_.load()) {
    if (s.inside_run.load() == std::this_thread::get_id()) {
      throw contract_error("stream " + s.name +
                           ": too many streams wait for gated work already and the caller runs "
                           "inside a run() of this one; record or wait after run()");
    }
    if (!giving_way) {
      lock.unlock();
      giving_way = std::make_unique<parked_requests>(*this);
      lock.lock();
      continue;
    }
    await_progress(lock, order);
  }
}

/// An event of ours, for one use. Call without the lock.
inline cudaEvent_t engine::take_event() {
  {
    const std::scoped_lock lock(mutex_);
    if (!spare_events_.empty()) {
      cudaEvent_t e = spare_events_.back();
      spare_events_.pop_back();
      return e;
    }
  }
  return device_->make_event();
}
inline void engine::return_event(cudaEvent_t e) noexcept {
  const std::scoped_lock lock(mutex_);
  spare_events_.push_back(e);
}

/// Keeps the events of an operation that is over, or never will be, for another use. Call with the
/// lock.
inline void engine::spare_events_of(operation& op) {
  if (op.after != nullptr) spare_events_.push_back(op.after);
  if (const auto* wait = std::get_if<wait_work>(&op.work);
      wait != nullptr && wait->foreign != nullptr)
    spare_events_.push_back(wait->foreign);
}

/// Queues an operation; returns its number. Waits only if the queue is full. `theirs`: the
/// operation is a wait for this event of the program's as it is recorded now.
inline std::uint64_t engine::enqueue(stream_core& s, operation op, cudaEvent_t theirs) {
  throw_if_failed();
  const device_scope current(*device_);
  std::unique_ptr<parked_requests> park_while_full;
  const auto began = clock::now();
  bool told = false;
  // What is put on the program's stream, or on the marks, is there in the order of the operations.
  std::unique_lock order(s.order_mutex, std::defer_lock);
  const bool on_marks = theirs != nullptr && s.adopted == nullptr;
  if (s.adopted != nullptr || on_marks) order.lock();
  if (on_marks && s.marks == nullptr) s.marks = take_marks();
  std::unique_lock lock(mutex_);
  if (s.adopted != nullptr ? s.queue.empty() : on_marks && s.marked <= s.finished.load())
    await_room_to_park(lock, s, &order);
  // An adopted stream has one wait per operation in front of the driver's own queue, which blocks
  // when it is full: stay well below.
  const std::size_t room =
      s.adopted != nullptr ? std::min<std::size_t>(options_.max_queued, 256) : options_.max_queued;
  while ((s.queue.size() >= room || quiet_) && !down_ && !has_failed_.load()) {
    if (!quiet_ && s.inside_run.load() == std::this_thread::get_id()) {
      throw contract_error("stream " + s.name +
                           ": its queue is full and the caller runs inside its own "
                           "run(), which must return first; launch outside run()");
    }
    if (!quiet_ && !s.queue.empty())
      refuse_wait_for_oneself({s.shared_from_this(), s.queue.front().number},
                              "its queue is full, and ");
    if (!park_while_full) {
      lock.unlock();
      park_while_full = std::make_unique<parked_requests>(*this);
      lock.lock();
      continue;
    }
    await_progress(lock, &order);
    if (!told && s.work->suspended && clock::now() - began > std::chrono::seconds(1)) {
      told = true;
      log("stream " + s.name +
          ": its queue is full and its workload is suspended; the call waits until another "
          "thread resumes the workload");
    }
  }
  if (has_failed_.load()) {
    lock.unlock();
    throw_if_failed();
  }
  if (stopping_) {
    throw contract_error(
        "stream " + s.name + " of workload '" + s.work->options.name +
        "': its scheduler is gone; keep the scheduler alive while its streams are used");
  }
  cover(lock);
  op.number = s.last_number + 1;
  if (order.owns_lock()) {
    if (on_marks) s.marked = op.number;
    auto take_back_events = [&] {
      // The caller's, if it came with one, stays the caller's.
      if (auto* wait = std::get_if<wait_work>(&op.work); wait != nullptr && theirs == nullptr)
        wait->foreign = nullptr;
      spare_events_of(op);
    };
    try {
      place_wait(lock, [&] {
        if (theirs != nullptr) {
          const cudaStream_t on = on_marks ? s.marks : s.adopted;
          cudaEvent_t& mine = std::get<wait_work>(op.work).foreign;
          mine = take_event();
          device_->wait_event(on, theirs);
          device_->record_event(on, mine);
        }
        if (s.adopted != nullptr) {
          // Behind the user's own work on that stream, and in front of what the user puts there
          // next.
          op.after = take_event();
          device_->record_event(s.adopted, op.after);
          device_->wait_value(s.adopted, s.done, op.number);
        }
      });
    } catch (...) {
      take_back_events();
      throw;
    }
    if (has_failed_.load()) {
      // It will not be done: whoever waits on the stream is let go.
      if (s.adopted != nullptr)
        atomics::store<protocol::order::release, protocol::scope::system>(*s.done, op.number);
      take_back_events();
      lock.unlock();
      throw_if_failed();
    }
    // Without the lock, others may have queued on a stream that is not adopted.
    op.number = s.last_number + 1;
    if (on_marks) s.marked = op.number;
  }
  if (auto* l = op.launch()) {
    ++s.work->stats.launches;
    if (l->protocolled()) l->ordinal = ++s.last_ordinal;
  }
  s.last_number = op.number;
  const std::uint64_t number = op.number;
  if (s.queue.empty()) s.work->busy.push_back(s.shared_from_this());
  s.queue.push_back(std::move(op));
  if (outstanding_++ == 0) guard_wake_.notify_one();
  lock.unlock();
  nudged_.store(true);
  if (asleep_.load()) work_.notify_one();
  return number;
}

inline plan engine::plan_for(const workload_core&, const kernel_entry& k, const shape& s,
                             const launch_options& o) {
  throw_if_failed();
  const device_scope current(*device_);
  if (!device_->prepared(k)) prepare(k);
  return plan_on(*device_, k, s, o);
}

/// Memory of a stream's persistent launches; one after another they use the same. Never freed
/// before the device, so that growing it waits for nothing.
inline std::byte* engine::worker_memory_of(stream_core& s, const kernel_entry& k, const plan& p) {
  const std::size_t bytes = p.memory.bytes;
  if (bytes == 0) return nullptr;
  {
    const std::scoped_lock lock(mutex_);
    if (s.memory_bytes >= bytes) return s.memory;
  }
  const device_scope current(*device_);
  std::byte* grown = make_worker_memory(*device_, k, p);
  const std::scoped_lock lock(mutex_);
  if (s.memory_bytes < bytes) {
    s.memory = grown;
    s.memory_bytes = bytes;
  }
  return grown;
}

/// Runs a callable on this thread once the stream's turn has come and all before it is done.
template <class F>
void engine::gated_run(stream_core& s, F&& f) {
  if (s.inside_run.load() == std::this_thread::get_id()) {
    throw contract_error("stream " + s.name +
                         ": run() inside its own run() would wait for itself; use "
                         "the raw stream that was passed in");
  }
  auto turn = std::make_shared<admission>();
  operation op;
  op.work = opaque_work{turn, {}, false, {}};
  const stream_point here{s.shared_from_this(), enqueue(s, std::move(op))};
  {
    const parked_requests parked(*this);
    auto looked = clock::now();
    bool told = false;
    std::unique_lock lock(mutex_);
    try {
      refuse_wait_for_oneself(here);
    } catch (...) {
      turn->called = true;  // when its turn comes it is over at once
      throw;
    }
    while (!turn->granted && !turn->refused) {
      finished_.wait_for(lock, std::chrono::milliseconds(200));
      tell_of_suspension(here, looked, told);
    }
    if (turn->refused) std::rethrow_exception(turn->refused);
    s.inside_run.store(std::this_thread::get_id());
  }
  const device_scope current(*device_);
  gated_call call{this, &s, this_thread_calls()};
  this_thread_calls() = &call;
  auto end = [&] {
    this_thread_calls() = call.outer;
    // The dispatcher leaves word of the end behind whatever the callable put on the lane.
    const std::scoped_lock lock(mutex_);
    s.inside_run.store({});
    turn->called = true;
    nudged_.store(true);
  };
  try {
    std::forward<F>(f)(s.lane);
  } catch (...) {
    end();
    throw;
  }
  end();
}

inline void engine::suspend(workload_core* w) {
  throw_if_failed();
  const std::scoped_lock lock(mutex_);
  if (down_) throw_if_gone(*w);
  w->suspended = true;
  nudged_.store(true);
}

inline void engine::resume(workload_core* w) {
  throw_if_failed();
  const std::scoped_lock lock(mutex_);
  if (down_) throw_if_gone(*w);
  w->suspended = false;
  nudged_.store(true);
  work_.notify_one();
}

inline void engine::free_after(stream_point p, void* memory) {
  throw_if_failed();
  const std::scoped_lock lock(mutex_);
  if (down_) throw_if_gone(*p.stream->work);  // nobody would free it
  condemned_.emplace_back(std::move(p), memory);
  nudged_.store(true);
  work_.notify_one();
}

// ---- waiting
// --------------------------------------------------------------------------------------

inline bool engine::is_done(const stream_point& p) const {
  if (p.stream->work->inline_path) return inline_done(*p.stream, p.number);
  return p.stream->finished.load(std::memory_order_acquire) >= p.number;
}

inline stream_point engine::newest(const std::shared_ptr<stream_core>& s) {
  if (s->work->inline_path) return inline_point(*s);
  const std::scoped_lock lock(mutex_);
  return {s, s->last_number};
}

inline void engine::synchronize(workload_core* w) {
  for (const stream_point& p : newest(w)) wait_for(p, clock::time_point::max());
  if (!w->inline_path) return;  // gated streams stay until they are done
  std::vector<std::pair<const activity_words*, std::uint64_t>> left;
  {
    const std::scoped_lock lock(spares_mutex_);
    for (const lane_kit& kit : spare_inline_) {
      if (kit.last_owner == w) left.emplace_back(kit.activity, kit.last_write);
    }
  }
  for (const auto& [activity, number] : left)
    await_inline(*activity, number, clock::time_point::max(), nullptr);
}

inline std::vector<stream_point> engine::newest(workload_core* w) {
  std::vector<std::shared_ptr<stream_core>> streams;
  {
    const std::scoped_lock lock(mutex_, requests_mutex_);
    for (auto& weak : w->streams) {
      if (auto s = weak.lock()) streams.push_back(std::move(s));
    }
  }
  std::vector<stream_point> points;
  points.reserve(streams.size());
  for (auto& s : streams) points.push_back(newest(s));
  return points;
}

/// Waits for a word that a latency-critical stream writes: looks at it, briefly without pause, and
/// asks the device from time to time, so that a dead one is noticed.
inline bool engine::await_inline(const activity_words& a, std::uint64_t number,
                                 clock::time_point deadline, stream_core* s) {
  const auto begin = clock::now();
  auto last_check = begin;
  auto looked = begin;
  bool told = false;
  std::optional<parked_requests> giving_way;
  for (unsigned turn = 0;; ++turn) {
    if (atomics::load<protocol::order::acquire, protocol::scope::system>(a.completed) >= number)
      return true;
    throw_if_failed();
    if ((turn & 63U) != 63U) {
      __builtin_ia32_pause();
      continue;
    }
    const auto now = clock::now();
    if (now >= deadline) return false;
    // It waits for gated work, which this thread's own requests must not keep out.
    if (!giving_way && s != nullptr && held_back(*s)) giving_way.emplace(*this);
    if (now - last_check > std::chrono::milliseconds(20)) {
      last_check = now;
      try {
        const device_scope current(*device_);
        device_->check();
      } catch (...) {
        fail(std::current_exception());
        throw;
      }
      if (giving_way && deadline == clock::time_point::max()) {
        const std::scoped_lock lock(mutex_);
        tell_of_suspension({s->shared_from_this(), number}, looked, told);
      }
    }
    // Spinning is for answers that are about to come; a long one does not need a core.
    if (now - begin > std::chrono::milliseconds(5))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

/// Waits for one point. Gated: sleeps until the dispatcher tells of progress.
inline bool engine::wait_for(const stream_point& p, clock::time_point deadline) {
  stream_core& s = *p.stream;
  if (is_done(p)) {
    throw_if_failed();
    if (s.work->inline_path) collect_answers();
    return true;
  }
  if (may_wait_for_oneself()) {
    const std::scoped_lock lock(mutex_);
    refuse_wait_for_oneself(p);
  }
  if (s.work->inline_path) {
    if (!await_inline(*s.activity, p.number, deadline, &s)) return false;
    collect_answers();
    return true;
  }
  const parked_requests parked(*this);
  auto looked = clock::now();
  bool told = false;
  std::unique_lock lock(mutex_);
  while (!is_done(p)) {
    if (has_failed_.load()) {
      lock.unlock();
      throw_if_failed();
    }
    if (down_ || is_over(p)) {
      throw cancelled("stream " + s.name +
                      ": its work was cancelled because its scheduler ended while the workload, "
                      "or one it waited for, was suspended");
    }
    if (deadline == clock::time_point::max()) {
      finished_.wait_for(lock, std::chrono::milliseconds(200));
      tell_of_suspension(p, looked, told);
    } else if (finished_.wait_until(lock, deadline) == std::cv_status::timeout && !is_done(p)) {
      return false;
    }
  }
  return true;
}

}  // namespace detail

CEDE_END_NAMESPACE
