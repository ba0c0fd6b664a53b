// SPDX-License-Identifier: Apache-2.0
// The CUDA device. Included by itself wherever nvcc compiles; a program without an nvcc file includes
// it once and links the CUDA runtime. Everything else of the library names no CUDA call.
#pragma once

#include <cede/config.hpp>

#if !__has_include(<cuda_runtime_api.h>)
#error "cede/cuda_device.hpp needs the CUDA Toolkit's headers: add its include directory, or use <cede/cede.hpp> with cede::host_device"
#endif

#include <cede/detail/cuda_call.hpp>
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/cuda_machine.hpp>
#if CEDE_NVCC
#include <cede/detail/cuda_kernels.hpp>
#endif

// The weak definitions <cede/scheduler.hpp> looks for.
extern "C" {
__attribute__((weak)) cede::detail::device* cede_v0_make_cuda_device(int ordinal) {
  return new cede::detail::cuda_machine(ordinal);
}
__attribute__((weak)) int cede_v0_current_cuda_device() {
  return cede::detail::current_cuda_device();
}
}
