// SPDX-License-Identifier: Apache-2.0
// The language model cut for a GPU: 155 GFLOP a step, in tiles of about 0.5 MFLOP.
#include "language_model.hpp"

namespace colocate {
namespace {

struct training_on_cuda {
  // An SM works through some 0.25 to 0.35 TFLOP/s of such products: with four workers per SM a tile
  // of 64 x 64 x 64 takes about 10 us.
  using tile = product_tile<64, 64, 8, 4, 4>;
  static constexpr place where = place::cuda;
  static constexpr std::uint32_t embedding = 8;
  static constexpr std::uint32_t hidden = 2048;
  static constexpr std::uint32_t batch = 65536;
  static constexpr std::uint32_t chunk = 64;
  static constexpr std::uint32_t group = 32;
  static constexpr std::uint32_t threads = training_threads;
  static constexpr std::uint32_t per_tile = 4 * training_threads;
  static constexpr double rate = 0.002;
  static constexpr std::uint32_t most_steps = 1U << 20U;
};

}  // namespace

std::unique_ptr<training> make_cuda_training(const std::string& text, std::uint64_t seed) {
  return std::make_unique<language_model<training_on_cuda>>(text, seed);
}

}  // namespace colocate
