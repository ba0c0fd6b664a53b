// SPDX-License-Identifier: Apache-2.0
// The one configuration of a body, size and form in which everything about it is measured.
#pragma once

#include "common/problem.hpp"

#include <cede/detail/plan.hpp>

#include <cstdint>
#include <string_view>

namespace bench {

struct configured_row {
  std::string_view body;
  problem_size size;
  unsigned workers_per_sm;  ///< persistent
  unsigned tiles_per_claim;
  bool overlap;
  std::uint64_t chunk;  ///< gated
};

/// Written by configurations.py from a measured curve, or by hand. 0: the library's choice.
inline constexpr configured_row configured[] = {
#include "adapters/configurations.inc"
};

inline cede::launch_options configuration(std::string_view body, problem_size size,
                                          cede::form how) {
  cede::launch_options o{.form = how};
  for (const configured_row& row : configured) {
    if (row.body != body || row.size != size) continue;
    if (how == cede::form::persistent) {
      o.workers_per_sm = row.workers_per_sm;
      o.tiles_per_claim = row.tiles_per_claim;
      o.overlap = row.overlap;
    }
    if (how == cede::form::gated) o.chunk = row.chunk;
  }
  return o;
}

}  // namespace bench
