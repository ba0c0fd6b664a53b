// SPDX-License-Identifier: Apache-2.0
// Numbers that depend on a seed and a position only: the CPU and the GPU fill an array alike.
#pragma once

#include <cede/config.hpp>

#include <cstdint>

namespace bench {

CEDE_BODY inline std::uint32_t scramble(std::uint32_t x) {
  x ^= x >> 16U;
  x *= 0x7feb352dU;
  x ^= x >> 15U;
  x *= 0x846ca68bU;
  return x ^ (x >> 16U);
}

/// 32 random bits for position `i`.
CEDE_BODY inline std::uint32_t random_bits(std::uint64_t i, std::uint32_t seed) {
  const auto low = static_cast<std::uint32_t>(i);
  const auto high = static_cast<std::uint32_t>(i >> 32U);
  return scramble(low ^ scramble(high ^ scramble(seed)));
}

/// Uniform in [0, 1), in steps of 2^-24.
CEDE_BODY inline float unit_interval(std::uint32_t bits) {
  return static_cast<float>(bits >> 8U) * (1.0F / 16777216.0F);
}

CEDE_BODY inline float random_float(std::uint64_t i, std::uint32_t seed, float low, float high) {
  return low + (high - low) * unit_interval(random_bits(i, seed));
}

/// A bfloat16 is the upper half of a float; rounded to nearest even.
CEDE_BODY inline std::uint16_t to_bfloat16(float v) {
  union {
    float f;
    std::uint32_t u;
  } w{v};
  return static_cast<std::uint16_t>((w.u + 0x7fffU + ((w.u >> 16U) & 1U)) >> 16U);
}
CEDE_BODY inline float from_bfloat16(std::uint16_t v) {
  union {
    std::uint32_t u;
    float f;
  } w{static_cast<std::uint32_t>(v) << 16U};
  return w.f;
}

}  // namespace bench
