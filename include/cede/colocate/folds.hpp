// SPDX-License-Identifier: Apache-2.0
// Which observations a model may learn from, and which it is then tried on.
#pragma once

#include <cede/colocate/model.hpp>
#include <cede/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace colocate {

enum class held_out { workload, family };

struct fold {
  std::string group;               ///< the workload or family left out
  std::vector<std::size_t> train;  ///< observations in which nobody is of the group
  std::vector<std::size_t> test;   ///< those whose victim is of the group
};

/// One fold for each group that is a victim's. What is tested was never seen in training, neither
/// as victim nor as neighbour; every observation is tested once. A fold's `train` may be empty.
///
/// Thread-safe; does not wait.
[[nodiscard]] inline std::vector<fold> leave_out(std::span<const observation> all, held_out what) {
  const auto group = [&](const resident& r) -> const std::string& {
    return what == held_out::workload ? r.who->name : r.who->family;
  };
  std::set<std::string> groups;
  for (const observation& o : all) {
    check(o);
    groups.insert(group(o.together[o.victim]));
  }
  std::vector<fold> folds;
  for (const std::string& g : groups) {
    fold& f = folds.emplace_back();
    f.group = g;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const observation& o = all[i];
      if (group(o.together[o.victim]) == g) f.test.push_back(i);
      if (std::none_of(o.together.begin(), o.together.end(),
                       [&](const resident& r) { return group(r) == g; })) {
        f.train.push_back(i);
      }
    }
  }
  return folds;
}

/// The error that 95 % stay below, as rank ceil(0.95 (n + 1)): the correction that split conformal
/// prediction makes for few errors (Lei et al., Distribution-Free Predictive Inference for
/// Regression, 2018). 1, for nothing is known, if there are fewer than 19.
[[nodiscard]] inline double p95_of(std::vector<double> errors) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(errors.size() + 1)));
  if (rank > errors.size()) return 1;
  std::sort(errors.begin(), errors.end());
  return errors[rank - 1];
}

}  // namespace colocate

CEDE_END_NAMESPACE
