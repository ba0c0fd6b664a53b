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

// The user's arguments are parameters of their own, and the call stands in the kernel itself: the
// compiler copies a large argument to local memory if it is a member of another, or where it comes
// through a closure behind an early return.
template <class K, unsigned Threads, unsigned Blocks, class... A>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_native_kernel(const __grid_constant__ native_args a,
                         const __grid_constant__ A... arguments) {
  port::declare_registers<false>();
  port::set_registers(native_tile(a), a.grid.grid);
  K::function()(arguments...);
}
template <class K, unsigned Threads, unsigned Blocks, class... A>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_gated_kernel(const __grid_constant__ worker_args a,
                        const __grid_constant__ A... arguments) {
  port::declare_registers<false>();
  const mailbox m = gated_tile(a);
  if (m.count == 0) return;
  port::set_registers(a.grid.locate(m.tile), a.grid.grid);
  K::function()(arguments...);
}
template <class K, unsigned Threads, unsigned Blocks, class... A>
__global__ void __launch_bounds__(Threads, Blocks)
    ported_persistent_kernel(const __grid_constant__ worker_args a,
                             const __grid_constant__ A... arguments) {
  port::declare_registers<true>();
  const auto tile = [&](block b) __attribute__((always_inline)) {
    port::set_registers(b.index(), b.grid());
    K::function()(arguments...);
  };
  run_persistent(tile, a);
}

}  // namespace CEDE_HIDDEN kernels

#if !CEDE_RTC

template <class K, unsigned Threads, class... A, bool Preemptible>
struct device_code<ported_code<K, Threads, A...>, compiler::nvcc, Preemptible> {
  static cuda_kernels make() {
    constexpr unsigned blocks = K::traits.min_blocks;
    cuda_kernels k;
    k.resolve = &resolve_symbol;
    k.split = true;
    k.parameters = pack_offsets<A...>::value;
    k.native =
        reinterpret_cast<const void*>(&kernels::ported_native_kernel<K, Threads, blocks, A...>);
    if constexpr (Preemptible) {
      k.gated =
          reinterpret_cast<const void*>(&kernels::ported_gated_kernel<K, Threads, blocks, A...>);
      k.closing = reinterpret_cast<const void*>(&kernels::closing_kernel<kernels::closing_tag>);
    }
    if constexpr (Preemptible && K::traits.persistent_safe) {
      k.persistent = reinterpret_cast<const void*>(
          &kernels::ported_persistent_kernel<K, Threads, blocks, A...>);
    }
    return k;
  }
  static const cuda_kernels* get() {
    static const cuda_kernels k = make();
    return &k;
  }
};

#endif

}  // namespace detail

CEDE_END_NAMESPACE
