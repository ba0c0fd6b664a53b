// SPDX-License-Identifier: Apache-2.0
// The product that the tensor-core body is held against, by NVIDIA's library.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace bench {

/// C = A B^T in bfloat16 with sums in single precision; A [m][k], B [n][k], C [m][n] by rows.
class cublas_product {
 public:
  /// Throws where the library cannot be used.
  explicit cublas_product(cudaStream_t stream);
  cublas_product(const cublas_product&) = delete;
  cublas_product& operator=(const cublas_product&) = delete;
  ~cublas_product();
  /// False where the program was built without the library.
  static bool available();
  /// The products to come go to this stream.
  void use(cudaStream_t stream);
  void run(std::uint32_t m, std::uint32_t n, std::uint32_t k, const std::uint16_t* a,
           const std::uint16_t* b, std::uint16_t* c);

 private:
  struct library;
  std::unique_ptr<library> library_;
};

}  // namespace bench
