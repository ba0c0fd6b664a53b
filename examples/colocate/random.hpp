// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every platform, unlike the standard library's distributions.
#pragma once

#include <cede/config.hpp>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace colocate {

/// The finaliser of SplitMix64: spreads every bit of `z` over the whole word.
CEDE_BODY constexpr std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31U);
}

/// The increment of SplitMix64: an odd number without pattern.
inline constexpr std::uint64_t golden = 0x9e3779b97f4a7c15ULL;

/// A SplitMix64 sequence and the distributions the example draws from.
class generator {
 public:
  explicit generator(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() { return mix(state_ += golden); }

  /// In (0, 1): never 0, so that a logarithm of it is finite.
  double uniform() { return (static_cast<double>(next() >> 11U) + 0.5) * 0x1p-53; }

  /// In [0, n), for n far below 2^53.
  std::uint64_t below(std::uint64_t n) {
    return static_cast<std::uint64_t>(uniform() * static_cast<double>(n));
  }

  /// Mean 1.
  double exponential() { return -std::log(uniform()); }

  /// Mean 0, variance 1 (Box and Muller; the second value is not kept).
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

  /// Mean `shape`, variance `shape` (Marsaglia and Tsang, 2000).
  double gamma(double shape) {
    if (shape < 1.0) return gamma(shape + 1.0) * std::pow(uniform(), 1.0 / shape);
    const double d = shape - 1.0 / 3.0;
    const double c = 1.0 / std::sqrt(9.0 * d);
    for (;;) {
      const double x = normal();
      const double v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x);
      if (v > 0.0 && std::log(uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace colocate
