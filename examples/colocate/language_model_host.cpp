// SPDX-License-Identifier: Apache-2.0
// The language model cut for CPU threads: small, with tiles of one thread, which need no barriers.
#include "language_model.hpp"

namespace colocate {
namespace {

struct training_on_host {
  using tile = product_tile<32, 32, 32, 32, 1>;
  static constexpr place where = place::host;
  static constexpr std::uint32_t embedding = 4;
  static constexpr std::uint32_t hidden = 64;
  static constexpr std::uint32_t batch = 512;
  static constexpr std::uint32_t chunk = 64;
  static constexpr std::uint32_t group = 8;
  static constexpr std::uint32_t threads = 1;
  static constexpr std::uint32_t per_tile = 2048;
  static constexpr double rate = 0.005;
  static constexpr std::uint32_t most_steps = 1U << 20U;
};

}  // namespace

std::unique_ptr<training> make_host_training(const std::string& text, std::uint64_t seed) {
  return std::make_unique<language_model<training_on_host>>(text, seed);
}

}  // namespace colocate
