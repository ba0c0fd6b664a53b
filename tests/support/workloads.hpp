// SPDX-License-Identifier: Apache-2.0
// Workloads of co-location, and observations that a known partition model made.
#pragma once

#include <cede/colocate/model.hpp>
#include <cede/colocate/partition_model.hpp>
#include <cede/colocate/profile.hpp>
#include <cede/colocate/solo_curve.hpp>

#include <random>
#include <string>
#include <vector>

namespace cede_test {

inline cede::colocate::workload_profile workload(int family, double busy, double dram, double l2) {
  cede::colocate::workload_profile w;
  w.name = "w" + std::to_string(family) + "/" + std::to_string(dram);
  w.family = "f" + std::to_string(family);
  w.busy = busy;
  w.of.dram = dram;
  w.of.l2 = l2;
  w.curve = cede::colocate::solo_curve({{.share = 0.5, .speed = 0.7}});
  return w;
}

struct world {
  std::vector<cede::colocate::workload_profile> workloads;
  std::vector<cede::colocate::observation> seen;
};

/// Eight workloads of four families, all ordered pairs at three shares, with the progress that a
/// model says.
inline world made_by(const cede::colocate::partition_model& truth) {
  world w;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0.1, 0.9);
  for (int i = 0; i < 8; ++i) {
    const double busy = any(random);
    const double dram = any(random);
    w.workloads.push_back(workload(i / 2, busy, dram, any(random)));
  }
  for (const auto& a : w.workloads) {
    for (const auto& b : w.workloads) {
      if (&a == &b) continue;
      for (const double share : {0.25, 0.5, 0.75}) {
        cede::colocate::observation o{.together = {{&a, share}, {&b, 1 - share}}};
        o.progress = truth.progress(o.together, 0).value->progress;
        w.seen.push_back(o);
      }
    }
  }
  return w;
}

inline constexpr cede::colocate::partition_model::coefficients known{
    .base = 0.98, .own_dram = 0.05, .other_dram = 0.2, .own_l2 = 0.1, .other_l2 = 0.3};

}  // namespace cede_test
