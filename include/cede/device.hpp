// SPDX-License-Identifier: Apache-2.0
// The seam between the scheduler and a device: what any device must do, and how a body is described
// once its type is gone. The CUDA device and the host device implement it; tests may, too.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/detail/kernel_args.hpp>
#include <cede/detail/refusals.hpp>
#include <cede/protocol.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

// The handles of CUDA's runtime, as its own headers declare them: callers need no toolkit to name
// them. On the host device they are opaque handles of that device's.
extern "C" {
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
typedef struct CUgraphExec_st* cudaGraphExec_t;
}

CEDE_BEGIN_NAMESPACE

/// Chooses a CUDA device for a scheduler; -1 = the current one.
struct cuda_device {
  int ordinal = -1;  ///< as `cudaSetDevice` counts; -1 = the current one
};

namespace detail {

/// The device code of one body, where nvcc compiled it: addresses of `__global__` functions, and
/// how to resolve them in the module they came with.
struct cuda_kernels {
  const void* native = nullptr;      ///< whole launches and slices
  const void* gated = nullptr;       ///< null if the body forbids it
  const void* persistent = nullptr;  ///< null if the body forbids it
  const void* clustered = nullptr;   ///< persistent workers that are clusters; null if not declared
  const void* closing = nullptr;     ///< the kernel behind a chunk of gated blocks
  /// Resolves a function for the current context; returns a `cudaError_t`. Also loads its module.
  int (*resolve)(const void* symbol, void** function) = nullptr;
  /// The body is no parameter of its own in front of the adapter's: its parts, at these offsets,
  /// are parameters behind them.
  bool split = false;
  std::span<const std::uint32_t> parameters;
};

/// One body type as one compiler saw it. Lives as long as the program.
struct kernel_entry {
  std::string_view name;
  body_traits traits;
  std::size_t bytes = 0;
  std::size_t align = 1;
  /// What a tile keeps while it is left half done (`using state = …;` in the body); 0 = nothing.
  std::size_t state_bytes = 0;
  /// Runs the body for one thread of one tile on the host.
  void (*host_run)(const void* body, block b) = nullptr;
  /// Null where a host compiler made the entry.
  const cuda_kernels* cuda = nullptr;
  kernel_entry* next = nullptr;  ///< list of all entries of this program
};

/// One trip of (a part of) a launch to the device.
struct submission {
  const kernel_entry* kernel = nullptr;
  const void* body = nullptr;  ///< copied before `submit` returns
  shape geometry{};
  form how = form::whole;
  std::uint64_t first = 0;  ///< whole, sliced: first tile
  std::uint64_t count =
      0;  ///< whole, sliced: tiles; gated: blocks of this chunk; persistent: workers
  std::uint64_t limit = 0;  ///< gated: the cursor at which this chunk is used up
  bool overlap = false;     ///< persistent: may start while the kernel in front is ending
  bool closes = true;       ///< gated: the last chunk of the submission; the closing step follows
  protocol::terms terms{};
  control words{};
};

/// One node of a graph made by the library: a launch, run whole, or where `launch` is null a copy,
/// or where `from` is null too a fill.
struct graph_item {
  const submission* launch = nullptr;
  void* to = nullptr;
  const void* from = nullptr;
  unsigned char byte = 0;
  std::size_t bytes = 0;
};

struct device_facts {
  std::string name;
  std::string driver;   ///< empty on the host device
  std::string runtime;  ///< empty on the host device
  unsigned sms = 1;
  unsigned watchers = 0;       ///< extra participants of a submission that forward the gate
  bool clusters = false;       ///< has thread-block clusters (sm_90 on)
  unsigned blocks_per_sm = 1;  ///< most resident blocks of any kernel
  shape_limits limits{};
  /// Streams that may stand in a wait at once without holding up any other: they share few hardware
  /// queues, and a queue whose head waits holds up all streams mapped to it, whatever their
  /// priority.
  unsigned parked_limit = 1U << 30U;
  bool cuda = false;
};

/// Workers a launch can have at most.
constexpr std::size_t most_workers(const device_facts& f) {
  return std::size_t{f.sms} * f.blocks_per_sm;
}

/// Priority classes of raw streams.
enum class stream_class : std::uint8_t {
  lane,             ///< best-effort launches
  cover,            ///< waits that stand for held-back work, markers
  latency_critical  ///< highest
};

/// A device. Calls are asynchronous unless said; a raw stream is used by one thread at a time,
/// other calls are thread-safe. A failing call throws `device_error` (or a class derived from it).
class device {
 public:
  device() = default;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device() = default;

  [[nodiscard]] virtual const device_facts& facts() const = 0;

