// SPDX-License-Identifier: Apache-2.0
// Arrays of a problem on the GPU, filled there: the large ones hold gigabytes.
#pragma once

#include "common/cuda_check.hpp"
#include "common/memory.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

namespace fills {

struct floats {
  float low, high;
  std::uint32_t seed;
  __device__ float operator()(std::size_t i) const { return random_float(i, seed, low, high); }
};
struct bfloat16s {
  float low, high;
  std::uint32_t seed;
  __device__ std::uint16_t operator()(std::size_t i) const {
    return to_bfloat16(random_float(i, seed, low, high));
  }
};
struct integers {
  std::uint32_t below, seed;
  __device__ std::uint32_t operator()(std::size_t i) const {
    const std::uint32_t r = random_bits(i, seed);
    return below == 0 ? r : r % below;
  }
};

// Hidden: every file of the programs has these.
template <class T, class Value>
static __global__ void fill(T* p, std::size_t n, Value value) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    p[i] = value(i);
  }
}

static __global__ void compare(const std::uint32_t* a, const std::uint32_t* b, std::size_t n,
                               unsigned long long* different) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  unsigned long long mine = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    mine += a[i] != b[i] ? 1 : 0;
  }
  if (mine != 0) atomicAdd(different, mine);
}

}  // namespace fills

class cuda_memory final : public memory {
 public:
  cuda_memory() {
    int device = 0;
    BENCH_CUDA(cudaGetDevice(&device));
    int bytes = 0;
    BENCH_CUDA(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    shared_limit_ = static_cast<std::size_t>(bytes);
    different_ = static_cast<unsigned long long*>(allocate(sizeof *different_));
  }
  ~cuda_memory() override {
    for (void* p : blocks_) static_cast<void>(cudaFree(p));
  }

  void* allocate(std::size_t bytes) override {
    void* p = nullptr;
    BENCH_CUDA(cudaMalloc(&p, bytes));
    blocks_.push_back(p);
    clear(p, bytes);
    return p;
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    BENCH_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    BENCH_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost));
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    BENCH_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr));
    finish();
  }
  void clear(void* p, std::size_t bytes) override {
    BENCH_CUDA(cudaMemsetAsync(p, 0, bytes, nullptr));
    finish();
  }
  std::uint64_t count_different(const void* a, const void* b, std::size_t bytes) override {
    clear(different_, sizeof *different_);
    fills::compare<<<blocks(bytes / 4), 256>>>(static_cast<const std::uint32_t*>(a),
                                               static_cast<const std::uint32_t*>(b), bytes / 4,
                                               different_);
    BENCH_CUDA(cudaGetLastError());
    unsigned long long n = 0;
    download(&n, different_, sizeof n);
    return n;
  }
  void fill_floats(float* p, std::size_t n, float low, float high, std::uint32_t seed) override {
    fill(p, n, fills::floats{low, high, seed});
  }
  void fill_bfloat16(std::uint16_t* p, std::size_t n, float low, float high,
                     std::uint32_t seed) override {
    fill(p, n, fills::bfloat16s{low, high, seed});
  }
  void fill_integers(std::uint32_t* p, std::size_t n, std::uint32_t below,
                     std::uint32_t seed) override {
    fill(p, n, fills::integers{below, seed});
  }
  [[nodiscard]] std::size_t shared_limit() const override { return shared_limit_; }

 private:
  static unsigned blocks(std::size_t n) {
    return static_cast<unsigned>(std::clamp<std::size_t>((n + 255) / 256, 1, 65536));
  }
  template <class T, class Value>
  void fill(T* p, std::size_t n, Value value) {
    fills::fill<<<blocks(n), 256>>>(p, n, value);
    BENCH_CUDA(cudaGetLastError());
    finish();
  }
  void finish() { BENCH_CUDA(cudaStreamSynchronize(nullptr)); }

  std::vector<void*> blocks_;
  std::size_t shared_limit_ = 0;
  unsigned long long* different_ = nullptr;
};

}  // namespace bench
