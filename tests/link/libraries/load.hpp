// SPDX-License-Identifier: Apache-2.0
// Opens the libraries of this test, each kept to itself.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <dlfcn.h>

#include "library.hpp"

/// The build passes names and files as CEDE_TEST_LIBRARIES: {"name", "file"}, ...
inline const library& load(const std::string& name) {
  struct entry {
    std::string name, file;
  };
  static const std::vector<entry> known{CEDE_TEST_LIBRARIES};
  for (const entry& e : known) {
    if (e.name != name) continue;
    void* handle = dlopen(e.file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) FAIL(std::string(dlerror()));
    void* get = dlsym(handle, name.c_str());
    REQUIRE(get != nullptr);
    return *reinterpret_cast<const library* (*)()>(get)();
  }
  FAIL("no library " << name);
  return load(name);  // not reached
}

/// Names of those that were built.
inline std::vector<std::string> libraries() {
  std::vector<std::string> names{"first", "second", "linked_default"};
#if CEDE_TEST_NVCC
  names.emplace_back("third");
#endif
  return names;
}
