// SPDX-License-Identifier: Apache-2.0
// The SMs of the device in two disjoint sets, by green contexts, and a stream on each.
#pragma once

#include "common/cuda_check.hpp"

#include <cuda.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace bench::scheduler {

/// A function of the driver, fetched so that nothing links it. Throws where it has none.
template <class Function>
Function driver_function(const char* name, unsigned since) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  BENCH_CUDA(cudaGetDriverEntryPointByVersion(name, &found, since, cudaEnableDefault, &result));
  if (result != cudaDriverEntryPointSuccess) {
    throw std::runtime_error(std::string("the CUDA driver has no ") + name + "; it is too old");
  }
  return reinterpret_cast<Function>(found);
}

#define BENCH_DRIVER(name, since) \
  ::bench::scheduler::driver_function<decltype(&::name)>(#name, since)

inline void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed with " +
                           std::to_string(static_cast<int>(status)));
}

/// Disjoint sets of SMs; the driver rounds the first one up to what it can give.
class green_pair {
 public:
  explicit green_pair(unsigned first_sms) {
    int device = 0;
    BENCH_CUDA(cudaGetDevice(&device));
    CUdevResource all{};
    CUdevResource parts[2] = {};
    unsigned groups = 1;
    check_driver(BENCH_DRIVER(cuDeviceGetDevResource, 12040)(device, &all, CU_DEV_RESOURCE_TYPE_SM),
                 "cuDeviceGetDevResource");
    check_driver(BENCH_DRIVER(cuDevSmResourceSplitByCount, 12040)(&parts[0], &groups, &all,
                                                                  &parts[1], 0, first_sms),
                 "cuDevSmResourceSplitByCount");
    int least = 0;
    int greatest = 0;
    BENCH_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (int i = 0; i < 2; ++i) {
      CUdevResourceDesc description{};
      check_driver(BENCH_DRIVER(cuDevResourceGenerateDesc, 12040)(&description, &parts[i], 1),
                   "cuDevResourceGenerateDesc");
      check_driver(BENCH_DRIVER(cuGreenCtxCreate, 12040)(&contexts_[i], description, device,
                                                         CU_GREEN_CTX_DEFAULT_STREAM),
                   "cuGreenCtxCreate");
      check_driver(
          BENCH_DRIVER(cuGreenCtxStreamCreate, 12050)(
              &streams_[i], contexts_[i], CU_STREAM_NON_BLOCKING, i == 0 ? greatest : least),
          "cuGreenCtxStreamCreate");
      sms_[i] = parts[i].sm.smCount;
    }
  }
  green_pair(const green_pair&) = delete;
  green_pair& operator=(const green_pair&) = delete;
  ~green_pair() {
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(cudaStreamDestroy(streams_[i]));
      static_cast<void>(BENCH_DRIVER(cuGreenCtxDestroy, 12040)(contexts_[i]));
    }
  }
  /// 0: the first set, in the highest stream priority; 1: the rest, in the lowest.
  [[nodiscard]] cudaStream_t stream(int i) const { return streams_[i]; }
  [[nodiscard]] unsigned sms(int i) const { return sms_[i]; }

 private:
  CUgreenCtx contexts_[2] = {};
  CUstream streams_[2] = {};
  unsigned sms_[2] = {};
};

}  // namespace bench::scheduler
