// SPDX-License-Identifier: Apache-2.0
// The transformer block cut for CPU threads: tiles of one thread, which need no barriers.
#include "transformer.hpp"

namespace colocate {
namespace {

struct service_on_host {
  using tile = product_tile<32, 32, 32, 32, 1>;
  static constexpr place where = place::host;
  static constexpr service_size size{.width = 32, .heads = 2, .inner = 128};
  static constexpr std::uint32_t threads = 1;
  static constexpr std::uint32_t per_tile = 4096;
  static constexpr std::uint32_t tiles_wanted = 4;
};

}  // namespace

std::unique_ptr<service> make_host_service(const std::vector<std::uint32_t>& lengths,
                                           std::uint64_t seed) {
  return std::make_unique<transformer<service_on_host>>(lengths, seed);
}

}  // namespace colocate
