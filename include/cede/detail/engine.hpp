// SPDX-License-Identifier: Apache-2.0
// The scheduler's inside: its state and the promises between its parts.
//
//   engine_inline.hpp    the latency-critical path: on the caller's thread, atomics only
//   engine_queue.hpp     what callers do to gated streams: queue, wait, suspend
//   engine_behind.hpp      what a wait waits for, also by way of other streams
//   engine_foreign.hpp     streams and events of the program's own
//   engine_dispatch.hpp  the one thread that submits, collects and asks the policy
//   engine_collect.hpp     what it reads
//   engine_submit.hpp      what it launches
//   engine_end.hpp         how it gives up
//   engine_guard.hpp     the thread that notices when that one is stuck
//   engine_last.hpp      where the last handle goes on a thread that cannot wait for the end
//
// Locks. `mutex_` guards everything gated and is never held across a driver call on a hot path. A
// latency-critical stream has a lock of its own, taken only by its callers. The latency-critical
// path takes no lock that any other path holds across a driver call.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/core.hpp>
#include <cede/detail/graph_node.hpp>
#include <cede/detail/operation.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/policy/lift.hpp>
#include <cede/policy/policy.hpp>
#include <cede/policy/strict_priority.hpp>
#include <cede/stats.hpp>
#include <cede/timeline.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

/// How a scheduler behaves. Every field has a default.
struct scheduler_options {
  /// Who runs when; null = `policy::strict_priority`. One object for one scheduler.
  std::shared_ptr<scheduling_policy> policy{};
  /// Keep a timeline for `write_timeline`.
  bool timeline = false;
  /// Events the timeline holds, at least 1; the oldest go first.
  std::size_t timeline_events = std::size_t{1} << 16U;
  /// Operations a gated stream queues before `launch` and its like wait (back-pressure).
  std::size_t max_queued = 16384;
  /// While work is held back: a driver call of the dispatcher, or a stillstand on the device, that
  /// lasts longer than this is taken for a wait on that very work (`cudaFree`, or code being
  /// loaded), which would never end. The wait that stands for held-back work is let go, with a
  /// message. At least 1 ms; more than a year counts as a year.
  std::chrono::milliseconds stuck_after{500};
};

namespace detail {

/// Streams that stand for all others cannot be told apart from them, let alone held back.
inline void refuse_default_stream(cudaStream_t s, const std::string& who) {
  if (s == nullptr || s == reinterpret_cast<cudaStream_t>(0x1)) {
    throw contract_error(who +
                         " of the legacy default stream, which waits for all other streams of the "
                         "device and they for it; make one with cudaStreamCreateWithFlags(..., "
                         "cudaStreamNonBlocking)");
  }
}

/// Nor can the stream that is another one in every thread: the scheduler's threads use it, too.
inline void refuse_per_thread_stream(cudaStream_t s, const std::string& who) {
  if (s == reinterpret_cast<cudaStream_t>(0x2)) {
    throw contract_error(who +
                         " of cudaStreamPerThread, which is another stream in every thread; make "
                         "one with cudaStreamCreateWithFlags(..., cudaStreamNonBlocking)");
  }
}

/// Keeps the calling thread's current device and makes the engine's current while alive.
class device_scope {
 public:
  explicit device_scope(device& d) : device_(d), previous_(d.enter()) {}
  device_scope(const device_scope&) = delete;
  device_scope& operator=(const device_scope&) = delete;
  ~device_scope() { device_.restore(previous_); }

