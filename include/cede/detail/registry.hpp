// SPDX-License-Identifier: Apache-2.0
// One registry per process: every copy of the library, in whatever shared library, finds the same
// scheduler for a device, or learns that it cannot share one.
#pragma once

#include <cede/config.hpp>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Layout of the registry and of everything reachable from it; never used for another layout.
inline constexpr int registry_layout = 1;

}  // namespace detail

CEDE_END_NAMESPACE

// Outside the versioned namespace on purpose: copies of different layouts must meet here. An inline
// variable of default visibility is unique in the process, also across dlopen'ed libraries. (A
// program that uses cede itself and loads such libraries must be linked with -rdynamic to be part
// of it.)
namespace cede_process {

struct cuda_part {
  void* (*make_device)(int ordinal) = nullptr;  ///< a new `cede::detail::device`
  int (*current_device)() = nullptr;
};

struct registry {
  int layout = 0;
  int version = 0;
  std::mutex mutex;
  std::map<int, std::weak_ptr<void>> schedulers;  ///< by CUDA device
  /// The CUDA part of whichever library has one, for those that have none; see cuda_hook.hpp.
  std::atomic<const cuda_part*> cuda{nullptr};
};

CEDE_PROCESS_WIDE inline registry the_registry{.layout = cede::detail::registry_layout,
                                               .version = CEDE_VERSION,
                                               .mutex = {},
                                               .schedulers = {},
                                               .cuda = {}};

}  // namespace cede_process

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Whether this copy of the library may use the registry.
inline bool shares_registry() {
  const auto& r = cede_process::the_registry;
  return r.layout == registry_layout && r.version / 100 == CEDE_VERSION / 100;
}

}  // namespace detail

CEDE_END_NAMESPACE
