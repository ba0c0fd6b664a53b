// SPDX-License-Identifier: Apache-2.0
// The bodies of the program: each source file of adapters/ adds its own.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace bench {

struct suite_body {
  std::string name;
  void (*add_rows)() = nullptr;     ///< registers its benchmarks
  void (*print_curve)() = nullptr;  ///< measures it in many configurations
};

inline std::vector<suite_body>& suite() {
  static std::vector<suite_body> bodies;
  return bodies;
}

/// In the order of their names, whatever the linker did.
inline std::vector<suite_body> sorted_suite() {
  std::vector<suite_body> bodies = suite();
  std::sort(bodies.begin(), bodies.end(),
            [](const suite_body& a, const suite_body& b) { return a.name < b.name; });
  return bodies;
}

struct add_to_suite {
  explicit add_to_suite(suite_body b) { suite().push_back(std::move(b)); }
};

}  // namespace bench
