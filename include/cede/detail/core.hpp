// SPDX-License-Identifier: Apache-2.0
// What the scheduler keeps of a stream, a workload and a request.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/operation.hpp>
#include <cede/device.hpp>
#include <cede/policy/policy.hpp>
#include <cede/policy/rate_limit.hpp>
#include <cede/policy/waiting.hpp>
#include <cede/stats.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

CEDE_BEGIN_NAMESPACE

/// What a workload is. Times are wall-clock.
struct workload_options {
  std::string name = "workload";
  /// `latency_critical` launches at once; every other level is gated.
  cede::priority priority = best_effort;
  /// How long this (gated) workload may take to leave once told; used to choose configurations.
  std::chrono::nanoseconds turnaround = std::chrono::microseconds{32};
  /// Share of GPU time against workloads of the same priority; > 0.
  double weight = 1;
  /// How long this (gated) workload stays out after the latency-critical side went idle.
  std::chrono::nanoseconds hold_off{0};
  /// A request of this (latency-critical) workload left open longer is closed, and a stream of it
  /// (or a callable of `run`) of whose work nothing ends for longer keeps nobody out until
  /// something does: it may wait for gated work by a call on the raw stream. Both with a message,
  /// and only while gated work waits.
  std::chrono::nanoseconds max_hold = std::chrono::seconds{10};
  /// Bounds the GPU time of this (gated) workload, also where nobody else wants the device. Not
  /// while the scheduler ends.
  policy::rate_limit limit{};
};

namespace detail {

class engine;
struct workload_core;

/// Launches of a stream that may be on the device at once.
inline constexpr unsigned max_in_flight = 2;
/// Slots of a stream: more than in flight, so that a finished one is never reused by its successor.
inline constexpr unsigned slots_per_stream = 4;

struct stream_core : std::enable_shared_from_this<stream_core> {
  stream_core() = default;
  stream_core(const stream_core&) = delete;
  stream_core& operator=(const stream_core&) = delete;
  ~stream_core();

  std::shared_ptr<engine> owner;
  workload_core* work = nullptr;
  std::string name;
  unsigned track = 0;               ///< in the timeline
  cudaStream_t lane = nullptr;      ///< where work goes; latency-critical: the user's where adopted
  cudaStream_t own_lane = nullptr;  ///< what goes back for reuse
  cudaStream_t adopted = nullptr;   ///< the user's stream in front of a gated lane
  cudaStream_t marks = nullptr;     ///< carries the user's events; made at the first `record`
  std::uint64_t marked = 0;         ///< newest operation a mark waits for
  /// Keeps the numbers of operations and what is put on the user's streams for them in one order.
  /// Taken before the engine's.
  std::mutex order_mutex;

  // -- gated; guarded by the engine's mutex
  std::deque<operation> queue;
  std::uint64_t last_number = 0;  ///< of the newest operation
  std::uint64_t last_ordinal = 0;
  std::uint64_t last_id = 0;
  std::uint64_t last_token = 0;
  chain_words* chain = nullptr;               // device memory
  slot_words* slots = nullptr;                // device memory, slots_per_stream
  publication_words* published = nullptr;     // shared, slots_per_stream
  record_words* records = nullptr;            // device memory, most_workers
  std::uint64_t* token = nullptr;             // shared: written by the lane
  std::uint64_t* done = nullptr;              // shared: last finished operation, by the host
  std::atomic<std::uint64_t> finished{0};     ///< what `done` holds
  std::atomic<std::thread::id> inside_run{};  ///< thread executing a `run` callable
  /// Of the workers of persistent launches, one launch after another; see `worker_memory`.
  std::byte* memory = nullptr;
  std::size_t memory_bytes = 0;
  bool cancelled = false;                   ///< what is not finished never will be
  std::atomic<unsigned> waiting_inside{0};  ///< > 0: the callable waits for gated work

  // -- latency-critical; guarded by `inline_mutex`, which no gated path takes across a driver call
  std::mutex inline_mutex;
  activity_words* activity = nullptr;  // shared: `completed` is written by the stream
  unsigned source = 0;                 ///< where the engine lists `activity`
  std::uint64_t last_write = 0;        ///< newest value the stream will write
  bool dirty = false;                  ///< work of an open request, not yet counted
  std::atomic<unsigned> blockers{0};   ///< unmet waits on gated or foreign work
};

/// An open request.
struct request_core {
  workload_core* work = nullptr;
  std::thread::id opener;
  clock::time_point opened;
  clock::time_point arrived;
  std::uint64_t flow = 0;
  std::uint64_t range = 0;  ///< for profilers
  unsigned parked = 0;      ///< > 0: waiting for gated work, does not hold the gate
  bool closed = false;
};

/// A closed request whose launches have not all completed.
struct answering {
  std::shared_ptr<request_core> request;
  std::vector<stream_point> until;
};

struct workload_core {
  workload_options options;
  unsigned index = 0;  ///< among gated ones: the policy's index
  unsigned streams_made = 0;
  unsigned track = 0;                               ///< in the timeline: requests
  bool inline_path = false;                         ///< latency-critical
  std::vector<std::weak_ptr<stream_core>> streams;  // guarded by the engine's mutex
  std::vector<std::shared_ptr<stream_core>> busy;   // gated streams with operations queued

  // gated
  gate_words* host_gate = nullptr;    // shared
  gate_words* device_gate = nullptr;  // device memory; null where the device reads the host's
  bool suspended = false;
  bool limited = false;  ///< kept out by its rate limit at the last look
  policy::token_bucket bucket;
  bool raised = false;
  policy::wait_account waits;
  bool counting = false;  ///< GPU time runs
  clock::time_point counting_since{};
  std::chrono::nanoseconds used{0};

  // latency-critical
  std::string request_name;       ///< for profilers
  activity_words held{};          ///< opened and closed requests; host only
  std::atomic<unsigned> open{0};  ///< open requests that hold the gate
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> tiles{0};  ///< of these

  workload_stats stats;          // gated; guarded by the engine's mutex
  workload_stats request_stats;  // latency-critical; guarded by its requests mutex
};

}  // namespace detail

CEDE_END_NAMESPACE
