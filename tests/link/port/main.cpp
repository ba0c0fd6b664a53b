// SPDX-License-Identifier: Apache-2.0
// Two translation units with port regions in one program; nothing runs on a GPU.
#include "units.hpp"

#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <string>

TEST_CASE("a template ported in two translation units is one body") {
  const told a = first();
  const told b = second();
  CHECK(a.shared_256 == b.shared_256);
  CHECK(a.shared_1024 == b.shared_1024);
  CHECK(a.shared_256 != a.shared_1024);
  CHECK(a.own != b.own);
}

TEST_CASE("an entry of a ported kernel says what it is") {
  const told a = first();
  for (const auto* k : {a.shared_256, a.shared_1024, a.own}) {
    CHECK(k->traits.native);
    CHECK((k->host_run == nullptr));
    REQUIRE(k->cuda != nullptr);
    CHECK(k->cuda->native != nullptr);
    CHECK(k->cuda->gated != nullptr);
    CHECK(k->cuda->persistent == nullptr);
    CHECK(k->cuda->closing != nullptr);
    CHECK(k->cuda->split);
  }
  CHECK(a.shared_256->traits.max_threads == 256);
  CHECK(a.shared_1024->traits.max_threads == 1024);
  CHECK(a.shared_256->cuda->gated != a.shared_1024->cuda->gated);
  CHECK(std::string(a.shared_256->name).find("shared_kernel") != std::string::npos);
  REQUIRE(a.shared_256->cuda->parameters.size() == 2);
  CHECK(a.shared_256->cuda->parameters[0] == 0);
  CHECK(a.shared_256->cuda->parameters[1] == sizeof(void*));
}

TEST_CASE("arguments take the types of the kernel's parameters") {
  const converted c = convert();
  CHECK(c.a == 2.5F);
  CHECK(c.b == 7);
  CHECK(c.c == 'A');
  CHECK(c.bytes == 12);
}

TEST_CASE("the host device refuses a ported kernel in words") {
  const cede::detail::kernel_entry& k = *first().own;
  CHECK_THROWS_WITH_AS(cede::detail::check_host_code(k), doctest::Contains("has no host code"),
                       cede::not_supported);
}
