// SPDX-License-Identifier: Apache-2.0
// Makes one of CUDA's graphs of what a callable puts on a stream.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/cuda_call.hpp>
#include <cede/device.hpp>

#include <cuda_runtime_api.h>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The capture is the calling thread's own: what other threads call meanwhile does not disturb it.
/// Nodes keep the priority of `on`. Waits until the graph is on the device.
template <class Put>
cudaGraphExec_t record_graph(cudaStream_t on, Put&& put) {
  check_cuda(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal),
             "cudaStreamBeginCapture");
  cudaGraph_t recorded = nullptr;
  try {
    put();
  } catch (...) {
    // Ends the capture, so that the stream can be used again; what it holds is dropped.
    static_cast<void>(cudaStreamEndCapture(on, &recorded));
    static_cast<void>(cudaGetLastError());
    if (recorded != nullptr) static_cast<void>(cudaGraphDestroy(recorded));
    throw;
  }
  check_cuda(cudaStreamEndCapture(on, &recorded), "cudaStreamEndCapture");
  cudaGraphExec_t made = nullptr;
  const cudaError_t status =
      cudaGraphInstantiate(&made, recorded, cudaGraphInstantiateFlagUseNodePriority);
  static_cast<void>(cudaGraphDestroy(recorded));
  check_cuda(status, "cudaGraphInstantiate");
  try {
    check_cuda(cudaGraphUpload(made, on), "cudaGraphUpload");
    check_cuda(cudaStreamSynchronize(on), "cudaStreamSynchronize");
  } catch (...) {
    static_cast<void>(cudaGraphExecDestroy(made));
    throw;
  }
  return made;
}

}  // namespace detail

CEDE_END_NAMESPACE
