// SPDX-License-Identifier: Apache-2.0
// The CUDA device. Included by itself wherever nvcc compiles; a program without an nvcc file
// includes it once and links the CUDA runtime. Everything else of the library names no CUDA call.
#pragma once

#include <cede/config.hpp>

#if !__has_include(<cuda_runtime_api.h>)
#error \
    "cede/cuda_device.hpp needs the CUDA Toolkit's headers: add its include directory, or use <cede/cede.hpp> with cede::host_device"
#endif

#include <cede/detail/cuda_call.hpp>
#include <cede/detail/cuda_hook.hpp>
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/cuda_machine.hpp>
#if CEDE_NVCC
#include <cede/detail/cuda_kernels.hpp>
#include <cede/detail/port_kernels.hpp>
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

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Offers this program's or library's CUDA part to libraries without one, as long as it is loaded.
class cuda_part_offer {
 public:
  cuda_part_offer() {
    const cede_process::cuda_part* nobody = nullptr;
    if (shares_registry()) {
      cede_process::the_registry.cuda.compare_exchange_strong(nobody, own_cuda_part());
    }
  }
  cuda_part_offer(const cuda_part_offer&) = delete;
  cuda_part_offer& operator=(const cuda_part_offer&) = delete;
  ~cuda_part_offer() {
    const cede_process::cuda_part* mine = own_cuda_part();
    if (shares_registry()) {
      cede_process::the_registry.cuda.compare_exchange_strong(mine, nullptr);
    }
  }
};
inline const cuda_part_offer this_cuda_part;

}  // namespace detail

CEDE_END_NAMESPACE
