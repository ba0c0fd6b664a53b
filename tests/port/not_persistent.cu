// SPDX-License-Identifier: Apache-2.0
// A barrier with a result, in a kernel that is declared fit for persistent workers.
// port-check: expect ^any_odd\(int\*\) uses __syncthreads_or, _and or _count in persistent workers
// .*; do not declare it persistent_safe
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__global__ void any_odd(int* p) {
  const int any = __syncthreads_or(p[blockIdx.x * blockDim.x + threadIdx.x] & 1);
  if (threadIdx.x == 0) p[blockIdx.x] = any;
}
__global__ void all_odd(int* p) {
  const int all = __syncthreads_and(p[blockIdx.x * blockDim.x + threadIdx.x] & 1);
  if (threadIdx.x == 0) p[blockIdx.x] = all;
}
#include <cede/port/end.hpp>

void use(cede::stream& s, int* p) {
  s.launch({.grid = 4, .block = 32},
           cede::body<any_odd, cede::kernel_traits{.persistent_safe = true}>, p);
  s.launch({.grid = 4, .block = 32}, cede::body<all_odd>, p);  // native blocks
}
