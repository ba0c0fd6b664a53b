// SPDX-License-Identifier: Apache-2.0
// Extents and shapes: what they are made from, and what they refuse.
#include <cede/error.hpp>
#include <cede/shape.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace {

struct three {
  unsigned x, y, z;
};

}  // namespace

TEST_CASE("an extent comes from one integer of any type") {
  CHECK(cede::extent(7) == cede::extent(7U, 1, 1));
  CHECK(cede::extent(std::size_t{1} << 40U).x == std::uint64_t{1} << 40U);
  CHECK(cede::extent(static_cast<short>(3)).count() == 3);
}

TEST_CASE("an extent comes from several integers and from anything like dim3") {
  const cede::extent e{4, 5L, 6U};
  CHECK(e.count() == 120);
  CHECK(cede::extent(three{2, 3, 4}) == cede::extent(2, 3, 4));
  const cede::shape s{.grid = {8, 2}, .block = three{32, 4, 1}};
  CHECK(s.tiles() == 16);
  CHECK(s.threads() == 128);
}

TEST_CASE("an extent that is zero or negative is refused in words that name the axis") {
  CHECK_THROWS_WITH_AS(cede::extent(0), doctest::Contains("extent.x is 0"), cede::invalid_argument);
  CHECK_THROWS_WITH_AS(cede::extent(1, -4), doctest::Contains("extent.y is -4"),
                       cede::invalid_argument);
  CHECK_THROWS_WITH_AS(cede::extent(1, 1, 0), doctest::Contains("extent.z is 0"),
                       cede::invalid_argument);
}

TEST_CASE("a size that would wrap is refused, not wrapped") {
  const auto huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(cede::extent(huge).count() == huge);
  CHECK_THROWS_AS(static_cast<void>(cede::extent(huge, 2).count()), cede::invalid_argument);
  CHECK_THROWS_AS(static_cast<void>(cede::extent(1ULL << 32U, 1ULL << 31U, 2).count()),
                  cede::invalid_argument);
}

TEST_CASE("the largest grid CUDA allows has a 64-bit number of tiles") {
  const cede::shape s{.grid = {2147483647, 65535, 65535}, .block = 32};
  CHECK(s.tiles() == 2147483647ULL * 65535 * 65535);
  CHECK_NOTHROW(cede::validate(s, {}, "largest"));
}

TEST_CASE("validate names the launch, the axis, the value and the limit") {
  const cede::shape_limits limits{};
  const auto refused = [&](const cede::shape& s, const char* words) {
    CHECK_THROWS_WITH_AS(cede::validate(s, limits, "mine"), doctest::Contains(words),
                         cede::invalid_argument);
  };
  refused({.grid = 2147483648ULL}, "launch of mine: grid.x is 2147483648");
  refused({.grid = {1, 65536}}, "grid.y is 65536, the device allows 65535");
  refused({.grid = {1, 1, 65536}}, "grid.z");
  refused({.grid = 1, .block = 1025}, "block.x");
  refused({.grid = 1, .block = {32, 33}}, "number of threads of a block is 1056");
  refused({.grid = 1, .block = {1, 1, 65}}, "block.z");
  refused({.grid = 1, .block = 1, .shared = std::size_t{1} << 20U}, "shared memory");
  refused({.grid = 10, .block = 1, .cluster = 4}, "not a multiple of cluster");
}

TEST_CASE("validate refuses an axis that was set to zero afterwards") {
  for (auto part : {&cede::shape::grid, &cede::shape::block, &cede::shape::cluster}) {
    for (auto axis : {&cede::extent::x, &cede::extent::y, &cede::extent::z}) {
      cede::shape s{.grid = 8, .block = 8};
      (s.*part).*axis = 0;
      CHECK_THROWS_WITH_AS(cede::validate(s, {}, "mine"),
                           doctest::Contains("every axis of a grid, block or cluster is at least"),
                           cede::invalid_argument);
    }
  }
}
