// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of cede loads libraries that use it, each without seeing the others.
#include <doctest/doctest.h>

#include <string>

#include "load.hpp"

TEST_CASE("libraries loaded side by side share one registry") {
  const void* registry = load("first").registry();
  CHECK(registry != nullptr);
  for (const std::string& name : libraries()) CHECK(load(name).registry() == registry);
}

TEST_CASE("the scheduler of one library is found by the others") {
  constexpr int number = 17;  // no machine has that many GPUs
  const library& first = load("first");
  const char* why = nullptr;
  CHECK(load("second").open(number, &why) == -1);
  first.enter(number);
  int workloads = 0;
  for (const std::string& name : libraries()) CHECK(load(name).open(number, &why) == ++workloads);
  first.leave();
  // It was shared, not kept alive.
  CHECK(load("second").open(number, &why) == -1);
}

TEST_CASE("a library without a CUDA part uses that of another") {
#if CEDE_TEST_NVCC
  constexpr int number = 17;
  const char* why = nullptr;
  // Before third is loaded this would be "no CUDA part"; the order of the cases does not matter,
  // since the last word is the driver's.
  static_cast<void>(load("third"));
  CHECK(load("first").open(number, &why) == -1);
  const std::string sentence = why;
  CAPTURE(sentence);
  CHECK(sentence.find("this program has no CUDA part") == std::string::npos);
#else
  const char* why = nullptr;
  CHECK(load("first").open(17, &why) == -1);
  CHECK(std::string(why).find("this program has no CUDA part") != std::string::npos);
#endif
}
