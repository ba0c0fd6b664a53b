// SPDX-License-Identifier: Apache-2.0
// How long best-effort work takes to get out of the way, on the host's clock.
//
// With a gate: from the store that raises it to the word that the last block to leave publishes in
// host memory, which the host polls. Without one, for slices and stream priorities: from submitting
// a latency-critical kernel to the word that its first block writes.
#pragma once

#include "common/cuda_check.hpp"
#include "measure/patience.hpp"
#include "measure/statistics.hpp"
#include "measure/timing.cuh"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

namespace bench {

struct latencies {
  std::vector<double> us;
  int yields = 0;  ///< left before the end; latency-critical kernels, where there is no gate
  [[nodiscard]] double p50() const { return quantile(us, 0.5); }
  [[nodiscard]] double p99() const { return quantile(us, 0.99); }
  [[nodiscard]] double max() const { return quantile(us, 1); }
};

/// How many raises to wait for, and how long at most.
struct raise_plan {
  int wanted = 1000;
  std::chrono::seconds limit{15};
};

/// The latency-critical kernel: as many blocks as SMs, each half an SM's threads.
static __global__ void urgent(unsigned* seen, volatile std::uint32_t* host, std::uint32_t number) {
  if (threadIdx.x == 0 && atomicMax(seen, number) < number) *host = number;
}

class urgent_kernel {
 public:
  urgent_kernel() {
    int device = 0;
    int least = 0;
    int greatest = 0;
    BENCH_CUDA(cudaGetDevice(&device));
    BENCH_CUDA(cudaDeviceGetAttribute(&sms_, cudaDevAttrMultiProcessorCount, device));
    BENCH_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    BENCH_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
    BENCH_CUDA(cudaStreamCreateWithPriority(&low_, cudaStreamNonBlocking, least));
    BENCH_CUDA(cudaMalloc(&seen_, sizeof *seen_));
    BENCH_CUDA(cudaMemset(seen_, 0, sizeof *seen_));
    for (cudaEvent_t& e : flying_) {
      BENCH_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    }
    time();  // loads the kernel
  }
  urgent_kernel(const urgent_kernel&) = delete;
  urgent_kernel& operator=(const urgent_kernel&) = delete;
  ~urgent_kernel() {
    for (cudaEvent_t e : flying_) static_cast<void>(cudaEventDestroy(e));
    static_cast<void>(cudaFree(seen_));
    static_cast<void>(cudaStreamDestroy(low_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  /// Where best-effort work goes.
  [[nodiscard]] cudaStream_t low() const { return low_; }

  /// Keeps two units of best-effort work queued, each by one call of `feed`, and submits the kernel
  /// at random instants while one of them runs.
  template <class Feed>
  latencies at_random(Feed&& feed, double unit_us, raise_plan plan) {
    std::mt19937 random(7);
    latencies found;
    unsigned next = 0;
    auto busy = [&](unsigned i) {
      const cudaError_t status = cudaEventQuery(flying_[i % 2]);
      if (status == cudaErrorNotReady) return true;
      BENCH_CUDA(status);
      return false;
    };
    const auto end = wall::now() + plan.limit;
    while (found.yields < plan.wanted && wall::now() < end) {
      const double span = std::clamp(2 * unit_us, 50.0, 400.0);
      const double pause = std::uniform_real_distribution<double>(0, span)(random);
      const auto until =
          wall::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(pause * 1000));
      do {
        if (!busy(next)) {  // the older of the two
          feed();
          BENCH_CUDA(cudaEventRecord(flying_[next % 2], low_));
          ++next;
        }
      } while (wall::now() < until);
      if (!busy(next + 1)) continue;  // the younger is over as well: nothing to get past
      found.us.push_back(time());
      ++found.yields;
    }
    finish(low_);
    return found;
  }

 private:
  double time() {
    ++number_;
    const auto begin = wall::now();
    urgent<<<sms_, 1024, 0, stream_>>>(seen_, word_.get(), number_);
    BENCH_CUDA(cudaGetLastError());
    await([&] { return *word_.get() >= number_; }, "the start of a latency-critical kernel");
    const double took = microseconds(wall::now() - begin);
    finish(stream_);
    return took;
  }
  static void finish(cudaStream_t s) {
    await(
        [&] {
          const cudaError_t status = cudaStreamQuery(s);
          if (status == cudaErrorNotReady) return false;
          BENCH_CUDA(status);
          return true;
        },
        "the end of a launch");
  }

  cudaStream_t stream_ = nullptr;
  cudaStream_t low_ = nullptr;
  unsigned* seen_ = nullptr;
  shared_word word_;
  std::array<cudaEvent_t, 2> flying_{};
  std::uint32_t number_ = 0;
  int sms_ = 0;
};

}  // namespace bench
