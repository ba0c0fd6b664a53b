// SPDX-License-Identifier: Apache-2.0
// The latency-critical service: a transformer block that answers one of a few inputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "queue.hpp"

namespace colocate {

/// The largest difference between a value of an answer and the reference that still counts as
/// right. Answers are of the order of 1; sums run over thousands of products in single precision.
inline constexpr float answer_tolerance = 1e-3F;

struct service_size {
  std::uint32_t width;  ///< of the model
  std::uint32_t heads;
  std::uint32_t inner;  ///< width of the hidden layer of the MLP
};

class service {
 public:
  service(const service&) = delete;
  service& operator=(const service&) = delete;
  virtual ~service() = default;

  /// Computes the right answers, by other bodies than those that answer. Waits.
  virtual void make_references(queue& q) = 0;

  /// Launches the answer to one input. Does not wait.
  virtual void answer(queue& q, std::size_t input) = 0;

  /// How far the answer launched last is from its reference: valid once it is done. Infinity where
  /// a value is not a number or was not written.
  [[nodiscard]] virtual float error() const = 0;

  /// The answer launched last, copied to the host.
  [[nodiscard]] virtual std::vector<float> last_answer() const = 0;

 protected:
  service() = default;
};

/// `lengths`: of the inputs; all weights and inputs are drawn from `seed`.
std::unique_ptr<service> make_host_service(const std::vector<std::uint32_t>& lengths,
                                           std::uint64_t seed);
/// Only in programs built with CUDA.
std::unique_ptr<service> make_cuda_service(const std::vector<std::uint32_t>& lengths,
                                           std::uint64_t seed);

}  // namespace colocate
