// SPDX-License-Identifier: Apache-2.0
// The stream users launch on. On a latency-critical workload every call goes to the device at once,
// on the caller's thread; on any other it is queued and submitted when the workload's turn has
// come.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_graph.hpp>
#include <cede/detail/engine_last.hpp>
#include <cede/detail/engine_setup.hpp>
#include <cede/detail/plan.hpp>
#include <cede/detail/refusals.hpp>
#include <cede/detail/registration.hpp>
#include <cede/event.hpp>
#include <cede/graph.hpp>
#include <cede/shape.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#if CEDE_NVCC
#include <cede/cuda_device.hpp>
#endif

CEDE_BEGIN_NAMESPACE

/// An in-order queue of one workload. A handle: cheap to copy, all copies are the same stream. Work
/// queued on it goes on when the last handle is gone.
///
/// Thread-safe: several threads may use one stream; their calls are ordered as they happen to come.
/// A call on a moved-from or default-made handle throws `contract_error`. When the device has
/// failed, every call throws what it failed with.
class stream {
 public:
  /// A handle of no stream; assign one from `workload::stream`.
  stream() = default;

  /// Launches a body over a grid of tiles; `args` are converted to the body's parameter types and
  /// copied. Latency-critical: runs whole, now. Otherwise: preemptible, in stream order, as
  /// `options` and the body's traits say. Throws `invalid_argument` if the shape does not fit the
  /// device, `not_supported` if the body forbids the form asked for. Returns at once, unless a
  /// gated stream's queue is full (`scheduler_options::max_queued`).
  template <class Body, class... Args, detail::compiler By = detail::this_compiler>
  void launch(const shape& geometry, const launch_options& options, Body body, Args&&... args) {
    auto bound = detail::bind_body(std::move(body), std::forward<Args>(args)...);
    using B = decltype(bound);
    detail::check_body<B>();
    launch_erased(geometry, options,
                  detail::entry_for<B, By, !detail::trait_whole<B>()>(bound, geometry), &bound);
  }
  /// The same with default options.
  template <class Body, class... Args, detail::compiler By = detail::this_compiler>
    requires(!std::same_as<Body, launch_options>)
  void launch(const shape& geometry, Body body, Args&&... args) {
    launch<Body, Args...>(geometry, launch_options{}, std::move(body), std::forward<Args>(args)...);
  }

  /// Launches a recorded graph (graph.hpp), whose nodes are copied. Refuses as `launch` of its
  /// nodes would, before any of them is queued. On a gated stream calls of other threads may come
  /// between its nodes. Returns as `launch` does; the first time on a latency-critical stream it
  /// may wait for the device.
  void launch(const graph& g) {
    detail::stream_core& s = core("launch");
    if (g.nodes_.empty()) return;
    const auto alive = core_;  // a node's callable may let the last handle go
    if (s.work->inline_path) {
      const detail::ends_after_run after;
      s.owner->inline_graph(s, g.nodes_, *g.made_);
    } else {
      s.owner->gated_graph(s, g.nodes_);
    }
  }
  /// Launches one of CUDA's graphs. On a gated stream it is opaque: it starts when its turn has
  /// come, is not preempted, and if it cannot be launched the scheduler has failed. It must stay
  /// until it has executed; upload it before (`cudaGraphUpload`), and instantiate it with
  /// `cudaGraphInstantiateFlagUseNodePriority` if its nodes are to keep priorities of their own.
  /// Throws `contract_error` for null, `not_supported` on the host device. Returns as `launch`.
  void launch(cudaGraphExec_t g) {
    detail::stream_core& s = core("launch");
    if (g == nullptr) detail::refuse_null_graph("stream " + s.name);
    if (s.work->inline_path) {
      s.owner->inline_launch_graph(s, g);
    } else {
      s.owner->gated_launch_graph(s, g);
    }
  }

  /// Calls `f(cudaStream_t)` on this thread: library calls, graphs, kernels that are not bodies. On
  /// a gated stream it waits first for everything before it and for the workload's turn; what `f`
  /// puts on the raw stream cannot be preempted. The raw stream is valid only inside; the device is
  /// the current one. What `f` throws passes through. Returns when `f` has; its work may still run.
  template <class F>
  void run(F&& f) {
    detail::stream_core& s = core("run");
    const auto alive = core_;  // `f` may let the last handle go
    const detail::ends_after_run after;
    if (s.work->inline_path) {
      s.owner->inline_run(s, std::forward<F>(f));
    } else {
      s.owner->gated_run(s, std::forward<F>(f));
    }
  }

  /// Like `run`, but owns `f` and returns at once: `f` is called later, on another thread, one
  /// after another for the whole scheduler; it must not wait for what is deferred behind it. What
  /// it throws is printed. On a latency-critical stream it is called here and now, since nothing
  /// holds it back.
  template <class F>
  void defer(F f) {
    detail::stream_core& s = core("defer");
    if (s.work->inline_path) {
      const auto alive = core_;
      const detail::ends_after_run after;
      s.owner->inline_run(s, std::move(f));
      return;
    }
    s.owner->enqueue(s, detail::deferred_operation(std::move(f)));
  }

