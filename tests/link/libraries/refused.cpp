// SPDX-License-Identifier: Apache-2.0
// Libraries built against different versions of cede meet in one process: the later one is told.
// CEDE_TEST_OTHER: the name of the library that came first.
#include <doctest/doctest.h>

#include <string>

#include "load.hpp"

TEST_CASE("a library that cannot share the registry is refused in a sentence") {
  const void* registry = load(CEDE_TEST_OTHER).registry();
  for (const std::string& name : libraries()) {
    CAPTURE(name);
    const library& ours = load(name);
    CHECK(ours.registry() == registry);
    const char* why = "";
    CHECK(ours.open(0, &why) == -1);
    const std::string sentence = why;
    CAPTURE(sentence);
    CHECK(sentence.find("another library in this process uses cede " CEDE_TEST_SAYS) !=
          std::string::npos);
    CHECK(sentence.find("build both against one version") != std::string::npos);
  }
}