 private:
  device& device_;
  int previous_;
};

/// A callable of `run` in progress on a latency-critical stream, on this thread: it holds the gate
/// until it returns, or until it waits for gated work.
struct run_hold {
  engine* owner = nullptr;
  workload_core* work = nullptr;
  bool let_go = false;  ///< for good: its stream waits for gated work
  unsigned parked = 0;  ///< > 0: the thread waits for gated work
  run_hold* outer = nullptr;
};
/// The innermost one of this thread.
inline run_hold*& this_thread_runs() {
  thread_local run_hold* innermost = nullptr;
  return innermost;
}

/// A callable of `run` or `defer` in progress on a gated stream, on this thread.
struct gated_call {
  engine* owner = nullptr;
  stream_core* stream = nullptr;
  gated_call* outer = nullptr;
};
/// The innermost one of this thread.
inline gated_call*& this_thread_calls() {
  thread_local gated_call* innermost = nullptr;
  return innermost;
}

/// The calling thread, where it is one of a scheduler's own.
struct own_thread {
  const engine* owner = nullptr;
  bool deferred = false;  ///< the one that runs what is given to `defer`
};
inline own_thread& this_thread_serves() {
  thread_local own_thread here;
  return here;
}

/// A policy is asked by one thread at a time: it belongs to one scheduler while that lives.
class policy_use {
 public:
  explicit policy_use(scheduling_policy& p) : policy_(p) {
    if (policy_.taken_.flag.exchange(true)) {
      throw contract_error(
          "scheduler_options.policy is an object that another scheduler uses; give each scheduler "
          "a policy of its own");
    }
  }
  policy_use(const policy_use&) = delete;
  policy_use& operator=(const policy_use&) = delete;
  ~policy_use() { policy_.taken_.flag = false; }

 private:
  scheduling_policy& policy_;
};

class made_graphs;

/// A value that a latency-critical stream writes when all before it is done. Its words outlive it.
struct inline_mark {
  const activity_words* activity = nullptr;
  std::uint64_t number = 0;
};

class engine : public std::enable_shared_from_this<engine> {
 public:
  static constexpr unsigned max_workloads = 256;

  engine(std::shared_ptr<device> d, scheduler_options o);
  engine(const engine&) = delete;
  engine& operator=(const engine&) = delete;
  ~engine();

  // -- set-up
  workload_core* add_workload(workload_options o);
  std::shared_ptr<stream_core> add_stream(workload_core* w, cudaStream_t adopt);
  std::shared_ptr<stream_core> known_adoption(const workload_core* w, cudaStream_t raw);
  void check_adoption(const workload_core* w, cudaStream_t raw);
  /// Loads a body's code if it has not been: only bodies of libraries opened later ever need it.
  void prepare(const kernel_entry& k);
  /// Drains queued work (suspended workloads: cancels it, with a message) and stops the threads.
  void shutdown() noexcept;

  // -- the latency-critical path (engine_inline.hpp)
  void inline_launch(stream_core& s, const kernel_entry& k, const void* body,
                     const shape& geometry);
  void inline_copy(stream_core& s, void* to, const void* from, std::size_t bytes);
  void inline_fill(stream_core& s, void* to, unsigned char byte, std::size_t bytes);
  template <class F>
  void inline_run(stream_core& s, F&& f);
  void inline_wait(stream_core& s, const stream_point& p);
  void inline_wait(stream_core& s, cudaEvent_t e);
  void inline_record(stream_core& s, cudaEvent_t e);
  stream_point inline_point(stream_core& s);
  std::shared_ptr<request_core> open_request(workload_core* w, clock::time_point arrived);
  void close_request(const std::shared_ptr<request_core>& r);
  /// Throws in a sentence if a launch cannot fit the device.
  void check_inline(const stream_core& s, const kernel_entry& k, const shape& geometry) const;
  bool inline_done(const stream_core& s, std::uint64_t number) const;

  // -- gated streams (engine_queue.hpp)
  std::uint64_t enqueue(stream_core& s, operation op, cudaEvent_t theirs = nullptr);
  template <class F>
  void gated_run(stream_core& s, F&& f);
  void gated_record(stream_core& s, cudaEvent_t e);
  std::byte* worker_memory_of(stream_core& s, const kernel_entry& k, const plan& p);
  void gated_wait(stream_core& s, cudaEvent_t e);
  plan plan_for(const workload_core& w, const kernel_entry& k, const shape& s,
                const launch_options& o);
  void suspend(workload_core* w);
  void resume(workload_core* w);

  // -- recorded graphs, and graphs of the program's (engine_graph.hpp)
  void inline_launch_graph(stream_core& s, cudaGraphExec_t g);
  void inline_graph(stream_core& s, std::span<const graph_node> nodes, made_graphs& made);
  void gated_launch_graph(stream_core& s, cudaGraphExec_t g);
  void gated_graph(stream_core& s, std::span<const graph_node> nodes);
  operation launch_operation(stream_core& s, const kernel_entry& k, const void* body,
                             const shape& geometry, plan p);
  std::vector<cudaGraphExec_t> make_graphs(std::span<const graph_node> nodes);
  void retire_graphs(std::vector<cudaGraphExec_t> made, std::vector<inline_mark> until) noexcept;

