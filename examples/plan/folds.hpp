// SPDX-License-Identifier: Apache-2.0
// Which observations a model may learn from, and which it is then tried on.
#pragma once

#include <cede/colocate/model.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plan {

using cede::colocate::observation;

enum class held_out : std::uint8_t { workload, family };

struct fold {
  std::string group;               ///< the workload or family left out
  std::vector<std::size_t> train;  ///< observations in which nobody is of the group
  std::vector<std::size_t> test;   ///< those whose victim is of the group
};

/// One fold for each group that is a victim's, in the order of their names. What is tested was
/// never seen in training, neither as victim nor as neighbour; every observation is tested once. A
/// fold's `train` may be empty. Throws `cede::invalid_argument` for what is no observation.
std::vector<fold> leave_out(std::span<const observation> all, held_out what);

/// Those of `all` that `chosen` names.
std::vector<observation> pick(std::span<const observation> all,
                              const std::vector<std::size_t>& chosen);

/// The error that 95 % stay below, as rank ceil(0.95 (n + 1)): the correction that split conformal
/// prediction makes for few errors (Lei et al., Distribution-Free Predictive Inference for
/// Regression, 2018). 1, for nothing is known, if there are fewer than 19.
double p95_of(std::vector<double> errors);

/// That error over all families, each predicted by what `fit` learns from observations without it;
/// 1 where a family is in all of them, so that nothing is left to learn from. What a model refuses
/// is no error. `fit` takes observations and returns a model.
template <class Fit>
double p95_without_family(std::span<const observation> seen, const Fit& fit) {
  std::vector<double> errors;
  for (const fold& f : leave_out(seen, held_out::family)) {
    if (f.train.empty()) return 1;
    const auto held = fit(pick(seen, f.train));
    for (const std::size_t i : f.test) {
      const auto a = held.progress(seen[i].together, seen[i].victim);
      if (!a.value) continue;
      const double error = a.value->progress - seen[i].progress;
      errors.push_back(error < 0 ? -error : error);
    }
  }
  const double p95 = p95_of(std::move(errors));
  return p95 < 1 ? p95 : 1;
}

}  // namespace plan
