// SPDX-License-Identifier: Apache-2.0
// Where work is put: a plain CUDA stream or a stream of cede's. Nothing else differs between modes.
#pragma once

#include "common/native.cuh"

#include <cede/cede.hpp>

#include <cuda_runtime.h>

#include <optional>
#include <utility>

#include "../examples/colocate/queue.hpp"

namespace bench::scheduler {

/// A body and its shape, ready to go either way.
template <class Body>
struct kernel {
  kernel(const cede::shape& s, const Body& b) : shape(s), body(b), native(s, b) {}
  cede::shape shape;
  Body body;
  native_launch<Body> native;
};

/// One of both. `whole`: through a scheduler, but never preempted.
struct path {
  cudaStream_t raw = nullptr;
  cede::stream through{};
  bool whole = false;

  template <class Body>
  void launch(kernel<Body>& k, cede::launch_options options = {}) {
    if (raw != nullptr) {
      k.native.plain(raw);
      return;
    }
    if (whole) options = {.form = cede::form::whole};
    through.launch(k.shape, options, k.body);
  }
  /// Library calls and graphs.
  template <class F>
  void run(F&& f) {
    raw != nullptr ? f(raw) : through.run(std::forward<F>(f));
  }
};

/// The same for the models of the main job, which take a queue of their own.
class model_queue final : public colocate::queue {
 public:
  explicit model_queue(cudaStream_t raw) : queue(raw) {}
  model_queue(cede::stream s, const cede::launch_options& o) : queue(std::move(s), o) {}
  // Whoever measures brackets requests and waits.
  void begin_request(colocate::steady::time_point) override {}
  void end_request() override {}
  void wait() override {}
  std::uint64_t mark() override { return 0; }
  bool wait_for(std::uint64_t, std::chrono::nanoseconds) override { return true; }
};

/// A queue for the path that a model was last used on.
class queue_for_path {
 public:
  model_queue& of(const path& p, cede::launch_options options) {
    if (p.whole) options = {.form = cede::form::whole};
    if (p.raw != nullptr) {
      queue_.emplace(p.raw);
    } else {
      queue_.emplace(p.through, options);
    }
    return *queue_;
  }

 private:
  std::optional<model_queue> queue_;
};

}  // namespace bench::scheduler
