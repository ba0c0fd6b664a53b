// SPDX-License-Identifier: Apache-2.0
// The one configuration of a body, size and form in which everything about it is measured.
#pragma once

#include "common/problem.hpp"

#include <cede/detail/plan.hpp>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct configured_row {
  std::string body;
  std::string size;
  unsigned workers_per_sm = 0;  ///< persistent; 0, here and below: the library's choice
  unsigned tiles_per_claim = 0;
  unsigned overlap = 0;
  std::uint64_t chunk = 0;  ///< gated
};

/// What configurations.py chose from a measured curve; another file by BENCH_CONFIGURATIONS.
inline std::vector<configured_row> read_configurations() {
  const char* given = std::getenv("BENCH_CONFIGURATIONS");
  const std::string path = given != nullptr ? given : BENCH_FOLDER "/adapters/configurations.csv";
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) {
    throw std::runtime_error(path +
                             " cannot be read; run configurations.py, or name another file "
                             "by BENCH_CONFIGURATIONS");
  }
  std::vector<configured_row> rows;
  while (std::getline(file, line)) {
    for (char& c : line) c = c == ',' ? ' ' : c;
    std::istringstream in(line);
    configured_row r;
    if (!(in >> r.body >> r.size >> r.workers_per_sm >> r.tiles_per_claim >> r.overlap >>
          r.chunk)) {
      throw std::runtime_error(path + " has a line that is no configuration: " + line);
    }
    rows.push_back(r);
  }
  return rows;
}

inline cede::launch_options configuration(std::string_view body, problem_size size,
                                          cede::form how) {
  static const std::vector<configured_row> configured = read_configurations();
  cede::launch_options o{.form = how};
  for (const configured_row& row : configured) {
    if (row.body != body || row.size != name_of(size)) continue;
    if (how == cede::form::persistent) {
      o.workers_per_sm = row.workers_per_sm;
      o.tiles_per_claim = row.tiles_per_claim;
      o.overlap = row.overlap != 0;
    }
    if (how == cede::form::gated) o.chunk = row.chunk;
  }
  return o;
}

}  // namespace bench
