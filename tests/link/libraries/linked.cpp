// SPDX-License-Identifier: Apache-2.0
// A program that knows nothing of cede is linked with libraries that use it, one of hidden and one
// of default visibility, and one by nvcc where there is one; another is loaded to itself.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "load.hpp"

extern "C" {
const library* linked_hidden();
const library* linked_default();
#if CEDE_TEST_NVCC
const library* linked_nvcc();
#endif
}

namespace {

std::vector<const library*> linked() {
  return {linked_hidden(), linked_default(),
#if CEDE_TEST_NVCC
          linked_nvcc(),
#endif
          &load("first")};
}

}  // namespace

TEST_CASE("linked libraries of any visibility and a loaded one share one registry") {
  const void* registry = linked_hidden()->registry();
  CHECK(registry != nullptr);
  for (const library* one : linked()) CHECK(one->registry() == registry);
}

TEST_CASE("whichever makes the scheduler, the others get it") {
  const std::vector<const library*> all = linked();
  for (std::size_t maker = 0; maker < all.size(); ++maker) {
    CAPTURE(maker);
    const int number = 17 + static_cast<int>(maker);  // no machine has that many GPUs
    const char* why = nullptr;
    all[maker]->enter(number);
    int workloads = 0;
    for (const library* one : all) CHECK(one->open(number, &why) == ++workloads);
    all[maker]->leave();
    CHECK(all[0]->open(number, &why) == -1);
  }
}