  /// Copies `bytes` bytes in stream order; any direction. Host memory should be pinned. That of a
  /// gated workload goes in pieces that its turnaround allows (policy/pieces.hpp). Returns at once
  /// for pinned and device memory.
  void copy(void* to, const void* from, std::size_t bytes) {
    detail::stream_core& s = core("copy");
    detail::check_pointer("stream ", s.name, "copy", to, bytes);
    detail::check_pointer("stream ", s.name, "copy", from, bytes);
    if (s.work->inline_path) {
      s.owner->inline_copy(s, to, from, bytes);
      return;
    }
    s.owner->enqueue(s, detail::copy_operation(to, from, 0, bytes));
  }

  /// Sets `bytes` bytes of device memory to `byte`, in stream order; of a gated workload in pieces,
  /// as copies. Returns at once.
  void fill(void* to, unsigned char byte, std::size_t bytes) {
    detail::stream_core& s = core("fill");
    detail::check_pointer("stream ", s.name, "fill", to, bytes);
    if (s.work->inline_path) {
      s.owner->inline_fill(s, to, byte, bytes);
      return;
    }
    s.owner->enqueue(s, detail::copy_operation(to, nullptr, byte, bytes));
  }

  /// A point behind everything queued so far. Does not wait.
  [[nodiscard]] event record() { return event(core("record").owner->newest(core_)); }

  /// Records one of CUDA's events behind everything queued so far: whoever waits for it waits for
  /// the last tile, even of work that is held back or preempted. Does not wait.
  void record(cudaEvent_t e) {
    detail::stream_core& s = core("record");
    if (e == nullptr) throw contract_error("stream " + s.name + ": record() of a null cudaEvent_t");
    if (s.work->inline_path) {
      s.owner->inline_record(s, e);
    } else {
      s.owner->gated_record(s, e);
    }
  }

  /// What follows on this stream waits for `e`. On a latency-critical stream a wait for gated work
  /// counts it, and the requests this thread has open, as inactive until that work is done, so that
  /// it can get done. Does not wait on the host.
  void wait(const event& e) {
    detail::stream_core& s = core("wait");
    if (!e.point_.stream || e.point_.stream == core_) return;
    if (e.point_.stream->owner != s.owner) {
      throw contract_error("stream " + s.name +
                           ": wait() for an event of another scheduler; wait for it "
                           "on the host with event::synchronize()");
    }
    if (s.work->inline_path) {
      s.owner->inline_wait(s, e.point_);
      return;
    }
    detail::operation op;
    op.work = detail::wait_work{.until = e.point_};
    s.owner->enqueue(s, std::move(op));
  }
  /// The same for an event of CUDA's as it is recorded now: recording it again or destroying it
  /// after this call changes nothing. One that was never recorded is not waited for. Returns at
  /// once, unless too many streams wait on the device already (docs/limits.md).
  void wait(cudaEvent_t e) {
    detail::stream_core& s = core("wait");
    if (e == nullptr) throw contract_error("stream " + s.name + ": wait() for a null cudaEvent_t");
    if (s.work->inline_path) {
      s.owner->inline_wait(s, e);
    } else {
      s.owner->gated_wait(s, e);
    }
  }
  /// What follows on this stream waits for everything on `foreign` so far. Does not wait on the
  /// host.
  void wait(cudaStream_t foreign) {
    detail::stream_core& s = core("wait");
    detail::refuse_default_stream(foreign, "stream " + s.name + ": wait()");
    s.owner->wait_foreign_stream(s, foreign);
  }

  /// Frees memory of `cudaMalloc` (host device: of `malloc`) once everything queued so far is done.
  /// The safe form of `cudaFree` beside held-back work, which would wait for that work while it
  /// keeps the work from going on. Returns at once; the memory goes back when the gated side has a
  /// moment with nothing in flight. Throws `contract_error` once the scheduler is gone: the memory
  /// then stays the caller's.
  void free_after(void* memory) {
    detail::stream_core& s = core("free_after");
    if (memory == nullptr) return;
    s.owner->free_after({core_, s.owner->newest(core_).number}, memory);
  }

  /// Waits until everything queued so far is done. Throws what the device failed with, or
  /// `contract_error` if called inside this stream's own `run`.
  void synchronize() {
    detail::stream_core& s = core("synchronize");
    s.owner->wait_for(s.owner->newest(core_), detail::clock::time_point::max());
  }
  /// The same for at most `limit`; false if that passed first.
  [[nodiscard]] bool synchronize_for(std::chrono::nanoseconds limit) {
    detail::stream_core& s = core("synchronize_for");
    return s.owner->wait_for(s.owner->newest(core_), detail::deadline_after(limit));
  }

  /// Name for messages and timelines: workload and number.
  [[nodiscard]] const std::string& name() const { return core("name").name; }

 private:
  friend class workload;
  explicit stream(std::shared_ptr<detail::stream_core> core) : core_(std::move(core)) {}

  [[nodiscard]] detail::stream_core& core(const char* call) const {
    if (!core_) {
      throw contract_error(std::string(call) +
                           "() on a stream handle that was moved from or never "
                           "assigned; get one from workload::stream()");
    }
    return *core_;
  }
  void launch_erased(const shape& geometry, const launch_options& options,
                     const detail::kernel_entry& k, const void* body) {
    detail::stream_core& s = core("launch");
    if (s.work->inline_path) {
      s.owner->check_inline(s, k, geometry);
      s.owner->inline_launch(s, k, body, geometry);
      return;
    }
    const detail::plan p = s.owner->plan_for(*s.work, k, geometry, options);
    s.owner->enqueue(s, s.owner->launch_operation(s, k, body, geometry, p));
  }

  std::shared_ptr<detail::stream_core> core_;
};

CEDE_END_NAMESPACE
