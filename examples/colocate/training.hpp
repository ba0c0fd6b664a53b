// SPDX-License-Identifier: Apache-2.0
// The best-effort training: a character-level language model that predicts the next symbol of a
// text.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "queue.hpp"

namespace colocate {

/// Everything a training run amounts to after some steps.
struct training_state {
  std::vector<float> weights;
  std::vector<float> averages;  ///< of the gradients
  std::vector<float> squares;   ///< averages of their squares
  std::vector<double> losses;   ///< of every step
  std::vector<std::uint64_t>
      digests;  ///< of the weights after every step, worked out as they were written
};

/// Same seed, same text: the weights after n steps are the same bits, whatever ran beside.
class training {
 public:
  training(const training&) = delete;
  training& operator=(const training&) = delete;
  virtual ~training() = default;

  /// Launches one step. Does not wait. No more than `most_steps` from the first weights on.
  virtual void step(queue& q) = 0;
  [[nodiscard]] virtual std::uint32_t most_steps() const = 0;

  /// After the steps launched so far, which must be done. Waits for the device.
  [[nodiscard]] virtual training_state state() const = 0;
  /// Goes on from a state, or from the first weights. All steps launched must be done. Waits for
  /// the device.
  virtual void restore(const training_state& s) = 0;
  virtual void restart() = 0;

 protected:
  training() = default;
};

/// The digest of weights, worked out on the host: what the last of a state's `digests` must be.
std::uint64_t digest(const std::vector<float>& weights);

/// 16 hexadecimal digits.
std::string hexadecimal(std::uint64_t value);

std::unique_ptr<training> make_host_training(const std::string& text, std::uint64_t seed);
/// Only in programs built with CUDA.
std::unique_ptr<training> make_cuda_training(const std::string& text, std::uint64_t seed);

}  // namespace colocate
