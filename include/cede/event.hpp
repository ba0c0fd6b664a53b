// SPDX-License-Identifier: Apache-2.0
// A point in a stream that can be asked about and waited for, whichever device it is on.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>

#include <chrono>
#include <utility>

CEDE_BEGIN_NAMESPACE

/// Everything queued on a stream up to the moment `stream::record` was called. Cheap to copy. It is
/// done when the last tile of the last launch before it is, however often that was preempted.
///
/// Thread-safe. Only `synchronize` waits.
class event {
 public:
  /// An event that stands for nothing: `done()` is true, waiting returns at once.
  event() = default;

  /// True once everything before it is done. Never waits.
  [[nodiscard]] bool done() const {
    return !point_.stream || point_.stream->owner->is_done(point_);
  }
  /// Waits until it is done. Throws what the device failed with. Inside an open request of this
  /// thread the request gives way meanwhile if the event is one of gated work.
  void synchronize() const {
    if (point_.stream) {
      point_.stream->owner->wait_for(point_, detail::clock::time_point::max());
    }
  }
  /// The same for at most `limit`; false if that passed first.
  [[nodiscard]] bool synchronize_for(std::chrono::nanoseconds limit) const {
    return !point_.stream || point_.stream->owner->wait_for(point_, detail::deadline_after(limit));
  }

 private:
  friend class stream;
  explicit event(detail::stream_point p) : point_(std::move(p)) {}
  detail::stream_point point_;
};

CEDE_END_NAMESPACE
