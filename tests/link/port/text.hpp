// SPDX-License-Identifier: Apache-2.0
// Text of kernels that both translation units port: one template, one function of each one's own.
template <class T>
__global__ void shared_kernel(T* p, int n) {
  if (static_cast<int>(blockIdx.x) < n) p[blockIdx.x] = static_cast<T>(gridDim.x);
}
static __global__ void own_kernel(int* p) { p[blockIdx.x] = CEDE_TEST_NUMBER; }
