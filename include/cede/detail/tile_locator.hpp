// SPDX-License-Identifier: Apache-2.0
// From a tile's number to its place in the grid, without a division.
#pragma once

#include <cede/config.hpp>
#include <cede/shape.hpp>

#include <cstdint>

#if !CEDE_RTC
#include <bit>
#endif

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Divides numbers below 2^31 by a constant: `n / d` is `n * multiply >> 31 + shift`, with `shift`
/// the number of bits of d - 1 and `multiply` = ceil(2^(31 + shift) / d). (Granlund and Montgomery,
/// "Division by invariant integers using multiplication", 1994: exact, because multiply * d exceeds
/// 2^(31 + shift) by less than 2^shift.)
struct reciprocal {
  std::uint32_t multiply = 1U << 31U;
  std::uint32_t shift = 31;  ///< 31 is included

#if !CEDE_RTC
  static constexpr reciprocal of(std::uint32_t d) {
    const auto bits = static_cast<std::uint32_t>(std::bit_width(d - 1));
    const std::uint64_t numerator = std::uint64_t{1} << (31 + bits);
    return {static_cast<std::uint32_t>((numerator + d - 1) / d), 31 + bits};
  }
#endif
  [[nodiscard]] CEDE_BODY constexpr std::uint32_t divide(std::uint32_t n) const {
    return static_cast<std::uint32_t>((std::uint64_t{n} * multiply) >> shift);
  }
};

/// The same for numbers below 2^63. `multiply` = floor(2^64 / d), at most 2^64 - 1: the high half
/// of the product is the quotient or one less, since n / d - n * multiply / 2^64 <= n / 2^64 < 1/2.
struct wide_reciprocal {
  std::uint64_t multiply = ~std::uint64_t{0};
  std::uint32_t divisor = 1;

#if !CEDE_RTC
  static constexpr wide_reciprocal of(std::uint32_t d) {
    constexpr std::uint64_t most = ~std::uint64_t{0};
    return {d == 1 ? most : most / d + (most % d + 1 == d ? 1 : 0), d};
  }
#endif
  [[nodiscard]] CEDE_BODY constexpr std::uint64_t divide(std::uint64_t n) const {
#if defined(__CUDA_ARCH__)
    const std::uint64_t q = __umul64hi(n, multiply);
#else
    __extension__ using wide_product = unsigned __int128;
    const auto q = static_cast<std::uint64_t>((wide_product{n} * multiply) >> 64U);
#endif
    return n - q * divisor < divisor ? q : q + 1;
  }
};

/// Places of tiles in a grid, x fastest. What a body does not read of the result costs nothing: the
/// compiler leaves it out.
struct tile_locator {
  index3 grid{1, 1, 1};
  reciprocal by_x;
  reciprocal by_y;
  bool wide = false;  ///< 2^31 tiles and more
  wide_reciprocal wide_by_x;
  wide_reciprocal wide_by_y;

#if !CEDE_RTC
  static constexpr tile_locator of(const extent& e) {
    const auto x = static_cast<std::uint32_t>(e.x);
    const auto y = static_cast<std::uint32_t>(e.y);
    const auto z = static_cast<std::uint32_t>(e.z);
    const std::uint64_t lines = std::uint64_t{y} * z;
    return {{x, y, z},
            reciprocal::of(x),
            reciprocal::of(y),
            x > ((std::uint64_t{1} << 31U) - 1) / lines,
            wide_reciprocal::of(x),
            wide_reciprocal::of(y)};
  }
#endif

  [[nodiscard]] CEDE_BODY constexpr index3 locate(std::uint64_t tile) const {
    if (wide) {
      const std::uint64_t line = wide_by_x.divide(tile);
      const std::uint64_t layer = wide_by_y.divide(line);
      return {static_cast<std::uint32_t>(tile - line * grid.x),
              static_cast<std::uint32_t>(line - layer * grid.y), static_cast<std::uint32_t>(layer)};
    }
    const auto number = static_cast<std::uint32_t>(tile);
    const std::uint32_t line = by_x.divide(number);
    const std::uint32_t layer = by_y.divide(line);
    return {number - line * grid.x, line - layer * grid.y, layer};
  }
};

}  // namespace detail

CEDE_END_NAMESPACE
