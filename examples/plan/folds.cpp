// SPDX-License-Identifier: Apache-2.0
#include "folds.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace plan {

std::vector<fold> leave_out(std::span<const observation> all, held_out what) {
  const auto group = [&](const cede::colocate::resident& r) -> const std::string& {
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
      if (std::ranges::none_of(o.together, [&](const auto& r) { return group(r) == g; })) {
        f.train.push_back(i);
      }
    }
  }
  return folds;
}

std::vector<observation> pick(std::span<const observation> all,
                              const std::vector<std::size_t>& chosen) {
  std::vector<observation> some;
  some.reserve(chosen.size());
  for (const std::size_t i : chosen) some.push_back(all[i]);
  return some;
}

double p95_of(std::vector<double> errors) {
  const auto rank =
      static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(errors.size() + 1)));
  if (rank > errors.size()) return 1;
  std::ranges::sort(errors);
  return errors[rank - 1];
}

}  // namespace plan
