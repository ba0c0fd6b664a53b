// SPDX-License-Identifier: Apache-2.0
// How code that knows nothing of CUDA gets at the CUDA device: two weak functions, defined wherever
// <cede/cuda_device.hpp> is included, absent in a program that never does.
#pragma once

#include <cede/config.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>

#include <memory>

extern "C" {
__attribute__((weak)) cede::detail::device* cede_v0_make_cuda_device(int ordinal);
__attribute__((weak)) int cede_v0_current_cuda_device();
}

CEDE_BEGIN_NAMESPACE

namespace detail {

inline void require_cuda_part() {
  // Through a volatile: where the function is defined in the same translation unit the compiler takes
  // for granted that it exists.
  int (*volatile hook)() = &cede_v0_current_cuda_device;
  if (hook == nullptr) {
    throw not_supported("this program has no CUDA part, so it cannot use a GPU; compile one file that "
                        "launches with nvcc, or include <cede/cuda_device.hpp> and link the CUDA runtime, or "
                        "pass cede::host_device{}");
  }
}

inline std::shared_ptr<device> make_cuda_device(int ordinal) {
  require_cuda_part();
  return std::shared_ptr<device>(cede_v0_make_cuda_device(ordinal));
}

inline int current_cuda_device_or_throw() {
  require_cuda_part();
  return cede_v0_current_cuda_device();
}

}  // namespace detail

CEDE_END_NAMESPACE
