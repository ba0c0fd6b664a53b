// SPDX-License-Identifier: Apache-2.0
// How long tiles take inside a real launch, by the clock of their SM: a body around a body, for the
// benchmarks alone, that notes when the first warp of a sampled tile begins and the last one ends.
#pragma once

#include "common/cuda_check.hpp"
#include "measure/statistics.hpp"

#include <cede/body.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace bench {

struct tile_log {
  std::uint32_t stride = 1;  ///< one tile of so many is noted
  unsigned long long* begin = nullptr;
  unsigned long long* end = nullptr;
};

template <class Body>
struct timed {
  static constexpr bool native = cede::traits_of<Body>().native;
  static constexpr bool whole = cede::traits_of<Body>().whole;
  static constexpr bool looks_back = cede::traits_of<Body>().looks_back;
  static constexpr bool independent = cede::traits_of<Body>().independent;
  static constexpr bool barrier_free = cede::traits_of<Body>().barrier_free;
  static constexpr unsigned max_threads = cede::traits_of<Body>().max_threads;
  static constexpr unsigned min_blocks = cede::traits_of<Body>().min_blocks;

  Body body;
  tile_log log;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
#if defined(__CUDA_ARCH__)
    const cede::index3 i = b.index();
    const cede::index3 g = b.grid();
    const std::uint32_t tile = i.x + g.x * (i.y + g.y * i.z);
    const bool noted = tile % log.stride == 0 && b.thread_rank() % 32 == 0;
    if (noted) {
      atomicMin(log.begin + tile / log.stride, static_cast<unsigned long long>(clock64()));
    }
    body(b);
    if (noted) {
      atomicMax(log.end + tile / log.stride, static_cast<unsigned long long>(clock64()));
    }
#else
    body(b);
#endif
  }
};

/// Cycles of one SM and nanoseconds of the device, over a millisecond.
static __global__ void compare_clocks(unsigned long long* cycles_and_ns) {
  auto ns = [] {
    unsigned long long t;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    return t;
  };
  const unsigned long long first = ns();
  const long long begin = clock64();
  while (ns() - first < 1'000'000) {
  }
  cycles_and_ns[0] = static_cast<unsigned long long>(clock64() - begin);
  cycles_and_ns[1] = ns() - first;
}

/// The log of one launch after another.
class tile_clock {
 public:
  explicit tile_clock(std::uint64_t tiles) {
    constexpr std::uint64_t most = 4096;
    // Odd, so that a stride does not always meet the same column of a grid.
    log_.stride = static_cast<std::uint32_t>(tiles / most) | 1U;
    samples_ = static_cast<std::size_t>((tiles - 1) / log_.stride + 1);
    BENCH_CUDA(cudaMalloc(&log_.begin, samples_ * sizeof *log_.begin));
    BENCH_CUDA(cudaMalloc(&log_.end, samples_ * sizeof *log_.end));
    BENCH_CUDA(cudaMalloc(&clocks_, 2 * sizeof *clocks_));
    clear();
  }
  tile_clock(const tile_clock&) = delete;
  tile_clock& operator=(const tile_clock&) = delete;
  ~tile_clock() {
    static_cast<void>(cudaFree(log_.begin));
    static_cast<void>(cudaFree(log_.end));
    static_cast<void>(cudaFree(clocks_));
  }
  [[nodiscard]] const tile_log& log() const { return log_; }

  /// Takes in what the finished launch noted.
  void collect() {
    std::vector<unsigned long long> begin(samples_);
    std::vector<unsigned long long> end(samples_);
    BENCH_CUDA(
        cudaMemcpy(begin.data(), log_.begin, samples_ * sizeof begin[0], cudaMemcpyDeviceToHost));
    BENCH_CUDA(cudaMemcpy(end.data(), log_.end, samples_ * sizeof end[0], cudaMemcpyDeviceToHost));
    compare_clocks<<<1, 1>>>(clocks_);
    unsigned long long pair[2];
    BENCH_CUDA(cudaMemcpy(pair, clocks_, sizeof pair, cudaMemcpyDeviceToHost));
    const double us_per_cycle = static_cast<double>(pair[1]) / static_cast<double>(pair[0]) / 1000;
    for (std::size_t i = 0; i < samples_; ++i) {
      if (end[i] > begin[i]) {
        us_.push_back(static_cast<double>(end[i] - begin[i]) * us_per_cycle);
      }
    }
    clear();
  }
  [[nodiscard]] const std::vector<double>& microseconds() const { return us_; }

 private:
  void clear() {
    BENCH_CUDA(cudaMemset(log_.begin, 0xff, samples_ * sizeof *log_.begin));
    BENCH_CUDA(cudaMemset(log_.end, 0, samples_ * sizeof *log_.end));
    BENCH_CUDA(cudaStreamSynchronize(nullptr));
  }
  tile_log log_;
  std::size_t samples_ = 0;
  unsigned long long* clocks_ = nullptr;
  std::vector<double> us_;
};

}  // namespace bench
