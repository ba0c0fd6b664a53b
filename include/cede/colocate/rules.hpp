// SPDX-License-Identifier: Apache-2.0
// Rules that choose a partner and predict nothing. No model is worth more than it gains on them.
#pragma once

#include <cede/colocate/profile.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

CEDE_BEGIN_NAMESPACE

namespace colocate {

enum class rule : std::uint8_t {
  least_busy,  ///< smallest sum of busy fractions
  largest_sm,  ///< largest sum of issue slots used, times the busy fraction
  random       ///< any, by the number given
};

/// Whom of the candidates a rule puts beside a workload whose own profile does not matter to it: in
/// a sum of two the one already there is the same for all. Index into `candidates`, of equal ones
/// the first. Throws `invalid_argument` if there is none, or a profile cannot have been measured.
///
/// Thread-safe; does not wait.
[[nodiscard]] inline std::size_t choose_by(rule r, std::span<const workload_profile> candidates,
                                           std::uint64_t number = 0) {
  if (candidates.empty()) {
    throw invalid_argument(
        "a rule was asked for the best of no candidates; give one profile at least");
  }
  if (r == rule::random) {
    // Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): neighbouring numbers choose independently.
    std::uint64_t z = number + 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>((z ^ (z >> 31U)) % candidates.size());
  }
  const auto score = [&](const workload_profile& w) {
    check(w);
    return r == rule::least_busy ? -w.busy : w.busy * w.of.issue;
  };
  std::size_t best = 0;
  double highest = score(candidates[0]);
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    if (const double s = score(candidates[i]); s > highest) {
      highest = s;
      best = i;
    }
  }
  return best;
}

}  // namespace colocate

CEDE_END_NAMESPACE
