// SPDX-License-Identifier: Apache-2.0
// Bodies of the main job on the host device.
#pragma once

#include <cede/policy/ungated.hpp>
#include <cede/scheduler.hpp>

#include <cstddef>
#include <memory>
#include <vector>

#include "../examples/colocate/cede_queue.hpp"
#include "../examples/colocate/memory.hpp"
#include "../examples/colocate/random.hpp"

namespace cede_test {

/// A scheduler on two SMs, and a gated workload with a queue on it.
struct small_device {
  cede::scheduler scheduler{cede::host_device{.sms = 2}};
  cede::workload work = scheduler.workload({.name = "test", .priority = cede::best_effort});
  colocate::cede_queue queue{work, {.form = cede::form::persistent, .workers_per_sm = 1}};
};

/// Values in [-1, 1).
inline std::vector<float> noise(std::size_t n, std::uint64_t seed) {
  colocate::generator random(seed);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(2.0 * random.uniform() - 1.0);
  return out;
}

inline colocate::array<float> on_device(const std::vector<float>& values) {
  return {colocate::place::host, values};
}

}  // namespace cede_test
