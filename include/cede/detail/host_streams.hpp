// SPDX-License-Identifier: Apache-2.0
// The raw streams and events of the host device: what is queued, and what may start.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/host_faults.hpp>
#include <cede/detail/host_kernel.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// One event: it stands for the latest `record_event` queued, a wait for the latest before it.
/// Records on several streams end in any order, and each wait is for one of them.
class host_event {
 public:
  std::uint64_t recorded = 0;  ///< number of the latest record; 0 = none yet

  [[nodiscard]] bool done(std::uint64_t record) const {
    return record <= all_to_ || beyond_.contains(record);
  }
  void end(std::uint64_t record) {
    beyond_.insert(record);
    while (beyond_.erase(all_to_ + 1) != 0) ++all_to_;
  }

 private:
  std::uint64_t all_to_ = 0;        // these have ended, and
  std::set<std::uint64_t> beyond_;  // these
};

enum class host_op : std::uint8_t {
  kernel,
  copy,
  fill,
  write_value,
  wait_value,
  record_event,
  wait_event
};

constexpr std::string_view host_op_name(host_op o) {
  constexpr std::string_view names[] = {"kernel",     "copy",         "fill",      "write_value",
                                        "wait_value", "record_event", "wait_event"};
  return names[static_cast<std::size_t>(o)];
}

/// One operation of a stream.
struct host_operation {
  host_op what = host_op::copy;
  std::shared_ptr<host_kernel> kernel{};
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  unsigned char byte = 0;
  std::uint64_t* word = nullptr;
  std::uint64_t value = 0;  ///< of a word; of an event, which record
  std::shared_ptr<host_event> event{};
  bool asked = false;  ///< for faults and delay
  std::chrono::steady_clock::time_point not_before{};

  void move_bytes() const {
    if (bytes == 0) return;
    if (what == host_op::copy) {
      std::memmove(to, from, bytes);
    } else {
      std::memset(to, byte, bytes);
    }
  }
};

/// One raw stream. Its operations run one after another; the first one stays in the queue while an
/// SM or the copy engine works on it.
struct host_stream {
  stream_class priority = stream_class::lane;
  std::deque<host_operation> queue;
  bool closed = false;
  std::uint64_t queued = 0;
  std::uint64_t done = 0;
};

/// All raw streams and events of a device. No threads and no lock: the device locks around it, and
/// takes from it the kernels and copies that may start.
class host_streams {
 public:
  using clock = std::chrono::steady_clock;
  struct ready_kernel {
    std::shared_ptr<host_stream> stream;
    std::shared_ptr<host_kernel> kernel;
  };
  struct ready_copy {
    std::shared_ptr<host_stream> stream;
    host_operation operation;
  };

  /// Copies up to this size are done at once by whoever carries on the stream.
  static constexpr std::size_t small_copy = 4096;

  host_streams(host_injector& injector, host_health& health)
      : injector_(injector), health_(health) {}

  // ---- handles ----------------------------------------------------------------------------------
  // Numbers that are never used twice, so that a stale handle is told from a new one.

  cudaStream_t make_stream(stream_class c) {
    auto s = std::make_shared<host_stream>();
    s->priority = c;
    const std::uintptr_t handle = next_handle();
    streams_.emplace(handle, std::move(s));
    return reinterpret_cast<cudaStream_t>(handle);
  }
  /// What is queued still runs.
  void destroy_stream(cudaStream_t handle) {
    const auto it = streams_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (it == streams_.end()) return;
    it->second->closed = true;
    if (!it->second->queue.empty()) closing_.push_back(it->second);
    streams_.erase(it);
  }
  [[nodiscard]] const std::shared_ptr<host_stream>& stream(cudaStream_t handle,
                                                           const char* call) const {
    const auto it = streams_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (it == streams_.end()) {
      throw contract_error(std::string("host device: ") + call +
                           " was given a stream that is not, or no longer, one of this device");
    }
    return it->second;
  }
  cudaEvent_t make_event() {
    const std::uintptr_t handle = next_handle();
    events_.emplace(handle, std::make_shared<host_event>());
    return reinterpret_cast<cudaEvent_t>(handle);
  }
  void destroy_event(cudaEvent_t handle) {
    events_.erase(reinterpret_cast<std::uintptr_t>(handle));
  }
  [[nodiscard]] const std::shared_ptr<host_event>& event(cudaEvent_t handle,
                                                         const char* call) const {
    const auto it = events_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (it == events_.end()) {
      throw contract_error(std::string("host device: ") + call +
                           " was given an event that is not, or no longer, one of this device");
    }
    return it->second;
  }

  // ---- queues -----------------------------------------------------------------------------------

  /// Queues an operation, and does or offers what may start.
  void push(const std::shared_ptr<host_stream>& s, host_operation o) {
    s->queue.push_back(std::move(o));
    ++s->queued;
    if (s->queue.size() != 1) return;
    carry_on(s);
    if (changed_) carry_on_parked();
  }
  /// The kernel or copy in flight on `s` has ended.
  void ended(const std::shared_ptr<host_stream>& s) {
    pop(*s);
    carry_on(s);
    carry_on_parked();
  }
  /// Looks again at every stream that waits for a word, an event or a time.
  void carry_on_parked() {
    do {
      changed_ = false;
      std::vector<std::shared_ptr<host_stream>> look;
      look.swap(parked_);
      for (const auto& s : look) carry_on(s);
    } while (changed_);
  }
  /// Drops everything queued. What is in flight is not waited for.
  void drop() {
    for (auto& [handle, s] : streams_) s->queue.clear();
    for (const auto& s : closing_) s->queue.clear();
    closing_.clear();
    parked_.clear();
    kernels_.clear();
    copies_.clear();
  }

