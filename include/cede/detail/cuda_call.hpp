// SPDX-License-Identifier: Apache-2.0
// Calling CUDA: every status is looked at once, turned into a sentence, and the driver's own entry
// points are fetched at run time, so that nobody links the driver.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace detail {

[[noreturn]] inline void throw_cuda(int code, const char* name, const char* text,
                                    const std::string& call, std::source_location where) {
  const std::string sentence =
      call + " failed: " + name + " (" + std::to_string(code) + "), " + text;
  if (code == static_cast<int>(cudaErrorMemoryAllocation)) {
    throw out_of_memory(sentence + "; free device memory or ask for less", code, call, where);
  }
  throw device_error(sentence, code, call, where);
}

/// Throws if a runtime call failed, and clears what can be cleared.
inline void check_cuda(cudaError_t status, const char* call,
                       std::source_location where = std::source_location::current()) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw_cuda(static_cast<int>(status), cudaGetErrorName(status), cudaGetErrorString(status), call,
             where);
}

/// The driver's functions the library calls.
struct driver_table {
  CUresult (*launch_kernel)(const CUlaunchConfig*, CUfunction, void**, void**) = nullptr;
  CUresult (*write_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
  CUresult (*wait_value)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = nullptr;
  CUresult (*set_attribute)(CUfunction, CUfunction_attribute, int) = nullptr;
  CUresult (*get_attribute)(int*, CUfunction_attribute, CUfunction) = nullptr;
  CUresult (*occupancy)(int*, CUfunction, int, std::size_t) = nullptr;
  CUresult (*clusters)(int*, CUfunction, const CUlaunchConfig*) = nullptr;
  CUresult (*error_name)(CUresult, const char**) = nullptr;
  CUresult (*error_string)(CUresult, const char**) = nullptr;
};

inline void* driver_entry(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check_cuda(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found),
             name);
  if (found != cudaDriverEntryPointSuccess || entry == nullptr) {
    throw not_supported(std::string("the CUDA driver has no ") + name +
                        "; cede needs a driver for CUDA 12.0 or newer: update the NVIDIA driver");
  }
  return entry;
}

inline const driver_table& driver() {
  static const driver_table table = [] {
    driver_table t;
    auto fetch = [](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(driver_entry(name));
    };
    fetch(t.launch_kernel, "cuLaunchKernelEx");
    fetch(t.write_value, "cuStreamWriteValue64");
    fetch(t.wait_value, "cuStreamWaitValue64");
    fetch(t.set_attribute, "cuFuncSetAttribute");
    fetch(t.get_attribute, "cuFuncGetAttribute");
    fetch(t.occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    fetch(t.clusters, "cuOccupancyMaxActiveClusters");
    fetch(t.error_name, "cuGetErrorName");
    fetch(t.error_string, "cuGetErrorString");
    return t;
  }();
  return table;
}

/// Throws if a driver call failed.
inline void check_driver(CUresult status, const std::string& call,
                         std::source_location where = std::source_location::current()) {
  if (status == CUDA_SUCCESS) return;
  const char* name = nullptr;
  const char* text = nullptr;
  driver().error_name(status, &name);
  driver().error_string(status, &text);
  throw_cuda(static_cast<int>(status), name == nullptr ? "unknown" : name,
             text == nullptr ? "unknown" : text, call, where);
}

inline int current_cuda_device() {
  int n = 0;
  const cudaError_t status = cudaGetDeviceCount(&n);
  if (status != cudaSuccess || n == 0) {
    static_cast<void>(cudaGetLastError());
    throw not_supported(
        std::string("scheduler: no CUDA device can be used (") + cudaGetErrorString(status) +
        "); install a driver for this toolkit and a GPU, or pass cede::host_device{}");
  }
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return device;
}

}  // namespace detail

CEDE_END_NAMESPACE
