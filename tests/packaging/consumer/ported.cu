// SPDX-License-Identifier: Apache-2.0
// A kernel as it is, with the single header: its port region is opened and closed by including that
// again. Compiled and linked; it runs where a GPU is.
#include <cede/cede.hpp>

#define CEDE_PORT_BEGIN
#include <cede/cede.hpp>
__global__ void twice(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }
#define CEDE_PORT_END
#include <cede/cede.hpp>

// The words mean again what they meant, and a second region opens.
__global__ void as_ever(float* y) { y[blockIdx.x] = 0; }

#define CEDE_PORT_BEGIN
#include <cede/cede.hpp>
__global__ void thrice(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] *= 3; }
#define CEDE_PORT_END
#include <cede/cede.hpp>

int main() {
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return 0;
  float* y = nullptr;
  if (cudaMallocManaged(&y, sizeof *y) != cudaSuccess) return 1;
  as_ever<<<1, 1>>>(y);
  if (cudaDeviceSynchronize() != cudaSuccess) return 1;
  *y = 7;
  cede::scheduler gpu;
  cede::stream t = gpu.workload({.name = "train", .priority = cede::best_effort}).stream();
  t.launch({.grid = 1, .block = 1}, cede::body<twice>, y);
  t.launch({.grid = 1, .block = 1}, cede::body<thrice>, y);
  t.synchronize();
  return *y == 42 ? 0 : 1;
}
