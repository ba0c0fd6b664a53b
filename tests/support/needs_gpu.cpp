// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "support/skip.hpp"

std::string cede_test::missing() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess) return std::string("no CUDA device: ") + cudaGetErrorString(status);
  return devices > 0 ? "" : "no CUDA device";
}