  /// Makes this device the calling thread's current one for CUDA; returns what to give `restore`.
  virtual int enter() = 0;
  virtual void restore(int previous) noexcept = 0;

  /// Set-up only: may wait for the device.
  virtual cudaStream_t make_stream(stream_class c) = 0;
  virtual void destroy_stream(cudaStream_t s) noexcept = 0;
  /// Zeroed words, alive as long as the device. `shared_with_host`: memory both sides see and may
  /// store to. Set-up only: may wait for the device.
  virtual void* words(std::size_t bytes, bool shared_with_host) = 0;
  /// Device memory, not initialised, alive as long as the device. Waits for no work of it.
  virtual void* memory(std::size_t bytes) = 0;
  /// Address by which the device reaches words shared with the host (the same where it is unified).
  virtual void* device_address(void* shared_words) = 0;
  /// Loads a body's code and raises its limits, so that its first launch needs nothing from the
  /// device. Set-up only: may wait for the device.
  virtual void prepare(const kernel_entry& k) = 0;
  [[nodiscard]] virtual bool prepared(const kernel_entry& k) const = 0;

  /// Most resident blocks per SM of this body, shape and form; 0 = does not fit, with `why`.
  virtual unsigned blocks_per_sm(const kernel_entry& k, const shape& s, form how,
                                 std::string* why) = 0;

  /// Most resident clusters of this body and shape on the whole device, as persistent workers; 0 =
  /// none fits, with `why`.
  virtual std::uint64_t resident_clusters(const kernel_entry& k, const shape& s, std::string* why) {
    static_cast<void>(k);
    static_cast<void>(s);
    *why = "this device has no thread-block clusters";
    return 0;
  }
  /// True if the words of a persistent worker do not fit beside the body's shared memory.
  [[nodiscard]] virtual bool words_in_memory(const kernel_entry& k, const shape& s) {
    static_cast<void>(k);
    static_cast<void>(s);
    return false;
  }

  /// Queues a submission: whole and slices run as native blocks; gated and persistent by protocol.
  virtual void submit(cudaStream_t s, const submission& what) = 0;

  virtual void copy(cudaStream_t s, void* to, const void* from, std::size_t bytes) = 0;
  virtual void fill(cudaStream_t s, void* to, unsigned char byte, std::size_t bytes) = 0;
  /// The items, one behind another, as what one call launches; null where the device has no such
  /// thing and they are submitted one by one. Set-up only: may wait for the device.
  virtual cudaGraphExec_t make_graph(std::span<const graph_item> items) {
    static_cast<void>(items);
    return nullptr;
  }
  /// Only for graphs that nothing executes any more.
  virtual void destroy_graph(cudaGraphExec_t g) noexcept { static_cast<void>(g); }
  /// Queues a graph of this device's, or of the program's.
  virtual void launch_graph(cudaStream_t s, cudaGraphExec_t g) {
    static_cast<void>(s);
    static_cast<void>(g);
    detail::refuse_foreign_graph(facts().name);
  }
  /// Stores `value` to a shared word once all work before it on `s` is done, visible to the host.
  virtual void write_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) = 0;
  /// Holds `s` until the shared word is >= `value`.
  virtual void wait_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) = 0;
  virtual void record_event(cudaStream_t s, cudaEvent_t e) = 0;
  virtual void wait_event(cudaStream_t s, cudaEvent_t e) = 0;
  /// An event for `record_event`, without timing.
  virtual cudaEvent_t make_event() = 0;
  virtual void destroy_event(cudaEvent_t e) noexcept = 0;
  virtual bool event_done(cudaEvent_t e) = 0;
  /// True once all work queued on `s` is done. Does not wait.
  virtual bool query(cudaStream_t s) = 0;
  /// Waits for all work queued on `s`.
  virtual void synchronize(cudaStream_t s) = 0;
  /// Throws `device_error` if the device has failed since; does not wait.
  virtual void check() = 0;
  // Names for profilers; cheap where none is attached.
  virtual void name_stream(cudaStream_t s, const std::string& name) noexcept {
    static_cast<void>(s);
    static_cast<void>(name);
  }
  /// A range of time that any thread may end; what to give `end_range`.
  virtual std::uint64_t start_range(const std::string& name) noexcept {
    static_cast<void>(name);
    return 0;
  }
  virtual void end_range(std::uint64_t range) noexcept { static_cast<void>(range); }
  /// Frees memory of `cudaMalloc` (host device: of `malloc`) that nothing uses any more.
  virtual void release(void* memory) = 0;
};

}  // namespace detail

CEDE_END_NAMESPACE
