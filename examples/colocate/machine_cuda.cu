// SPDX-License-Identifier: Apache-2.0
// The clock of the SMs, from two counters of the device: cycles and nanoseconds.
#include <cuda_runtime.h>

#include "cuda_check.hpp"
#include "machine.hpp"

namespace colocate {
namespace {

__device__ unsigned long long nanoseconds() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// Both counters over the same half millisecond.
__global__ void count(unsigned long long* out) {
  constexpr unsigned long long duration = 500'000;
  const unsigned long long begin = nanoseconds();
  const long long cycles = clock64();
  unsigned long long end = begin;
  while (end - begin < duration) end = nanoseconds();
  out[0] = static_cast<unsigned long long>(clock64() - cycles);
  out[1] = end - begin;
}

}  // namespace

double sm_clock_mhz(place where) {
  if (where != place::cuda) return 0.0;
  array<unsigned long long> counted(place::cuda, 2);
  count<<<1, 1>>>(counted.data());
  check_cuda(cudaGetLastError(), "a kernel launch");
  const auto values = counted.values();  // waits for the kernel
  return 1e3 * static_cast<double>(values[0]) / static_cast<double>(values[1]);
}

}  // namespace colocate
