// SPDX-License-Identifier: Apache-2.0
// Grid, block, dynamic shared bytes and cluster of a launch, range-checked as they are made.
#pragma once

#include <cede/config.hpp>

#include <cstdint>

#if !CEDE_RTC
#include <cede/error.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#endif

CEDE_BEGIN_NAMESPACE

/// Three unsigned coordinates, as a body sees them.
struct index3 {
  std::uint32_t x = 0;  ///< from 0
  std::uint32_t y = 0;  ///< from 0
  std::uint32_t z = 0;  ///< from 0
#if !CEDE_RTC
  /// Axis by axis.
  friend constexpr bool operator==(const index3&, const index3&) = default;
#endif
};

#if !CEDE_RTC

namespace detail {
__extension__ typedef unsigned __int128 uint128;  // not ISO C++, as -Wpedantic would say

template <class T>
concept extent_integer = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

template <class T>
concept dim3_like = requires(const T& d) {
  { d.x } -> std::convertible_to<std::uint64_t>;
  { d.y } -> std::convertible_to<std::uint64_t>;
  { d.z } -> std::convertible_to<std::uint64_t>;
};

template <extent_integer T>
constexpr std::uint64_t checked_extent(T value, const char* axis) {
  if (std::cmp_less(value, 1)) {
    throw invalid_argument(std::string("extent.") + axis + " is " + std::to_string(value) +
                           "; every axis of a grid, block or cluster is at least 1");
  }
  return static_cast<std::uint64_t>(value);
}
}  // namespace detail

/// Up to three axes of 64 bits each: made from one integer of any type, from `{x, y, z}`, or from
/// anything with members x, y, z such as `dim3`. Zero and negative values throw `invalid_argument`.
/// Thread-safe as a value; never waits.
struct extent {
  std::uint64_t x = 1;  ///< at least 1
  std::uint64_t y = 1;  ///< at least 1
  std::uint64_t z = 1;  ///< at least 1

  /// One element.
  constexpr extent() = default;
  /// One axis. Throws `invalid_argument` below 1.
  template <detail::extent_integer X>
  constexpr extent(X x_)
      : x(detail::checked_extent(x_, "x")) {}  // NOLINT(google-explicit-constructor)
  /// Two or three axes. Throws `invalid_argument` if one is below 1.
  template <detail::extent_integer X, detail::extent_integer Y, detail::extent_integer Z = int>
  constexpr extent(X x_, Y y_, Z z_ = 1)
      : x(detail::checked_extent(x_, "x")),
        y(detail::checked_extent(y_, "y")),
        z(detail::checked_extent(z_, "z")) {}
  /// The axes of a `dim3` or its like. Throws `invalid_argument` if one is below 1.
  template <detail::dim3_like D>
    requires(!std::same_as<D, extent>)
  constexpr extent(const D& d) : extent(d.x, d.y, d.z) {}  // NOLINT(google-explicit-constructor)

  /// Refused in words: `.grid = std::ceil(n / 256.0)` compiles where `dim3` is asked for.
  template <class T>
    requires(std::floating_point<T> || std::same_as<T, bool>)
  constexpr extent(T) {  // NOLINT(google-explicit-constructor)
    static_assert(
        sizeof(T) == 0,
        "cede: an extent is made from integers, not from a fraction or a bool; round with "
        "integers, as in (n + 255) / 256");
  }

  /// Axis by axis.
  friend constexpr bool operator==(const extent&, const extent&) = default;

  /// Product of the axes, or `invalid_argument` if it passes 64 bits.
  [[nodiscard]] constexpr std::uint64_t count() const {
    const auto product = static_cast<detail::uint128>(x) * y;
    if ((product >> 64) != 0 || ((product * z) >> 64) != 0) {
      throw invalid_argument("extent " + text() + " holds more than 2^64 - 1 elements");
    }
    return static_cast<std::uint64_t>(product * z);
  }
  /// "{x, y, z}", for messages.
  [[nodiscard]] std::string text() const {
    return "{" + std::to_string(x) + ", " + std::to_string(y) + ", " + std::to_string(z) + "}";
  }
};

/// What a launch asks for. `grid` counts tiles, `block` threads of a tile, `shared` bytes of
/// dynamic shared memory of a tile, `cluster` tiles of a thread-block cluster. Nothing is checked
/// against a device here: `validate` does, when the device is known.
struct shape {
  extent grid{};           ///< tiles
  extent block{};          ///< threads of a tile
  std::size_t shared = 0;  ///< bytes of dynamic shared memory of a tile
  extent cluster{};        ///< tiles of a thread-block cluster; 1: none

  /// Of the launch. Throws `invalid_argument` past 64 bits.
  [[nodiscard]] constexpr std::uint64_t tiles() const { return grid.count(); }
  /// Of a tile. Throws `invalid_argument` past 64 bits.
  [[nodiscard]] constexpr std::uint64_t threads() const { return block.count(); }
  /// Member by member.
  friend constexpr bool operator==(const shape&, const shape&) = default;
};

/// The limits of a device a shape is held against; the CUDA ones are the defaults.
struct shape_limits {
  /// Most tiles along each axis.
  extent grid{std::uint64_t{2147483647}, std::uint64_t{65535}, std::uint64_t{65535}};
  extent block{1024, 1024, 64};                 ///< most threads of a tile along each axis
  std::uint64_t threads = 1024;                 ///< most threads of a tile
  std::size_t shared = std::size_t{48} * 1024;  ///< dynamic + static bytes a block may have
};

/// Throws `invalid_argument`, naming the launch, the axis and the limit, if `s` does not fit or an
/// axis is zero.
/// Thread-safe; never waits.
constexpr void validate(const shape& s, const shape_limits& limits, std::string_view launch) {
  // An extent is made of axes of at least 1, but its members are open to assignment.
  auto not_zero = [&](const extent& e, const char* what) {
    if (e.x == 0 || e.y == 0 || e.z == 0) {
      throw invalid_argument("launch of " + std::string(launch) + ": " + what + " is " + e.text() +
                             "; every axis of a grid, block or cluster is at least 1");
    }
  };
  not_zero(s.grid, "grid");
  not_zero(s.block, "block");
  not_zero(s.cluster, "cluster");
  auto check = [&](std::uint64_t value, std::uint64_t limit, const char* what) {
    if (value > limit) {
      throw invalid_argument("launch of " + std::string(launch) + ": " + what + " is " +
                             std::to_string(value) + ", the device allows " +
                             std::to_string(limit));
    }
  };
  check(s.grid.x, limits.grid.x, "grid.x");
  check(s.grid.y, limits.grid.y, "grid.y");
  check(s.grid.z, limits.grid.z, "grid.z");
  check(s.block.x, limits.block.x, "block.x");
  check(s.block.y, limits.block.y, "block.y");
  check(s.block.z, limits.block.z, "block.z");
  check(s.threads(), limits.threads, "the number of threads of a block");
  check(s.shared, limits.shared, "shared memory per block in bytes");
  if (s.grid.x % s.cluster.x != 0 || s.grid.y % s.cluster.y != 0 || s.grid.z % s.cluster.z != 0) {
    throw invalid_argument("launch of " + std::string(launch) + ": grid " + s.grid.text() +
                           " is not a multiple of cluster " + s.cluster.text() +
                           "; round the grid up and leave surplus tiles early");
  }
}

#endif

CEDE_END_NAMESPACE
