// SPDX-License-Identifier: Apache-2.0
// A recorder of what ran when, written as JSON that opens in ui.perfetto.dev.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/trace_writer.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>
#include <sys/stat.h>

CEDE_BEGIN_NAMESPACE

/// What a span of a timeline shows.
enum class span_kind : std::uint8_t { launch, slice, yield, resume, opaque, copy, wait, gate };

/// What a moment of a timeline shows.
enum class instant_kind : std::uint8_t { raise, resume };

/// What a span or a moment belongs to.
struct span_details {
  std::uint64_t ordinal = 0;  ///< of the launch in its stream; 0 = none
  std::uint64_t cursor = 0;   ///< the next tile not yet executed; shown beside an ordinal
  std::uint64_t request = 0;  ///< the id given to `timeline::request`; 0 = none
};

/// Records spans, moments and requests in a ring of fixed size; the oldest are overwritten and
/// counted. Times are nanoseconds since any one moment, such as the start of the scheduler.
///
/// Recording is noexcept, never waits and never allocates: names are copied and cut to 55 bytes. A
/// timeline made without a capacity is off: recording is then one branch.
///
/// Thread-safe, except construction and destruction.
class timeline {
 public:
  /// Since any one moment, see above.
  using nanoseconds = std::chrono::nanoseconds;
  /// Stands for one line of the picture, as a rule a stream.
  using track = std::uint32_t;

  /// Off: records nothing.
  timeline() noexcept = default;
  /// Keeps the last `capacity` events, about 120 bytes each. 0 = off. Throws `invalid_argument`
  /// above 2^28.
  explicit timeline(std::size_t capacity) : capacity_(capacity) {
    if (capacity > max_capacity) {
      throw invalid_argument("timeline: a capacity of " + std::to_string(capacity) +
                             " events is more than 2^28");
    }
    if (capacity != 0) slots_ = std::make_unique<slot[]>(capacity);
  }
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;