  // -- both kinds
  void wait_foreign_stream(stream_core& s, cudaStream_t foreign);
  void free_after(stream_point p, void* memory);
  /// Notes which requests have been answered, for the statistics.
  void collect_answers();

  // -- waiting, both kinds
  /// Waits for a point; false if `deadline` came first. Throws what the device failed with.
  bool wait_for(const stream_point& p, clock::time_point deadline);
  bool is_done(const stream_point& p) const;
  bool is_over(const stream_point& p) const;
  stream_point newest(const std::shared_ptr<stream_core>& s);
  /// The newest point of every stream of a workload.
  std::vector<stream_point> newest(workload_core* w);
  /// Waits for the newest point of every stream of a workload, those included whose handles are
  /// gone.
  void synchronize(workload_core* w);

  // -- looking
  scheduler_stats snapshot();
  std::string explain();
  std::string state_text();
  void write_timeline(const std::string& path);

  [[nodiscard]] device& machine() { return *device_; }
  [[nodiscard]] const scheduler_options& options() const { return options_; }
  void throw_if_failed() const;
  void throw_if_gone(const workload_core& w) const;
  /// Keeps the first failure; the dispatcher or the guard then tells every waiter. From any thread,
  /// under any lock but `failure_mutex_`.
  void fail(std::exception_ptr why) noexcept;
  /// Gives a dropped stream's lane and words back for reuse.
  void retire(stream_core& s) noexcept;

 private:
  friend class parked_requests;
  [[nodiscard]] unsigned room_for_activity(const std::string& who) const;
  /// A lane with its words, kept for reuse: streams come and go, device memory does not.
  struct lane_kit {
    cudaStream_t lane = nullptr;
    chain_words* chain = nullptr;
    slot_words* slots = nullptr;
    publication_words* published = nullptr;
    record_words* records = nullptr;
    std::byte* memory = nullptr;
    std::size_t memory_bytes = 0;
    std::uint64_t* token = nullptr;
    std::uint64_t* done = nullptr;
    activity_words* activity = nullptr;
    unsigned source = 0;
    std::uint64_t last_ordinal = 0, last_id = 0, last_token = 0, last_number = 0, last_write = 0;
    const workload_core* last_owner = nullptr;
  };
  /// Whose work the words at one index of `activities_` count.
  struct activity_source {
    const workload_core* work = nullptr;
    std::string name;  ///< for messages
  };
  /// A wait of a latency-critical stream on work that is not done: until then neither the stream
  /// nor the requests parked with it hold the gate.
  struct blocker {
    std::shared_ptr<stream_core> stream;
    stream_point until;
    cudaEvent_t foreign = nullptr;  ///< of ours: done when what the program waits for is
    std::vector<std::shared_ptr<request_core>> parked;
    std::uint64_t after = 0;  ///< newest value of the stream in front of the wait
  };

  /// Of a recorded graph that is gone; goes once all of `until` is done.
  struct retired_graph {
    std::vector<cudaGraphExec_t> made;
    std::vector<inline_mark> until;
  };
  void check_foreign_graph(const stream_core& s) const;
  operation foreign_graph_operation(cudaGraphExec_t g);
  void sweep_graphs();

  // inline
  std::uint64_t begin_inline(stream_core& s);
  void end_inline(stream_core& s, std::uint64_t n);
  void flush_dirty(workload_core* w, std::vector<stream_point>* points);
  std::chrono::nanoseconds raise_all();
  void begin_busy(std::chrono::nanoseconds since);
  void end_busy(std::chrono::nanoseconds now);
  template <class F>
  void inline_call(stream_core& s, F&& f);
  void block_stream(stream_core& s, blocker b, cudaEvent_t theirs);
  std::vector<std::shared_ptr<request_core>> park_requests(std::thread::id opener);
  void unpark_requests(const std::vector<std::shared_ptr<request_core>>& parked);
  void mark_waiting_calls(bool begin);
  bool held_back(const stream_core& s) const;
  template <class F>
  stream_core* find_behind(const stream_point& p, F&& looked_for);
  void refuse_wait_for_oneself(const stream_point& p, const char* why = "");
  void tell_of_suspension(const stream_point& p, clock::time_point& looked, bool& told);
  bool await_inline(const activity_words& a, std::uint64_t number, clock::time_point deadline,
                    stream_core* s);

