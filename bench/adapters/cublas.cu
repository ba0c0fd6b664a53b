// SPDX-License-Identifier: Apache-2.0
#include "adapters/cublas.hpp"

#include <stdexcept>
#include <string>

#if BENCH_CUBLAS
#include <cublas_v2.h>
#endif

namespace bench {

#if BENCH_CUBLAS

namespace {
void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw std::runtime_error(std::string(call) + " failed: " + cublasGetStatusString(status));
}
}  // namespace

struct cublas_product::library {
  cublasHandle_t handle = nullptr;
};

cublas_product::cublas_product(cudaStream_t stream) : library_(std::make_unique<library>()) {
  check(cublasCreate(&library_->handle), "cublasCreate");
  check(cublasSetStream(library_->handle, stream), "cublasSetStream");
}
cublas_product::~cublas_product() { static_cast<void>(cublasDestroy(library_->handle)); }
bool cublas_product::available() { return true; }
void cublas_product::use(cudaStream_t stream) {
  check(cublasSetStream(library_->handle, stream), "cublasSetStream");
}

void cublas_product::run(std::uint32_t m, std::uint32_t n, std::uint32_t k, const std::uint16_t* a,
                         const std::uint16_t* b, std::uint16_t* c) {
  const float one = 1;
  const float zero = 0;
  const int rows = static_cast<int>(m);
  const int columns = static_cast<int>(n);
  const int deep = static_cast<int>(k);
  // By columns, as the library sees memory: C^T = B A^T.
  check(cublasGemmEx(library_->handle, CUBLAS_OP_T, CUBLAS_OP_N, columns, rows, deep, &one, b,
                     CUDA_R_16BF, deep, a, CUDA_R_16BF, deep, &zero, c, CUDA_R_16BF, columns,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
}

#else

struct cublas_product::library {};
cublas_product::cublas_product(cudaStream_t) {
  throw std::runtime_error("built without cuBLAS, which was not found");
}
cublas_product::~cublas_product() = default;
bool cublas_product::available() { return false; }
void cublas_product::use(cudaStream_t) {}
void cublas_product::run(std::uint32_t, std::uint32_t, std::uint32_t, const std::uint16_t*,
                         const std::uint16_t*, std::uint16_t*) {}

#endif

}  // namespace bench
