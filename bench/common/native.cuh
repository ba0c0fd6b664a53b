// SPDX-License-Identifier: Apache-2.0
// What a body costs without cede: the same text as a plain kernel and in a plain persistent loop,
// with CUDA's own block index and barrier.
#pragma once

#include "common/cuda_check.hpp"

#include <cede/body.hpp>
#include <cede/shape.hpp>

#include <cuda_runtime.h>

#include <cstdint>

namespace bench {

extern __shared__ __align__(128) unsigned char dynamic_bytes[];

/// What a body sees where there is no adapter. On the host it says nothing: nothing calls it there.
class native_block {
 public:
  CEDE_BODY native_block(cede::index3 index, cede::index3 grid) : index_(index), grid_(grid) {}
  [[nodiscard]] CEDE_BODY cede::index3 index() const { return index_; }
  [[nodiscard]] CEDE_BODY cede::index3 grid() const { return grid_; }
  [[nodiscard]] CEDE_BODY cede::index3 dim() const {
#if defined(__CUDA_ARCH__)
    return {blockDim.x, blockDim.y, blockDim.z};
#else
    return {};
#endif
  }
  [[nodiscard]] CEDE_BODY cede::index3 thread() const {
#if defined(__CUDA_ARCH__)
    return {threadIdx.x, threadIdx.y, threadIdx.z};
#else
    return {};
#endif
  }
  [[nodiscard]] CEDE_BODY std::uint32_t thread_rank() const {
    const cede::index3 t = thread();
    const cede::index3 d = dim();
    return t.x + d.x * (t.y + d.y * t.z);
  }
  [[nodiscard]] CEDE_BODY std::uint32_t size() const {
    const cede::index3 d = dim();
    return d.x * d.y * d.z;
  }
  CEDE_BODY void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  template <class T, int Tag = 0>
  [[nodiscard]] CEDE_BODY T& shared() const {
#if defined(__CUDA_ARCH__)
    __shared__ alignas(T) unsigned char storage[sizeof(T)];
    return *reinterpret_cast<T*>(storage);
#else
    return *static_cast<T*>(nullptr);
#endif
  }
  template <class T>
  [[nodiscard]] CEDE_BODY T* dynamic_shared() const {
#if defined(__CUDA_ARCH__)
    return reinterpret_cast<T*>(dynamic_bytes);
#else
    return nullptr;
#endif
  }
  template <class T>
  CEDE_BODY T atomic_add(T* p, T v) const {
#if defined(__CUDA_ARCH__)
    return ::atomicAdd(p, v);
#else
    return *p += v;
#endif
  }

 private:
  cede::index3 index_;
  cede::index3 grid_;
};

/// Bodies whose threads return at different places before a barrier have no plain loop.
template <class Body>
constexpr bool has_plain_loop() {
  if constexpr (requires { Body::returns_early; }) return !Body::returns_early;
  return true;
}

namespace kernels {

template <class Body>
__device__ __forceinline__ void run_plain(const Body& body) {
#if defined(__CUDA_ARCH__)
  body(native_block({blockIdx.x, blockIdx.y, blockIdx.z}, {gridDim.x, gridDim.y, gridDim.z}));
#endif
}

/// Tiles in steps of the grid, ascending.
template <class Body>
__device__ __forceinline__ void run_loop(const Body& body, cede::index3 grid, std::uint32_t tiles) {
#if defined(__CUDA_ARCH__)
  const bool line = grid.y == 1 && grid.z == 1;
  for (std::uint32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    cede::index3 at{tile, 0, 0};
    if (!line) {
      const std::uint32_t row = tile / grid.x;
      at = {tile - row * grid.x, row, 0};
      if (grid.z != 1) {
        at.z = row / grid.y;
        at.y = row - at.z * grid.y;
      }
    }
    body(native_block(at, grid));
    __syncthreads();
  }
#endif
}

template <class Body>
__global__ void plain(const __grid_constant__ Body body) {
  run_plain(body);
}
template <class Body>
__global__ void loop(const __grid_constant__ Body body, cede::index3 grid, std::uint32_t tiles) {
  run_loop(body, grid, tiles);
}
template <class Body, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_plain(const __grid_constant__ Body body) {
  run_plain(body);
}
template <class Body, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_loop(const __grid_constant__ Body body, cede::index3 grid, std::uint32_t tiles) {
  run_loop(body, grid, tiles);
}

}  // namespace kernels

/// Registers, local memory and residency of one kernel.
struct kernel_facts {
  int registers = 0;
  std::size_t local_bytes = 0;  ///< of a thread: what the compiler spilled
  int blocks_per_sm = 0;
};

inline kernel_facts facts_of(const void* kernel, const cede::shape& s) {
  cudaFuncAttributes a{};
  BENCH_CUDA(cudaFuncGetAttributes(&a, kernel));
  kernel_facts f{a.numRegs, a.localSizeBytes, 0};
  BENCH_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &f.blocks_per_sm, kernel, static_cast<int>(s.threads()), s.shared));
  return f;
}

