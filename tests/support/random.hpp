// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine and cheap to seed (splitmix64).
#pragma once

#include <cstdint>

namespace cede_test {

class random {
 public:
  explicit random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  /// 0 to n - 1; n is small enough for the bias not to matter.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// From 0 up to, not including, 1.
  double unit() { return static_cast<double>(next() >> 11U) * 0x1.0p-53; }
  bool chance(double p) { return unit() < p; }

 private:
  std::uint64_t state_;
};

}  // namespace cede_test
