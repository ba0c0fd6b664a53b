// SPDX-License-Identifier: Apache-2.0
// A function of the region that stays a function; it does not assemble, and the check says why.
// port-check: expect ^calls_it\(int\*\) has a function that reads blockIdx, .* \(in stays\(\),
// .*\); mark that function __forceinline__
#include <cede/cede.hpp>

#include <cede/port/begin.hpp>
__device__ __noinline__ unsigned stays() { return blockIdx.x; }
__device__ unsigned small() { return blockIdx.x; }
__global__ void calls_it(int* p) { p[stays()] = 3; }
__global__ void calls_small(int* p) { p[small()] = 3; }
#include <cede/port/end.hpp>

void use(cede::stream& s, int* p) {
  s.launch({.grid = 4, .block = 32}, cede::body<calls_it>, p);
  s.launch({.grid = 4, .block = 32}, cede::body<calls_small>, p);
}
