// SPDX-License-Identifier: Apache-2.0
// The transformer block cut for a GPU.
#include "transformer.hpp"

namespace colocate {
namespace {

struct service_on_cuda {
  // Small tiles: a request has few rows, and all SMs must get some.
  using tile = product_tile<32, 64, 4, 4, 6>;
  static constexpr place where = place::cuda;
  // The weights, 113 MB, are far larger than any L2: they come from memory in every request, with
  // or without company, so that company cannot be blamed for evicting them.
  static constexpr service_size size{.width = 1536, .heads = 24, .inner = 6144};
  static constexpr std::uint32_t threads = service_threads;
  static constexpr std::uint32_t per_tile = 4 * service_threads;
  static constexpr std::uint32_t tiles_wanted = 4 * 132;
};

}  // namespace

std::unique_ptr<service> make_cuda_service(const std::vector<std::uint32_t>& lengths,
                                           std::uint64_t seed) {
  return std::make_unique<transformer<service_on_cuda>>(lengths, seed);
}

}  // namespace colocate
