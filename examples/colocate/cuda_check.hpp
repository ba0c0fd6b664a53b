// SPDX-License-Identifier: Apache-2.0
// Calls of CUDA's runtime that must succeed.
#pragma once

#include <cede/error.hpp>

#include <string>

#if CEDE_EXAMPLE_CUDA
#include <cuda_runtime_api.h>

namespace colocate {

inline void check_cuda(cudaError_t status, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  throw cede::device_error(std::string(call) + " failed: " + cudaGetErrorString(status),
                           static_cast<int>(status), call, where);
}

}  // namespace colocate

#define COLOCATE_CUDA(call) ::colocate::check_cuda((call), #call)
#endif
