// SPDX-License-Identifier: Apache-2.0
#include <cede/detail/tile_locator.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>

namespace {

using cede::index3;
using cede::detail::reciprocal;
using cede::detail::tile_locator;
using cede::detail::wide_reciprocal;

constexpr std::uint32_t largest_number = (1U << 31U) - 1;

}  // namespace

TEST_CASE("a reciprocal divides as division does") {
  for (std::uint32_t d = 1; d < 2000; ++d) {
    const reciprocal r = reciprocal::of(d);
    for (std::uint32_t n = 0; n < 2 * d + 2; ++n) REQUIRE(r.divide(n) == n / d);
    for (std::uint32_t k = 0; k < 3; ++k) {
      const std::uint32_t n = largest_number - k;
      REQUIRE(r.divide(n) == n / d);
      // Around the last multiple, where an inexact one goes wrong first.
      const std::uint32_t m = largest_number / d * d;
      REQUIRE(r.divide(m) == m / d);
      REQUIRE(r.divide(m - 1) == (m - 1) / d);
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto d =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, random() >> (1 + random() % 31)));
    const auto n = static_cast<std::uint32_t>(random() >> 1U);
    REQUIRE(reciprocal::of(d).divide(n) == n / d);
    const std::uint32_t multiple = n / d * d;
    REQUIRE(reciprocal::of(d).divide(multiple) == multiple / d);
    if (multiple > 0) REQUIRE(reciprocal::of(d).divide(multiple - 1) == (multiple - 1) / d);
  }
  for (const std::uint32_t d : {largest_number, largest_number - 1, 1U << 30U, (1U << 30U) + 1}) {
    CHECK(reciprocal::of(d).divide(d - 1) == 0);
    CHECK(reciprocal::of(d).divide(d) == 1);
    CHECK(reciprocal::of(d).divide(largest_number) == largest_number / d);
  }
}

TEST_CASE("a wide reciprocal divides as division does, up to 2^63 - 1") {
  constexpr std::uint64_t largest = (std::uint64_t{1} << 63U) - 1;
  std::mt19937_64 random(2);
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const auto d =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, random() >> (33 + random() % 31)));
    const wide_reciprocal r = wide_reciprocal::of(d);
    for (const std::uint64_t n : {random() >> (1 + random() % 63), largest - i, random() % 100}) {
      REQUIRE(r.divide(n) == n / d);
      const std::uint64_t multiple = n / d * d;
      REQUIRE(r.divide(multiple) == multiple / d);
      if (multiple > 0) REQUIRE(r.divide(multiple - 1) == multiple / d - 1);
    }
  }
  for (const std::uint32_t d : {1U, 2U, 3U, 65535U, largest_number, ~0U, 1U << 31U}) {
    CHECK(wide_reciprocal::of(d).divide(0) == 0);
    CHECK(wide_reciprocal::of(d).divide(largest) == largest / d);
    CHECK(wide_reciprocal::of(d).divide(std::uint64_t{d} - 1) == 0);
  }
}

TEST_CASE("tiles are numbered x fastest") {
  const tile_locator l = tile_locator::of({3, 4, 5});
  CHECK_FALSE(l.wide);
  std::uint64_t tile = 0;
  for (std::uint32_t z = 0; z < 5; ++z) {
    for (std::uint32_t y = 0; y < 4; ++y) {
      for (std::uint32_t x = 0; x < 3; ++x) CHECK(l.locate(tile++) == index3{x, y, z});
    }
  }
}

TEST_CASE("grids of one axis, whichever it is") {
  CHECK(tile_locator::of({2147483647}).locate(2147483646) == index3{2147483646, 0, 0});
  CHECK(tile_locator::of({1, 65535, 1}).locate(65534) == index3{0, 65534, 0});
  CHECK(tile_locator::of({1, 1, 65535}).locate(65534) == index3{0, 0, 65534});
}

TEST_CASE("up to the largest grid") {
  const cede::extent largest{2147483647, 65535, 65535};
  const tile_locator l = tile_locator::of(largest);
  const std::uint64_t tiles = largest.count();
  CHECK(l.wide);
  CHECK(l.locate(0) == index3{0, 0, 0});
  CHECK(l.locate(2147483647) == index3{0, 1, 0});
  CHECK(l.locate(tiles - 1) == index3{2147483646, 65534, 65534});
  CHECK(l.locate(tiles - 2147483647) == index3{0, 65534, 65534});
  CHECK(l.locate(tiles - 2147483648) == index3{2147483646, 65533, 65534});
}

TEST_CASE("64-bit divisions begin where numbers no longer fit") {
  CHECK_FALSE(tile_locator::of({2147483647}).wide);
  CHECK_FALSE(tile_locator::of({32768, 65535, 1}).wide);
  const tile_locator l = tile_locator::of({32769, 65535, 1});  // 2^31 + 32767 tiles
  CHECK(l.wide);
  const std::uint64_t last = std::uint64_t{32769} * 65535 - 1;
  CHECK(l.locate(last) == index3{32768, 65534, 0});
  const tile_locator narrow = tile_locator::of({32768, 65535, 1});
  CHECK(narrow.locate(std::uint64_t{32768} * 65535 - 1) == index3{32767, 65534, 0});
}
