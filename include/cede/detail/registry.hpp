// SPDX-License-Identifier: Apache-2.0
// One registry per process: every copy of the library, in whatever shared library, finds the same
// scheduler for a device, or learns that it cannot share one.
#pragma once

#include <cede/config.hpp>

#include <map>
#include <memory>
#include <mutex>

// Outside the versioned namespace on purpose: copies of different layouts must meet here. An inline
// variable of default visibility is unique in the process, also across dlopen'ed libraries.
namespace cede_process {

struct registry {
  /// Layout of everything reachable from here; never reused for another layout.
  int layout = 1;
  int version = 0;
  std::mutex mutex;
  std::map<int, std::weak_ptr<void>> schedulers;
};

CEDE_PROCESS_WIDE inline registry the_registry{.layout = 1, .version = CEDE_VERSION, .mutex = {}, .schedulers = {}};

}  // namespace cede_process