  // ---- what may start ---------------------------------------------------------------------------

  /// The kernel whose next block a free SM takes: of the highest priority, then the longest ready.
  std::optional<ready_kernel> next_kernel() {
    std::erase_if(kernels_, [](const ready_kernel& k) { return k.kernel->all_started(); });
    const auto best = std::max_element(
        kernels_.begin(), kernels_.end(), [](const ready_kernel& a, const ready_kernel& b) {
          return a.stream->priority < b.stream->priority;  // the first of equals wins
        });
    if (best == kernels_.end()) return std::nullopt;
    return *best;
  }
  std::optional<ready_copy> next_copy() {
    if (copies_.empty()) return std::nullopt;
    ready_copy c = std::move(copies_.front());
    copies_.pop_front();
    return c;
  }
  [[nodiscard]] bool copy_ready() const { return !copies_.empty(); }
  /// How many kernels have become ready since the device was made.
  [[nodiscard]] std::uint64_t kernels_offered() const { return kernels_offered_; }
  /// Blocks of the kernel that became ready last.
  [[nodiscard]] std::uint64_t blocks_offered() const {
    return kernels_.empty() ? 0 : kernels_.back().kernel->what.count;
  }
  /// How many operations have ended since the device was made.
  [[nodiscard]] std::uint64_t operations_done() const { return operations_done_; }

  /// True while a stream waits for a word that the host may store to at any time.
  [[nodiscard]] bool waits_for_word() const {
    return std::any_of(parked_.begin(), parked_.end(),
                       [](const auto& s) { return s->queue.front().what == host_op::wait_value; });
  }
  /// When the next operation held back may start; it may have passed.
  [[nodiscard]] std::optional<clock::time_point> next_time() const {
    std::optional<clock::time_point> next;
    for (const auto& s : parked_) {
      const auto t = s->queue.front().not_before;
      if (t != clock::time_point{} && (!next || t < *next)) next = t;
    }
    return next;
  }

 private:
  std::uintptr_t next_handle() { return last_handle_ += 16; }

  void pop(host_stream& s) {
    s.queue.pop_front();
    ++s.done;
    ++operations_done_;
    if (s.closed && s.queue.empty()) {
      std::erase_if(closing_, [&](const auto& other) { return other.get() == &s; });
    }
  }

  // Carries a stream on until its first operation needs somebody else or has to wait.
  void carry_on(const std::shared_ptr<host_stream>& s) {
    while (!s->queue.empty() && !health_.failed()) {
      host_operation& o = s->queue.front();
      if (!o.asked && !admit(o)) return;
      if (o.not_before != clock::time_point{}) {
        if (o.not_before > clock::now()) {
          parked_.push_back(s);
          return;
        }
        o.not_before = {};
      }
      switch (o.what) {
        case host_op::kernel:
          kernels_.push_back({s, o.kernel});
          ++kernels_offered_;
          return;
        case host_op::copy:
        case host_op::fill:
          if (o.bytes > small_copy) {
            copies_.push_back({s, o});
            return;
          }
          o.move_bytes();
          break;
        case host_op::write_value:
          std::atomic_ref<std::uint64_t>(*o.word).store(o.value, std::memory_order_seq_cst);
          changed_ = true;
          break;
        case host_op::wait_value:
          if (std::atomic_ref<std::uint64_t>(*o.word).load(std::memory_order_seq_cst) < o.value) {
            parked_.push_back(s);
            return;
          }
          break;
        case host_op::record_event:
          o.event->end(o.value);
          changed_ = true;
          break;
        case host_op::wait_event:
          if (!o.event->done(o.value)) {
            parked_.push_back(s);
            return;
          }
          break;
      }
      pop(*s);
    }
  }
  // Asks once, when its turn has come, whether an operation fails or is held back.
  bool admit(host_operation& o) {
    o.asked = true;
    if (!injector_.any()) return true;
    const auto v = injector_.ask(host_op_name(o.what));
    if (v.code != 0) {
      health_.fail(host_op_name(o.what), v);
      return false;
    }
    if (v.delay.count() > 0) {
      o.not_before = clock::now() + std::chrono::duration_cast<clock::duration>(v.delay);
    }
    return true;
  }

  host_injector& injector_;
  host_health& health_;
  std::uintptr_t last_handle_ = 0x1000;  // above the handles CUDA gives a meaning to
  std::unordered_map<std::uintptr_t, std::shared_ptr<host_stream>> streams_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<host_event>> events_;
  std::vector<std::shared_ptr<host_stream>> closing_;  // destroyed with work queued
  std::vector<std::shared_ptr<host_stream>> parked_;
  std::vector<ready_kernel> kernels_;  // in the order in which they became ready
  std::deque<ready_copy> copies_;
  std::uint64_t kernels_offered_ = 0;
  std::uint64_t operations_done_ = 0;
  bool changed_ = false;  // something others may wait for has happened
};

}  // namespace detail

CEDE_END_NAMESPACE