  // dispatch
  void dispatch_loop();
  bool collect(std::unique_lock<std::mutex>& lock);
  bool collect_stream(stream_core& s, std::unique_lock<std::mutex>& lock);
  void finish_front(stream_core& s);
  bool collect_launch(stream_core& s, operation& op);
  bool unblock(std::unique_lock<std::mutex>& lock);
  void build_view(clock::time_point now);
  void look_at_time(bool active, clock::time_point now);
  void look_at_waits(const policy::view& v);
  bool ready(stream_core& s, std::size_t* position);
  void submit_workload(workload_core& w, std::unique_lock<std::mutex>& lock);
  void submit_operation(stream_core& s, operation& op, std::uint32_t epoch,
                        std::unique_lock<std::mutex>& lock);
  void submit_protocolled(stream_core& s, launch_work& l);
  void close_overdue_requests(std::unique_lock<std::mutex>& lock);
  bool free_trash(std::unique_lock<std::mutex>& lock);
  bool latency_critical_active() const;
  bool keeps_gated_out() const;
  void lift_what_stands_still(clock::time_point now);
  bool anything_outstanding() const;
  void cover(std::unique_lock<std::mutex>& lock);
  void uncover();
  [[nodiscard]] std::size_t parked_streams() const;
  void await_progress(std::unique_lock<std::mutex>& lock, std::unique_lock<std::mutex>* order);
  void await_room_to_park(std::unique_lock<std::mutex>& lock, const stream_core& s,
                          std::unique_lock<std::mutex>* order = nullptr);
  template <class F>
  void place_wait(std::unique_lock<std::mutex>& lock, F&& put);
  cudaEvent_t take_event();
  void spare_events_of(operation& op);
  cudaStream_t take_marks();
  void return_event(cudaEvent_t e) noexcept;
  [[nodiscard]] bool may_cover() const;
  void cover_again(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::uint64_t device_progress() const;
  [[nodiscard]] bool something_on_device() const;
  void account(workload_core& w, clock::time_point now);
  std::chrono::nanoseconds pause_length(bool progressed) const;
  template <class F>
  void driver_call(std::unique_lock<std::mutex>& lock, F&& call);
  void tell_failure();
  void drop_queues();
  void cancel_suspended();
  void cancel_stream(stream_core& s);
  void discard(operation& op);
  void publish_done(stream_core& s);
  void await_device() noexcept;
  void wake_dispatcher();
  [[nodiscard]] std::chrono::nanoseconds since_start(clock::time_point t) const {
    return t - started_;
  }

  // guard
  void guard_loop();
  void deferred_loop();
  void log(const std::string& sentence) const;

  std::shared_ptr<device> device_;
  scheduler_options options_;
  std::optional<policy_use> policy_use_;
  clock::time_point started_ = clock::now();
  cede::timeline timeline_;

  alignas(128) mutable std::mutex mutex_;
  std::condition_variable work_;      ///< the dispatcher waits here when nothing is outstanding
  std::condition_variable finished_;  ///< callers wait here for progress
  std::vector<std::unique_ptr<workload_core>> workloads_;
  std::vector<workload_core*> gated_;
  std::vector<activity_source> sources_of_;  ///< by index into `activities_`
  std::vector<cudaEvent_t> spare_events_;
  std::vector<std::pair<stream_point, void*>> condemned_;  ///< to be freed once the point is done
  std::vector<void*> trash_;     ///< of these, what may be freed once nothing is in flight
  std::size_t outstanding_ = 0;  ///< gated operations not finished
  bool stopping_ = false;
  bool quiet_ =
      false;  ///< inside a driver call that waits for the device: nothing new may be queued
  unsigned placing_ = 0;  ///< threads that put a wait of ours on a stream of the program
  bool down_ = false;
  bool told_failure_ = false;
  /// By body and threads per block, of launches that claim several tiles; the last one's.
  std::map<std::pair<const kernel_entry*, std::uint64_t>, std::chrono::nanoseconds> longest_tiles_;
  std::vector<cudaStream_t> left_running_;  ///< lanes with work on them when the device failed

  std::mutex adopt_mutex_;   ///< outermost: one adoption at a time
  std::mutex spares_mutex_;  ///< innermost
  std::vector<lane_kit> spare_lanes_;
  std::vector<lane_kit> spare_inline_;
  std::vector<cudaStream_t> spare_marks_;

  // The latency-critical side, read without a lock.
  // Read at every call, written at most once: on a line of their own.
  alignas(128) std::atomic<bool> has_failed_{false};
  std::atomic<bool> gone_{false};  ///< the scheduler has ended, or is about to
  alignas(128) std::array<std::atomic<gate_words*>, max_workloads> gates_{};
  std::atomic<unsigned> gate_count_{0};
  std::array<std::atomic<activity_words*>, 4096> activities_{};
  std::atomic<unsigned> activity_count_{0};
  std::atomic<std::int64_t> last_raise_{0};   ///< ns since start
  std::atomic<std::int64_t> first_raise_{0};  ///< since the last look of the dispatcher; 0 = none
  std::atomic<std::uint64_t> raises_{0};
  mutable std::mutex failure_mutex_;  ///< innermost
  std::exception_ptr failure_;        // written once, before has_failed_

  alignas(128) std::mutex requests_mutex_;  ///< never held across a driver call
  std::vector<std::shared_ptr<request_core>> open_requests_;
  std::vector<answering> answering_;
  std::vector<blocker> blockers_;
  std::atomic<std::size_t> blockers_count_{0};
  std::vector<retired_graph> retired_graphs_;
  std::atomic<unsigned> inline_runs_{
      0};  ///< callables of `run` in progress on latency-critical streams
  std::uint64_t flows_ = 0;
  std::uint64_t requests_opened_ = 0;
  // When latency-critical work kept the rest out, since the start.
  std::optional<std::chrono::nanoseconds> busy_since_;  ///< none: it does not now
  std::chrono::nanoseconds busy_until_{0};              ///< where the last such time ended
  std::chrono::nanoseconds busy_time_{0};               ///< of all that have ended

  // dispatcher's own
  policy::verdict verdict_;
  std::vector<policy::workload_view> views_;
  policy::lift lift_;
  std::vector<policy::source_view> sources_;
  std::uint64_t lifts_ = 0;  ///< guarded by mutex_
  bool was_active_ = false;
  std::uint64_t seen_raises_ = 0;
  std::chrono::nanoseconds idle_since_ = std::chrono::nanoseconds::min();  ///< since the start
  clock::time_point last_look_ = clock::now();
  policy::idle_account idle_use_;  ///< guarded by mutex_
  histogram cleared_;              ///< guarded by mutex_
  std::chrono::nanoseconds typical_launch_{50000};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> nudged_{false};

  // cover: one wait that stands for everything held back
  cudaStream_t cover_stream_ = nullptr;
  std::uint64_t* cover_word_ = nullptr;
  std::uint64_t cover_value_ = 0;
  bool covered_ = false;
  // Asks whether the device does anything at all: a store on a stream of its own.
  cudaStream_t probe_stream_ = nullptr;
  std::uint64_t* probe_word_ = nullptr;
  std::uint64_t probe_value_ = 0;
  clock::time_point probed_{};
  bool probe_wanted_ = false;            ///< by the guard, of the dispatcher
  clock::time_point uncovered_until_{};  ///< let go for a moment by the guard

  // guard
  std::atomic<std::int64_t> driver_call_since_{0};  ///< ns since start; 0 = not in one
  std::uint64_t finished_operations_ = 0;
  std::thread dispatcher_;
  std::thread guard_;
  std::condition_variable guard_wake_;
  std::thread deferred_;
  std::condition_variable deferred_wake_;
  std::deque<std::function<void()>> deferred_queue_;
};

}  // namespace detail

CEDE_END_NAMESPACE
