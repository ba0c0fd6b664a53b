// SPDX-License-Identifier: Apache-2.0
// The instructions of the tensor cores and of asynchronous copies, as functions. Device code only.
#pragma once

#include <cede/config.hpp>

#include <cstdint>

namespace bench {

/// Bytes of a row of 64 bfloat16 in shared memory: eight chunks of 16, whose order is mixed by the
/// number of the row, so that eight rows of one column lie in different banks. It is the 128-byte
/// swizzle that the tensor cores of sm_90 read by themselves.
inline constexpr std::uint32_t row_bytes = 128;

CEDE_BODY constexpr std::uint32_t swizzled(std::uint32_t row, std::uint32_t chunk) {
  return row * row_bytes + ((chunk ^ (row % 8)) * 16);
}

#if defined(__CUDA_ARCH__)

namespace tensor {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// 16 bytes from global to shared memory, past the first-level cache.
__device__ inline void copy_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Behind` of the groups committed last are under way.
template <int Behind>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Behind) : "memory");
}

/// Four 8 x 8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
__device__ inline void load_matrices(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

/// d += a b for a 16 x 16 by 16 x 8 product.
__device__ inline void multiply(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Two floats as bfloat16, `low` in the lower half.
__device__ inline std::uint32_t pack(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace tensor

#endif

}  // namespace bench
