// SPDX-License-Identifier: Apache-2.0
// Parts of the host device that need no thread: counting blocks, faults.
#include <cede/detail/host_faults.hpp>
#include <cede/detail/host_kernel.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>
#include <thread>
#include <vector>

#include "host_fixture.hpp"

namespace {

namespace detail = cede::detail;

struct nothing {
  void operator()(cede::block) const {}
};

}  // namespace

TEST_CASE("the blocks of a kernel end once, in whatever portions they are counted") {
  detail::host_kernel k(cede_test::native(nothing{}, {.grid = 10}));
  CHECK_FALSE(k.end(3));
  CHECK_FALSE(k.end(6));
  CHECK(k.end(1));
}

TEST_CASE("blocks are started once each, by however many SMs") {
  detail::host_kernel k(cede_test::native(nothing{}, {.grid = 20000}));
  std::vector<int> started(20000);
  std::vector<std::thread> sms;
  for (int i = 0; i < 3; ++i) {
    sms.emplace_back([&] {
      for (auto b = k.start(); b < 20000; b = k.start()) ++started[b];
    });
  }
  for (auto& t : sms) t.join();
  CHECK(k.all_started());
  for (int n : started) REQUIRE(n == 1);
}

TEST_CASE("the first failure is the one that is told") {
  detail::host_health health;
  health.fail(1, "copy", "first");
  health.fail(2, "fill", "second");
  CHECK_THROWS_WITH_AS(health.check(), doctest::Contains("first"), cede::device_error);
}

TEST_CASE("a call that is refused throws by itself, numbered among those of its name") {
  detail::host_injector injector(
      [](std::string_view, std::uint64_t nth) { return nth == 1 ? 2 : 0; }, {});
  CHECK_THROWS_AS(injector.refuse("words", true), cede::out_of_memory);
  CHECK_NOTHROW(injector.refuse("words", true));
  CHECK_THROWS_WITH_AS(injector.refuse("submit"), doctest::Contains("call 1 of submit"),
                       cede::device_error);
}
