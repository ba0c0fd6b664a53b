// SPDX-License-Identifier: Apache-2.0
#include "plain_queue.hpp"

#include "cuda_check.hpp"

#if CEDE_EXAMPLE_CUDA

#include <atomic>
#include <thread>

#include <cuda.h>

namespace colocate {
namespace {

cudaStream_t make_stream(importance how) {
  int least = 0;
  int greatest = 0;
  COLOCATE_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  cudaStream_t stream = nullptr;
  COLOCATE_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                             how == importance::highest ? greatest : least));
  return stream;
}

using write_value = CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned);

// Through the runtime, so that nothing links the driver.
write_value find_write_value() {
  constexpr unsigned since = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  COLOCATE_CUDA(cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &function, since,
                                                 cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) {
    throw cede::not_supported("the CUDA driver has no cuStreamWriteValue64; it is too old");
  }
  return reinterpret_cast<write_value>(function);
}

}  // namespace

plain_queue::plain_queue(importance how)
    : queue(make_stream(how)), word_(place::cuda, 1, reach::both) {
  mark();  // the first one may need the device to itself
  wait();
}

plain_queue::~plain_queue() {
  (void)cudaStreamSynchronize(plain_);  // a failure was reported by whoever waited
  (void)cudaStreamDestroy(plain_);
}

std::uint64_t plain_queue::written() const {
  return std::atomic_ref<std::uint64_t>(*word_.data()).load(std::memory_order_acquire);
}

void plain_queue::check() const {
  const cudaError_t status = cudaStreamQuery(plain_);
  if (status != cudaErrorNotReady) check_cuda(status, "cudaStreamQuery");
  (void)cudaGetLastError();  // "not ready" is no error of the next launch
}

std::uint64_t plain_queue::mark() {
  static const write_value write = find_write_value();
  const CUresult status = write(plain_, reinterpret_cast<CUdeviceptr>(word_.data()), ++marks_, 0);
  if (status != CUDA_SUCCESS) {
    throw cede::device_error("cuStreamWriteValue64 failed", static_cast<int>(status),
                             "cuStreamWriteValue64");
  }
  return marks_;
}

bool plain_queue::wait_for(std::uint64_t point, std::chrono::nanoseconds limit) {
  constexpr std::chrono::microseconds between_polls{50};
  const auto end = steady::now() + limit;
  while (written() < point) {
    if (steady::now() >= end) {
      check();
      return written() >= point;
    }
    std::this_thread::sleep_for(between_polls);
  }
  return true;
}

void plain_queue::wait() {
  // The word alone is not enough: a device that failed never writes it.
  constexpr unsigned polls_between_checks = 1U << 20U;
  for (unsigned polls = 1; written() < marks_; ++polls) {
    if (polls % polls_between_checks == 0) check();
  }
}

void queue::launched(int status) {
  check_cuda(static_cast<cudaError_t>(status), "a kernel launch");
}

}  // namespace colocate

#endif
