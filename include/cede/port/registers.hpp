// SPDX-License-Identifier: Apache-2.0
// How the text of a ported kernel learns which tile it is. Its parameters are the user's, so there
// is no room for one more; its words `blockIdx`, `gridDim` and `__syncthreads` become calls of what
// stands here. The tile is kept in named registers of the kernel around the text. That costs
// nothing: the assembler sees plain moves and removes them. A function that is not inlined into
// that kernel cannot see them and does not assemble; the error quotes the register, and the
// register's name is the reason.
#pragma once

#include <cede/block.hpp>
#include <cede/config.hpp>
#include <cede/shape.hpp>

#if CEDE_NVCC

CEDE_BEGIN_NAMESPACE

namespace port {

/// Declares the registers. Once per kernel, outside any loop. `Persistent` leaves one out, so that
/// what cannot run in persistent workers does not assemble there.
template <bool Persistent>
__device__ __forceinline__ void declare_registers() {
  asm volatile(
      ".reg .u32 cede_port_needs_inlining_blockIdx_x, cede_port_needs_inlining_blockIdx_y, "
      "cede_port_needs_inlining_blockIdx_z;\n\t"
      ".reg .u32 cede_port_needs_inlining_gridDim_x, cede_port_needs_inlining_gridDim_y, "
      "cede_port_needs_inlining_gridDim_z;\n\t"
      ".reg .u32 cede_port_needs_inlining_vote;\n\t"
      "mov.u32 cede_port_needs_inlining_vote, %0;" ::"n"(Persistent ? 1 : 0));
  if constexpr (!Persistent) {
    asm volatile(
        ".reg .u32 cede_port_syncthreads_with_a_result_is_not_persistent_safe;\n\t"
        "mov.u32 cede_port_syncthreads_with_a_result_is_not_persistent_safe, 0;");
  }
}

/// Sets them for the tile that comes next.
__device__ __forceinline__ void set_registers(const index3& tile, const index3& grid) {
  asm volatile(
      "mov.u32 cede_port_needs_inlining_blockIdx_x, %0;\n\t"
      "mov.u32 cede_port_needs_inlining_blockIdx_y, %1;\n\t"
      "mov.u32 cede_port_needs_inlining_blockIdx_z, %2;\n\t"
      "mov.u32 cede_port_needs_inlining_gridDim_x, %3;\n\t"
      "mov.u32 cede_port_needs_inlining_gridDim_y, %4;\n\t"
      "mov.u32 cede_port_needs_inlining_gridDim_z, %5;" ::"r"(tile.x),
      "r"(tile.y), "r"(tile.z), "r"(grid.x), "r"(grid.y), "r"(grid.z)
      : "memory");
}

/// A value that orders reads of the registers behind their being set, without making every read a
/// barrier to the compiler: it is loaded from shared memory, which `set_registers` may have changed
/// for all the compiler knows, and appears in a comment of the assembly, so that to the assembler
/// nobody uses it and the load goes away.
__device__ __forceinline__ unsigned order() {
  return *reinterpret_cast<const unsigned*>(cede::detail::cede_dynamic_shared);
}

#if defined(__CUDACC_DEBUG__)
// Nothing is removed there, the load included.
#define CEDE_PORT_READ(TO, NAME) \
  asm volatile("mov.u32 %0, cede_port_needs_inlining_" NAME ";" : "=r"(TO))
#else
#define CEDE_PORT_READ(TO, NAME) \
  asm("mov.u32 %0, cede_port_needs_inlining_" NAME "; // %1" : "=r"(TO) : "r"(order()))
#endif

/// What `blockIdx` means in a port region.
__device__ __forceinline__ uint3 block_index() {
  uint3 v;
  CEDE_PORT_READ(v.x, "blockIdx_x");
  CEDE_PORT_READ(v.y, "blockIdx_y");
  CEDE_PORT_READ(v.z, "blockIdx_z");
  return v;
}

/// What `gridDim` means in a port region.
__device__ __forceinline__ dim3 grid_dim() {
  unsigned x;
  unsigned y;
  unsigned z;
  CEDE_PORT_READ(x, "gridDim_x");
  CEDE_PORT_READ(y, "gridDim_y");
  CEDE_PORT_READ(z, "gridDim_z");
  return {x, y, z};
}

#undef CEDE_PORT_READ

/// What `__syncthreads()` means in a port region: the native barrier in native blocks, a vote in
/// persistent workers, where threads that returned have not exited (see `block::sync`). Which of
/// the two is a constant to the assembler, so no branch is left of it. Waits for the other threads.
__device__ __forceinline__ void sync_threads() {
  asm volatile(
      "{\n\t.reg .pred votes, in, any;\n\t"
      "setp.ne.u32 votes, cede_port_needs_inlining_vote, 0;\n\t"
      "setp.ne.u32 in, 1, 0;\n\t"
      "setp.ne.u32 any, 1, 0;\n\t"
      "@votes barrier.cta.red.or.pred any, 0, in;\n\t"
      "@!any trap;\n\t"
      "@!votes bar.sync 0;\n\t}" ::
          : "memory");
}

/// Not for persistent workers: returned threads there answer the vote barrier, so its result is not
/// the body's to use.
__device__ __forceinline__ void refuse_persistent() {
  asm volatile(
      "{\n\t.reg .u32 unused;\n\t"
      "mov.u32 unused, cede_port_syncthreads_with_a_result_is_not_persistent_safe;\n\t}");
}
/// What `__syncthreads_or` means in a port region. Waits for the other threads.
__device__ __forceinline__ int sync_threads_or(int predicate) {
  refuse_persistent();
  return ::__syncthreads_or(predicate);
}
/// What `__syncthreads_and` means in a port region. Waits for the other threads.
__device__ __forceinline__ int sync_threads_and(int predicate) {
  refuse_persistent();
  return ::__syncthreads_and(predicate);
}
/// What `__syncthreads_count` means in a port region. Waits for the other threads.
__device__ __forceinline__ int sync_threads_count(int predicate) {
  refuse_persistent();
  return ::__syncthreads_count(predicate);
}

}  // namespace port

CEDE_END_NAMESPACE

#endif
