// SPDX-License-Identifier: Apache-2.0
// CUDA calls that end the program's current task with a sentence.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>

namespace bench {

inline void check_cuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw std::runtime_error(std::string(call) + " failed: " + cudaGetErrorString(status));
}

}  // namespace bench

#define BENCH_CUDA(call) ::bench::check_cuda((call), #call)
