// SPDX-License-Identifier: Apache-2.0
// What the program brings along: streams and events of its own.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_queue.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The stream that stands for one of the program's already, or null. Two in front of one would
/// each keep an order of their own, and two workloads would hold back each other's work: it belongs
/// to one workload, and adopted again it is the same stream. A stream of cede's own is refused: its
/// words and its order are the scheduler's.
inline std::shared_ptr<stream_core> engine::known_adoption(const workload_core* w,
                                                           cudaStream_t raw) {
  const std::string who = "workload '" + w->options.name + "': adopt() of ";
  std::vector<std::shared_ptr<stream_core>> alive;  // outlives the lock: the last handle may go
  const std::scoped_lock lock(mutex_, requests_mutex_, spares_mutex_);
  for (const auto& other : workloads_) {
    for (const auto& weak : other->streams) {
      const auto s = alive.emplace_back(weak.lock());
      if (s == nullptr) continue;
      if (raw == s->own_lane) {
        throw contract_error(who + "the raw stream behind stream " + s->name + " of workload '" +
                             other->options.name +
                             "', which is valid inside its run() only; copy the cede::stream, or "
                             "make another with workload::stream()");
      }
      if (raw != s->adopted && raw != s->lane) continue;
      if (other.get() == w) return s;
      throw contract_error(who + "a stream that workload '" + other->options.name +
                           "' has adopted as " + s->name +
                           "; a stream belongs to one workload: adopt another one, or first let "
                           "the work on that one end and its handles go");
    }
  }
  const auto own = [raw](const lane_kit& kit) { return kit.lane == raw; };
  if (raw == cover_stream_ || raw == probe_stream_ ||
      std::any_of(spare_lanes_.begin(), spare_lanes_.end(), own) ||
      std::any_of(spare_inline_.begin(), spare_inline_.end(), own)) {
    throw contract_error(who +
                         "a raw stream of a cede::stream that is gone; it was valid inside run() "
                         "only. Make a stream with workload::stream()");
  }
  return nullptr;
}

/// A stream that the device does not know would be found out at the first launch only, and a
/// latency-critical one could not even be told how that ended.
inline void engine::check_adoption(const workload_core* w, cudaStream_t raw) {
  device_->check();
  try {
    static_cast<void>(device_->query(raw));
  } catch (const error& e) {
    throw contract_error("workload '" + w->options.name +
                         "': adopt() of a stream that the device refuses; adopt one that is alive "
                         "and of this device (" +
                         e.what() + ")");
  }
}

/// Records one of CUDA's events behind everything queued so far: whoever waits for it waits for the
/// last tile, wherever the work is by then.
inline void engine::gated_record(stream_core& s, cudaEvent_t e) {
  throw_if_failed();
  const device_scope current(*device_);
  std::unique_lock order(s.order_mutex);
  if (s.adopted != nullptr) {
    device_->record_event(s.adopted, e);
    return;
  }
  // Marks have a stream of their own, parked in waits: the lane must stay free for resumes.
  if (s.marks == nullptr) s.marks = take_marks();
  std::unique_lock lock(mutex_);
  if (s.marked <= s.finished.load()) await_room_to_park(lock, s, &order);
  s.marked = s.last_number;
  place_wait(lock, [&, number = s.last_number] {
    device_->wait_value(s.marks, s.done, number);
    device_->record_event(s.marks, e);
  });
}

/// A stream for marks: one that a stream which is gone has left, or a new one.
inline cudaStream_t engine::take_marks() {
  {
    const std::scoped_lock lock(spares_mutex_);
    if (!spare_marks_.empty()) {
      cudaStream_t marks = spare_marks_.back();
      spare_marks_.pop_back();
      return marks;
    }
  }
  return device_->make_stream(stream_class::cover);
}

// ---- waits for the program's events
//
// A wait is for the event as it is recorded at the moment of the call, as with cudaStreamWaitEvent:
// the program may record it again, or destroy it, as soon as the call returns. The scheduler looks
// later whether the wait is over, so it never looks at the program's event but at one of its own
// that the device records behind a wait for it.

/// The wait of a gated stream is placed beside its lane, which must stay free for resumes.
inline void engine::gated_wait(stream_core& s, cudaEvent_t e) {
  throw_if_failed();
  throw_if_gone(*s.work);
  const device_scope current(*device_);
  if (device_->event_done(e)) return;
  operation op;
  op.work = wait_work{};
  enqueue(s, std::move(op), e);
}

/// The wait of a latency-critical stream is placed on its lane: it is over when the stream has
/// passed it. What the stream did before is counted until then by itself.
inline void engine::inline_wait(stream_core& s, cudaEvent_t e) {
  throw_if_failed();
  throw_if_gone(*s.work);
  const device_scope current(*device_);
  if (device_->event_done(e)) return;
  const cudaEvent_t mine = take_event();
  try {
    block_stream(s, {s.shared_from_this(), {}, mine, {}}, e);
  } catch (...) {
    return_event(mine);
    throw;
  }
}

inline void engine::wait_foreign_stream(stream_core& s, cudaStream_t foreign) {
  throw_if_failed();
  throw_if_gone(*s.work);
  const device_scope current(*device_);
  const cudaEvent_t mine = take_event();
  try {
    device_->record_event(foreign, mine);
    if (s.work->inline_path) {
      block_stream(s, {s.shared_from_this(), {}, mine, {}}, nullptr);
    } else {
      operation op;
      op.work = wait_work{{}, mine};
      enqueue(s, std::move(op));
    }
  } catch (...) {
    return_event(mine);
    throw;
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
