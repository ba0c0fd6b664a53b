// SPDX-License-Identifier: Apache-2.0
// The main job from end to end: prepares the models, runs every mode, compares.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "memory.hpp"
#include "options.hpp"
#include "results.hpp"
#include "trace.hpp"

namespace colocate {

/// What is measured, its files already read.
struct plan {
  place where;
  options choices;
  std::optional<trace> arrivals;  ///< empty: drawn at random
  std::string text;
};

/// Runs everything. `tell` receives a sentence now and then about how far it is. Takes about 5
/// (host) or 7 (CUDA) windows. Throws what the device failed with.
results run(const plan& p, const std::function<void(const std::string&)>& tell);

}  // namespace colocate
