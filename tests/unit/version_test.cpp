// SPDX-License-Identifier: Apache-2.0
#include <cede/config.hpp>

#include <doctest/doctest.h>

TEST_CASE("the version is one number that orders releases") {
  CHECK(CEDE_VERSION == CEDE_VERSION_MAJOR * 10000 + CEDE_VERSION_MINOR * 100 + CEDE_VERSION_PATCH);
}
