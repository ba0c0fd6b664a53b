// SPDX-License-Identifier: Apache-2.0
// Which workloads share a device, and who gets how many of its SMs.
#pragma once

#include <cede/colocate/model.hpp>
#include <cede/colocate/profile.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace colocate {

enum class objective : std::uint8_t {
  weighted_speedup,  ///< the sum of weight times progress
  minimum_progress,  ///< the progress of the slowest
};

/// A workload to be placed. The profile must outlive the placement.
struct candidate {
  const workload_profile* who = nullptr;
  double weight = 1;
  double least_progress = 0;  ///< must be kept by the bound of the prediction, not by its mean
};

struct placement_options {
  unsigned devices = 1;  ///< all alike
  unsigned most_together = 2;
  unsigned share_steps = 8;  ///< shares are multiples of 1 / this; 0: nobody is confined
  objective goal = objective::weighted_speedup;
};

struct placed {
  std::size_t candidate = 0;  ///< index
  double share = 1;
  prediction expected{};
};

struct placement {
  std::vector<std::vector<placed>> devices;  ///< those in use
  double value = 0;                          ///< of the objective
};

namespace placement_search {

inline constexpr std::size_t most_candidates = 12;  // 3^12 divisions of a set in two

/// The best shares for the candidates of one device; none if no shares keep what each requires.
[[nodiscard]] inline std::optional<placement> on_one_device(std::span<const candidate> all,
                                                            unsigned set, const model& m,
                                                            const placement_options& o) {
  std::vector<resident> together;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (((set >> i) & 1U) == 0) continue;
    together.push_back({.who = all[i].who, .share = 1});
    index.push_back(i);
  }
  const std::size_t n = together.size();
  if (n > o.most_together) return std::nullopt;
  std::optional<placement> best;
  const auto judge = [&] {
    placement p;
    p.devices.emplace_back();
    p.value = o.goal == objective::minimum_progress ? 1 : 0;
    for (std::size_t v = 0; v < n; ++v) {
      // Alone is what progress is measured by: no model is needed, and none can refuse.
      const answer a = n == 1 ? answer::of({.progress = 1, .p95 = 0}) : m.progress(together, v);
      const candidate& c = all[index[v]];
      if (!a.value || a.value->bound() < c.least_progress) return;
      p.devices[0].push_back(
          {.candidate = index[v], .share = together[v].share, .expected = *a.value});
      p.value = o.goal == objective::minimum_progress ? std::min(p.value, a.value->progress)
                                                      : p.value + c.weight * a.value->progress;
    }
    if (!best || p.value > best->value) best = p;
  };
  if (n == 1 || o.share_steps == 0) {
    judge();
    return best;
  }
  const std::function<void(std::size_t, unsigned)> divide = [&](std::size_t at, unsigned left) {
    if (at + 1 == n) {
      together[at].share = static_cast<double>(left) / o.share_steps;
      judge();
      return;
    }
    for (unsigned part = 1; part + (n - at - 1) <= left; ++part) {
      together[at].share = static_cast<double>(part) / o.share_steps;
      divide(at + 1, left - part);
    }
  };
  if (n <= o.share_steps) divide(0, o.share_steps);
  return best;
}

}  // namespace placement_search

/// The best placement there is, by trying all: every workload on one device, every device's shares
/// adding up to all of its SMs. None if what is required cannot be kept. Throws `invalid_argument`
/// for more than 12 candidates, no device, or a candidate without profile or with a weight or
/// required progress out of range. Takes up to 3^candidates steps a device.
///
/// Thread-safe if the model is; does not wait.
[[nodiscard]] inline std::optional<placement> place(std::span<const candidate> all, const model& m,
                                                    const placement_options& o) {
  if (all.size() > placement_search::most_candidates) {
    throw invalid_argument(std::to_string(all.size()) +
                           " workloads are too many to try all placements; place 12 at a time");
  }
  if (o.devices == 0 || o.most_together == 0) {
    throw invalid_argument(
        "a placement needs a device and room for one workload on it; set devices and "
        "most_together to 1 at least");
  }
  for (const candidate& c : all) {
    if (c.who == nullptr) {
      throw invalid_argument(
          "a workload to be placed has no profile; point to one that outlives the placement");
    }
    if (!(c.weight >= 0 && c.weight <= std::numeric_limits<double>::max()) ||
        !(c.least_progress >= 0 && c.least_progress <= 1)) {
      throw invalid_argument("workload '" + c.who->name +
                             "' has a negative weight or a required progress out of range; give a "
                             "weight from 0 and a progress from 0 to 1");
    }
  }
  const unsigned sets = 1U << all.size();
  std::vector<std::optional<placement>> group(sets);
  for (unsigned s = 1; s < sets; ++s) group[s] = placement_search::on_one_device(all, s, m, o);

  // value[s]: of the best division of s among the devices so far; part[d][s]: what device d has.
  const double nothing = o.goal == objective::minimum_progress ? 1 : 0;
  std::vector<std::optional<double>> value(sets);
  value[0] = nothing;
  std::vector<std::vector<unsigned>> part;
  for (unsigned d = 0; d < o.devices && d < all.size(); ++d) {
    std::vector<std::optional<double>> next = value;  // device d stays empty
    std::vector<unsigned>& taken = part.emplace_back(sets, 0U);
    for (unsigned s = 1; s < sets; ++s) {
      for (unsigned here = s; here != 0; here = (here - 1) & s) {
        const std::optional<double>& others = value[s & ~here];
        const std::optional<placement>& mine = group[here];
        if (!mine || !others) continue;
        const double v = o.goal == objective::minimum_progress ? std::min(*others, mine->value)
                                                               : *others + mine->value;
        std::optional<double>& best = next[s];
        if (!best || v > *best) {
          best = v;
          taken[s] = here;
        }
      }
    }
    value = next;
  }
  const std::optional<double>& of_all = value[sets - 1];
  if (!of_all) return std::nullopt;
  placement p;
  p.value = *of_all;
  unsigned left = sets - 1;
  for (std::size_t d = part.size(); d-- > 0;) {
    const unsigned here = part[d][left];
    const std::optional<placement>& chosen = group[here];
    if (here == 0 || !chosen) continue;
    p.devices.push_back(chosen->devices[0]);
    left &= ~here;
  }
  return p;
}

}  // namespace colocate

CEDE_END_NAMESPACE
