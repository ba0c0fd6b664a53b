// SPDX-License-Identifier: Apache-2.0
// How code that knows nothing of CUDA gets at the CUDA device: two weak functions, defined wherever
// <cede/cuda_device.hpp> is included. A shared library that does not see those of another one finds
// them through the registry; a program in which nobody includes it has no CUDA part.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/registry.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>

#include <memory>

extern "C" {
__attribute__((weak)) cede::detail::device* cede_v0_make_cuda_device(int ordinal);
__attribute__((weak)) int cede_v0_current_cuda_device();
}

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The CUDA part of this program or library; null where it has none.
inline const cede_process::cuda_part* own_cuda_part() {
  // Through a volatile: where the function is defined in the same translation unit the compiler
  // takes for granted that it exists.
  int (*volatile hook)() = &cede_v0_current_cuda_device;
  if (hook == nullptr) return nullptr;
  static const cede_process::cuda_part part{
      [](int ordinal) -> void* { return cede_v0_make_cuda_device(ordinal); },
      &cede_v0_current_cuda_device};
  return &part;
}

inline const cede_process::cuda_part& require_cuda_part() {
  if (const auto* own = own_cuda_part()) return *own;
  if (shares_registry()) {
    if (const auto* other = cede_process::the_registry.cuda.load()) return *other;
  }
  throw not_supported(
      "this program has no CUDA part, so it cannot use a GPU; compile one file that "
      "launches with nvcc, or include <cede/cuda_device.hpp> and link the CUDA runtime, or "
      "pass cede::host_device{}");
}

inline std::shared_ptr<device> make_cuda_device(int ordinal) {
  return std::shared_ptr<device>(static_cast<device*>(require_cuda_part().make_device(ordinal)));
}

inline int current_cuda_device_or_throw() { return require_cuda_part().current_device(); }

}  // namespace detail

CEDE_END_NAMESPACE
