// SPDX-License-Identifier: Apache-2.0
// Times back-to-back launches on the device's clock, two ways of doing the same work in turn.
#pragma once

#include "common/cuda_check.hpp"
#include "measure/patience.hpp"
#include "measure/statistics.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace bench {

/// A word both sides see.
class shared_word {
 public:
  shared_word() {
    BENCH_CUDA(cudaHostAlloc(&word_, 128, cudaHostAllocMapped));
    *word_ = 0;
  }
  shared_word(const shared_word&) = delete;
  shared_word& operator=(const shared_word&) = delete;
  ~shared_word() { static_cast<void>(cudaFreeHost(word_)); }
  [[nodiscard]] volatile std::uint32_t* get() const { return word_; }

 private:
  std::uint32_t* word_ = nullptr;
};

/// Keeps a stream from going on until the host says so, or 50 ms have passed.
static __global__ void hold(const volatile std::uint32_t* word, std::uint32_t until) {
  unsigned long long begin;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  unsigned long long now = begin;
  while (*word < until && now - begin < 50'000'000ULL) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  }
}

/// A stream and two events around what is timed.
class timer {
 public:
  timer() {
    BENCH_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    BENCH_CUDA(cudaEventCreate(&begin_));
    BENCH_CUDA(cudaEventCreate(&end_));
  }
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;
  ~timer() {
    static_cast<void>(cudaEventDestroy(begin_));
    static_cast<void>(cudaEventDestroy(end_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }

  /// Microseconds a launch of `n` back to back. `held`: all are queued before the first begins, so
  /// that short ones do not wait for the host.
  template <class Launch>
  double time(Launch&& launch, int n, bool held) {
    if (held) {
      hold<<<1, 1, 0, stream_>>>(released_.get(), ++round_);
      BENCH_CUDA(cudaGetLastError());
    }
    BENCH_CUDA(cudaEventRecord(begin_, stream_));
    for (int i = 0; i < n; ++i) launch(i);
    BENCH_CUDA(cudaEventRecord(end_, stream_));
    if (held) *released_.get() = round_;
    finish();
    float milliseconds = 0;
    BENCH_CUDA(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return static_cast<double>(milliseconds) * 1000 / n;
  }
  /// Waits for all work of the stream.
  void finish() {
    await(
        [&] {
          const cudaError_t status = cudaStreamQuery(stream_);
          if (status == cudaErrorNotReady) return false;
          BENCH_CUDA(status);
          return true;
        },
        "the end of a launch");
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  shared_word released_;
  std::uint32_t round_ = 0;
};

struct pair_times {
  double first_us = 0;  ///< medians
  double second_us = 0;
  [[nodiscard]] double ratio() const { return second_us / first_us; }
};

/// Medians of `n` interleaved pairs, which change places every time.
template <class First, class Second>
pair_times time_pairs(First&& first, Second&& second, int n) {
  std::vector<double> a;
  std::vector<double> b;
  for (int i = 0; i < n; ++i) {
    if (i % 2 == 0) a.push_back(first());
    b.push_back(second());
    if (i % 2 == 1) a.push_back(first());
  }
  return {median(std::move(a)), median(std::move(b))};
}

}  // namespace bench
