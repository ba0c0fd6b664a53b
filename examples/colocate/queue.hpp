// SPDX-License-Identifier: Apache-2.0
// Where the models put their launches: a stream of cede's, or a plain CUDA stream.
#pragma once

#include <cede/body.hpp>
#include <cede/stream.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

#if CEDE_NVCC
#include <cuda_runtime.h>
#endif

namespace colocate {

using steady = std::chrono::steady_clock;

#if CEDE_NVCC
/// A body as an ordinary kernel, without anything of cede's around it. It must declare both of its
/// launch bounds, so that it is compiled as cede compiles it.
template <class Body>
__global__ void __launch_bounds__(Body::max_threads, Body::min_blocks) plain(Body body) {
  body(cede::block({blockIdx.x, blockIdx.y, blockIdx.z}, {gridDim.x, gridDim.y, gridDim.z}));
}
#endif

/// An in-order queue of launches, used by one thread. The modes differ in nothing else.
class queue {
 public:
  queue(const queue&) = delete;
  queue& operator=(const queue&) = delete;
  virtual ~queue() = default;

  /// Launches a body. On the CUDA device only where nvcc compiles the call. A body may ask for
  /// another number of workers per SM than the queue's.
  template <class Body>
  void launch(const cede::shape& shape, const Body& body) {
    if (plain_ == nullptr) {
      cede::launch_options options = options_;
      if constexpr (requires { Body::workers_per_sm; }) {
        if (options.workers_per_sm > 1) options.workers_per_sm = Body::workers_per_sm;
      }
      through_.launch(shape, options, body);
      return;
    }
#if CEDE_NVCC
    const dim3 grid(static_cast<unsigned>(shape.grid.x), static_cast<unsigned>(shape.grid.y),
                    static_cast<unsigned>(shape.grid.z));
    plain<<<grid, static_cast<unsigned>(shape.block.x), shape.shared, plain_>>>(body);
    launched(static_cast<int>(cudaGetLastError()));
#endif
  }

  /// Brackets the launches of one request.
  virtual void begin_request(steady::time_point arrived) = 0;
  virtual void end_request() = 0;

  /// Waits until everything launched so far is done, spinning where that is quickest.
  virtual void wait() = 0;

  /// A point behind everything launched so far, and whether everything before it is done within
  /// `limit`. Points are asked for in the order in which they were marked.
  virtual std::uint64_t mark() = 0;
  virtual bool wait_for(std::uint64_t point, std::chrono::nanoseconds limit) = 0;

 protected:
  explicit queue(cede::stream through, const cede::launch_options& options)
      : through_(std::move(through)), options_(options) {}
  explicit queue(cudaStream_t plain) : plain_(plain) {}

  /// Throws if the runtime refused a plain launch with this status.
  static void launched(int status);

  cede::stream through_;
  cede::launch_options options_;
  cudaStream_t plain_ = nullptr;
};

}  // namespace colocate