  /// Whether it records.
  [[nodiscard]] bool on() const noexcept { return slots_ != nullptr; }
  /// Most events it keeps; 0 if off.
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  /// Events overwritten by newer ones, or given up because their place in the ring was in use.
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }

  /// Adds a line named `name` to the group `process`, as a rule a workload. Part of set-up: this
  /// allocates and may wait for another thread doing the same, or for `write`. Off: returns 0.
  track add_track(std::string_view process, std::string_view name) {
    if (!on()) return 0;
    const std::lock_guard lock(tracks_mutex_);
    tracks_.push_back({std::string(process), std::string(name)});
    tracks_known_.store(static_cast<track>(tracks_.size()), std::memory_order_release);
    return static_cast<track>(tracks_.size() - 1);
  }

  /// Something that took from `begin` to `end`. Spans of one track may overlap. A track that
  /// `add_track` did not return counts as dropped. Does not wait.
  void span(track where, span_kind kind, std::string_view name, nanoseconds begin, nanoseconds end,
            span_details of = {}) noexcept {
    if (on()) record(detail::trace_shape::span, where, text_of(kind), name, begin, end, of);
  }

  /// Something that happened at a moment. Does not wait.
  void instant(track where, instant_kind kind, std::string_view name, nanoseconds at,
               span_details of = {}) noexcept {
    if (on()) record(detail::trace_shape::instant, where, text_of(kind), name, at, at, of);
  }

  /// A request that is answered: arrows lead from its begin through the spans recorded with this id
  /// to its end. `id` is not 0 and not used twice. Does not wait.
  void request(track where, std::uint64_t id, std::string_view name, nanoseconds begin,
               nanoseconds end) noexcept {
    if (on()) {
      record(detail::trace_shape::request, where, "request", name, begin, end, {.request = id});
    }
  }

  /// Writes what the ring holds as trace-event JSON: a process per group, a thread per track, and
  /// more threads where spans of one track overlap. Recording may go on meanwhile; then an event
  /// that meets its place being read is dropped and counted. Throws `contract_error` if this
  /// timeline is off, `error` if the stream fails. Thread-safe; waits for the output.
  void write(std::ostream& to) const {
    must_be_on();
    write_trace(to);
    if (!to) throw error("the timeline could not be written: the stream refused the text");
  }

  /// The same into a file, which is replaced. Throws `error`, and leaves no file behind, if it
  /// cannot be written. Thread-safe; waits for the output.
  void write(const std::string& path) const {
    must_be_on();
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (!file) fail("opened", path);
    write_trace(file);
    file.close();
    if (!file) {
      const int code = errno;
      remove_regular(path);
      errno = code;
      fail("written", path);
    }
  }

 private:
  static constexpr std::size_t max_capacity = std::size_t{1} << 28U;

  // `state` is 0 while empty, else twice (1 + the event's number), plus 1 while someone is at it.
  struct slot {
    std::atomic<std::uint64_t> state{0};
    detail::trace_event event;
  };

  static const char* text_of(span_kind kind) noexcept {
    switch (kind) {
      case span_kind::launch:
        return "launch";
      case span_kind::slice:
        return "slice";
      case span_kind::yield:
        return "yield";
      case span_kind::resume:
        return "resume";
      case span_kind::opaque:
        return "opaque";
      case span_kind::copy:
        return "copy";
      case span_kind::wait:
        return "wait";
      case span_kind::gate:
        return "gate";
    }
    return "span";
  }
  static const char* text_of(instant_kind kind) noexcept {
    return kind == instant_kind::raise ? "raise" : "resume";
  }

  void record(detail::trace_shape what, track where, const char* category, std::string_view name,
              nanoseconds begin, nanoseconds end, const span_details& of) noexcept {
    if (where >= tracks_known_.load(std::memory_order_acquire)) return drop();
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    slot& s = slots_[number % capacity_];
    const std::uint64_t mine = 2 * (number + 1);
    std::uint64_t state = s.state.load(std::memory_order_relaxed);
    // In use, or already taken by a newer event: this one is given up rather than waited for.
    if ((state & 1U) != 0 || state > mine ||
        !s.state.compare_exchange_strong(state, mine | 1U, std::memory_order_acquire,
                                         std::memory_order_relaxed)) {
      return drop();
    }
    if (state != 0) drop();  // the event that was here
    detail::trace_event& e = s.event;
    e.what = what;
    e.track = where;
    e.category = category;
    e.begin = begin;
    e.end = end;
    e.ordinal = of.ordinal;
    e.cursor = of.cursor;
    e.request = of.request;
    std::size_t length = std::min(name.size(), e.name.size() - 1);
    // Not in the middle of a character.
    while (length > 0 && length < name.size() &&
           (static_cast<unsigned char>(name[length]) & 0xC0U) == 0x80U) {
      --length;
    }
    std::copy_n(name.data(), length, e.name.data());
    e.name[length] = '\0';
    s.state.store(mine, std::memory_order_release);
  }

  void drop() noexcept { dropped_.fetch_add(1, std::memory_order_relaxed); }

  void must_be_on() const {
    if (!on()) {
      throw contract_error(
          "this timeline is off and has recorded nothing; make it with a capacity to write it");
    }
  }

  void write_trace(std::ostream& to) const {
    std::vector<detail::trace_event> events;
    events.reserve(capacity_);
    for (std::size_t i = 0; i < capacity_; ++i) {
      slot& s = slots_[i];
      std::uint64_t state = s.state.load(std::memory_order_relaxed);
      while (state != 0 && ((state & 1U) != 0 || !s.state.compare_exchange_weak(
                                                     state, state | 1U, std::memory_order_acquire,
                                                     std::memory_order_relaxed))) {
        ::sched_yield();
        state = s.state.load(std::memory_order_relaxed);
      }
      if (state == 0) continue;
      events.push_back(s.event);
      s.state.store(state, std::memory_order_release);
    }
    std::vector<detail::trace_track> tracks;
    {
      const std::lock_guard lock(tracks_mutex_);
      tracks = tracks_;
    }
    detail::trace_writer(to, tracks, events).write(dropped());
  }

  [[noreturn]] static void fail(const char* what, const std::string& path) {
    const int code = errno;
    std::string sentence = "the timeline file \"" + path + "\" could not be " + what;
    if (code != 0) sentence += std::string(": ") + std::strerror(code);
    throw error(sentence);
  }

  // A device or a pipe that refused the text is not ours to remove.
  static void remove_regular(const std::string& path) noexcept {
    struct ::stat status{};
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode)) std::remove(path.c_str());
  }

  std::size_t capacity_ = 0;
  std::unique_ptr<slot[]> slots_;
  std::atomic<std::uint64_t> next_{0};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<track> tracks_known_{0};
  mutable std::mutex tracks_mutex_;
  std::vector<detail::trace_track> tracks_;
};

CEDE_END_NAMESPACE
