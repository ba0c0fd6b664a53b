// SPDX-License-Identifier: Apache-2.0
#include "training.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

#include "training_bodies.hpp"

namespace colocate {

std::uint64_t digest(const std::vector<float>& weights) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += digest_of(static_cast<std::uint32_t>(i), weights[i]);
  }
  return sum;
}

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 17> digits;
  std::snprintf(digits.data(), digits.size(), "%016llx", static_cast<unsigned long long>(value));
  return digits.data();
}

}  // namespace colocate
