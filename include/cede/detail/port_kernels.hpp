// SPDX-License-Identifier: Apache-2.0
// The kernels around a ported kernel: those of cuda_kernels.hpp, with the registers in which its
// text finds the tile.
#pragma once

#include <cede/config.hpp>

#if !CEDE_NVCC
#error "cede/detail/port_kernels.hpp holds device code: compile this file with nvcc"
#endif

#include <cede/detail/cuda_kernels.hpp>
#include <cede/port/kernel.hpp>
#include <cede/port/registers.hpp>

CEDE_BEGIN_NAMESPACE

namespace detail {

namespace CEDE_HIDDEN kernels {

template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_native_kernel(const __grid_constant__ B body, const __grid_constant__ native_args a) {
  port::declare_registers<false>();
  run_native(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_gated_kernel(const __grid_constant__ B body, const __grid_constant__ worker_args a) {
  port::declare_registers<false>();
  run_gated(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_persistent_kernel(const __grid_constant__ B body,
                             const __grid_constant__ worker_args a) {
  port::declare_registers<true>();
  run_persistent(body, a);
}

}  // namespace CEDE_HIDDEN kernels

template <class K, unsigned Threads, class... A, bool Preemptible>
struct device_code<ported_code<K, Threads, A...>, compiler::nvcc, Preemptible> {
  using B = ported_code<K, Threads, A...>;
  static cuda_kernels make() {
    constexpr unsigned blocks = trait_min_blocks<B>();
    cuda_kernels k;
    k.resolve = &resolve_symbol;
    k.native = reinterpret_cast<const void*>(&kernels::ported_native_kernel<B, Threads, blocks>);
    if constexpr (Preemptible) {
      k.gated = reinterpret_cast<const void*>(&kernels::ported_gated_kernel<B, Threads, blocks>);
      k.closing = reinterpret_cast<const void*>(&kernels::closing_kernel<kernels::closing_tag>);
    }
    if constexpr (Preemptible && !trait_native<B>()) {
      k.persistent =
          reinterpret_cast<const void*>(&kernels::ported_persistent_kernel<B, Threads, blocks>);
    }
    return k;
  }
  static const cuda_kernels* get() {
    static const cuda_kernels k = make();
    return &k;
  }
};

}  // namespace detail

CEDE_END_NAMESPACE
