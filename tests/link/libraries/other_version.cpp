// SPDX-License-Identifier: Apache-2.0
// Stands for a library built against a cede to come: its registry has another layout and version.
#include <map>
#include <memory>
#include <mutex>

#include "library.hpp"

namespace cede_process {

struct registry {
  int layout = 0;
  int version = 0;
  std::mutex mutex;
  std::map<int, std::weak_ptr<void>> schedulers;
  char more[256] = {};
};

__attribute__((visibility("default"))) inline registry the_registry{
    .layout = CEDE_TEST_LAYOUT, .version = CEDE_TEST_VERSION, .mutex = {}, .schedulers = {}};

}  // namespace cede_process

namespace {

const library table{
    .compiler = "g++",
    .registry = [] { return static_cast<const void*>(&cede_process::the_registry); },
    .enter = nullptr,
    .leave = nullptr,
    .open = nullptr,
    .run = nullptr,
    .fail = nullptr,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const library* CEDE_TEST_LIBRARY() {
  return &table;
}