/// A kernel of more than 48 KiB of dynamic shared memory has to be told. Not for the adapters'.
inline void allow_shared(const void* kernel, const cede::shape& s) {
  BENCH_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(s.shared)));
}

/// One body and shape, launched without cede.
template <class Body>
class native_launch {
 public:
  native_launch(const cede::shape& s, const Body& body) : shape_(s), body_(body) {
    int device = 0;
    BENCH_CUDA(cudaGetDevice(&device));
    BENCH_CUDA(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, device));
    allow_shared(plain_kernel(), s);
    plain_facts_ = facts_of(plain_kernel(), s);
    if constexpr (has_loop) {
      allow_shared(loop_kernel(), s);
      loop_facts_ = facts_of(loop_kernel(), s);
    }
  }

  static constexpr bool has_loop = has_plain_loop<Body>();

  void plain(cudaStream_t stream) {
    Body body = body_;
    void* arguments[] = {&body};
    const dim3 grid(static_cast<unsigned>(shape_.grid.x), static_cast<unsigned>(shape_.grid.y),
                    static_cast<unsigned>(shape_.grid.z));
    BENCH_CUDA(cudaLaunchKernel(plain_kernel(), grid, threads(), arguments, shape_.shared, stream));
  }
  /// As many blocks as are resident at once.
  void loop(cudaStream_t stream) {
    if constexpr (has_loop) {
      Body body = body_;
      cede::index3 grid{static_cast<std::uint32_t>(shape_.grid.x),
                        static_cast<std::uint32_t>(shape_.grid.y),
                        static_cast<std::uint32_t>(shape_.grid.z)};
      auto tiles = static_cast<std::uint32_t>(shape_.tiles());
      void* arguments[] = {&body, &grid, &tiles};
      const auto resident = static_cast<std::uint32_t>(sms_ * loop_facts_.blocks_per_sm);
      BENCH_CUDA(cudaLaunchKernel(loop_kernel(), dim3(tiles < resident ? tiles : resident),
                                  threads(), arguments, shape_.shared, stream));
    }
  }
  [[nodiscard]] const kernel_facts& plain_facts() const { return plain_facts_; }
  [[nodiscard]] const kernel_facts& loop_facts() const { return loop_facts_; }
  [[nodiscard]] int sms() const { return sms_; }

 private:
  static constexpr unsigned bound = cede::traits_of<Body>().max_threads;
  static constexpr unsigned blocks = cede::traits_of<Body>().min_blocks;

  static const void* plain_kernel() {
    if constexpr (bound == 0) return reinterpret_cast<const void*>(&kernels::plain<Body>);
    if constexpr (bound != 0) {
      return reinterpret_cast<const void*>(&kernels::bounded_plain<Body, bound, blocks>);
    }
  }
  static const void* loop_kernel() {
    if constexpr (bound == 0) return reinterpret_cast<const void*>(&kernels::loop<Body>);
    if constexpr (bound != 0) {
      return reinterpret_cast<const void*>(&kernels::bounded_loop<Body, bound, blocks>);
    }
  }
  [[nodiscard]] dim3 threads() const {
    return {static_cast<unsigned>(shape_.block.x), static_cast<unsigned>(shape_.block.y),
            static_cast<unsigned>(shape_.block.z)};
  }

  cede::shape shape_;
  Body body_;
  int sms_ = 0;
  kernel_facts plain_facts_{};
  kernel_facts loop_facts_{};
};

}  // namespace bench
