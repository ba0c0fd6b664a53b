// SPDX-License-Identifier: Apache-2.0
// What the bodies of the suite use within a tile: vectors of four, the plain barrier, a reduction.
// On a GPU as one would write them by hand; on a host portable and slow.
#pragma once

#include <cede/block.hpp>
#include <cede/config.hpp>

#include <cstdint>

// nvcc is asked to unroll; a host compiler may do as it likes.
#if CEDE_NVCC
#define BENCH_UNROLL _Pragma("unroll")
#else
#define BENCH_UNROLL
#endif

namespace bench {

struct alignas(16) float_4 {
  float x, y, z, w;
};
struct alignas(16) uint_4 {
  std::uint32_t x, y, z, w;
};

/// Barrier of a body none of whose threads returns early: on a GPU the plain one.
template <class Block>
CEDE_BODY void barrier(const Block& b) {
#if defined(__CUDA_ARCH__)
  static_cast<void>(b);
  __syncthreads();
#else
  b.sync();
#endif
}

struct add {
  template <class T>
  CEDE_BODY T operator()(T a, T b) const {
    return a + b;
  }
};
struct larger {
  CEDE_BODY float operator()(float a, float b) const { return a > b ? a : b; }
};

template <class T, int N>
struct array_of {
  T at[N];
};

/// Folds one value of every thread, in an order that does not change; all threads get the result.
/// The tile is 2^n whole warps. One barrier: each call in a body has a `Tag` of
/// its own.
template <int Tag, class Block, class T, class Op>
CEDE_BODY T reduce(const Block& b, T v, Op op) {
#if defined(__CUDA_ARCH__)
  const unsigned rank = b.thread_rank();
  const unsigned lane = rank % 32;
  const unsigned warps = b.size() / 32;
  for (unsigned offset = 16; offset > 0; offset /= 2) {
    v = op(v, __shfl_xor_sync(0xffffffffU, v, offset));
  }
  T* part = b.template shared<array_of<T, 32>, Tag>().at;
  if (lane == 0) part[rank / 32] = v;
  __syncthreads();
  v = part[lane % warps];
  for (unsigned offset = warps / 2; offset > 0; offset /= 2) {
    v = op(v, __shfl_xor_sync(0xffffffffU, v, offset));
  }
  return v;
#else
  T* all = b.template shared<array_of<T, 1024>, Tag>().at;
  all[b.thread_rank()] = v;
  b.sync();
  T folded = all[0];
  for (unsigned i = 1; i < b.size(); ++i) folded = op(folded, all[i]);
  return folded;
#endif
}

}  // namespace bench
