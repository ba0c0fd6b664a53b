// SPDX-License-Identifier: Apache-2.0
// What every model of co-location answers: how much of its speed a workload keeps in company.
#pragma once

#include <cede/colocate/profile.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// A workload on a device. The profile must outlive it.
struct resident {
  const workload_profile* who = nullptr;
  double share = 1;  ///< of the SMs; 1 for all where nobody is confined
};

/// Progress is speed in company by speed alone on all SMs.
struct prediction {
  double progress = 1;  ///< expected, 0 to 1
  double p95 = 1;       ///< what 95 % of the errors stayed below on workloads that were held out

  /// What the progress should not fall below.
  [[nodiscard]] double bound() const { return std::max(0.0, progress - p95); }
};

/// A prediction, or a sentence on why there is none.
struct answer {
  std::optional<prediction> value;
  std::string refusal;

  static answer of(const prediction& p) { return {.value = p, .refusal = {}}; }
  static answer refused(std::string why) { return {.value = {}, .refusal = std::move(why)}; }
};

/// The progress that one workload was seen to make in one co-location.
struct observation {
  std::vector<resident> together;
  std::size_t victim = 0;  ///< index in `together`
  double progress = 1;
};

/// Throws `invalid_argument` if nobody is there, a profile is missing, a share is out of range or
/// the victim is none of them.
inline void check(std::span<const resident> together, std::size_t victim) {
  if (victim >= together.size()) {
    throw invalid_argument("workload " + std::to_string(victim) + " of a co-location of " +
                           std::to_string(together.size()) +
                           " does not exist; give the index of one of them");
  }
  for (const resident& r : together) {
    if (r.who == nullptr) {
      throw invalid_argument(
          "a workload of a co-location has no profile; point to one that outlives the call");
    }
    if (!(r.share > 0 && r.share <= 1)) {
      throw invalid_argument("workload '" + r.who->name + "' has share " + std::to_string(r.share) +
                             "; a share is above 0 and at most 1");
    }
  }
}

/// Throws `invalid_argument` for an observation no model can learn from.
inline void check(const observation& o) {
  check(o.together, o.victim);
  if (!(o.progress >= 0 && std::isfinite(o.progress))) {
    throw invalid_argument("workload '" + o.together[o.victim].who->name +
                           "' was seen to make progress " + std::to_string(o.progress) +
                           "; give its speed in company by its speed alone");
  }
}

/// A model of who slows whom.
///
/// Implementations are thread-safe as long as nobody changes them; none waits.
class model {
 public:
  model() = default;
  model(const model&) = default;
  model(model&&) = default;
  model& operator=(const model&) = default;
  model& operator=(model&&) = default;
  virtual ~model() = default;

  /// The progress of `together[victim]` beside all others. Throws `invalid_argument` as `check`.
  [[nodiscard]] virtual answer progress(std::span<const resident> together,
                                        std::size_t victim) const = 0;
};

}  // namespace colocate

CEDE_END_NAMESPACE
