// SPDX-License-Identifier: Apache-2.0
// From what was observed in the modes to the figures of the report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results.hpp"
#include "serving_loop.hpp"
#include "training_loop.hpp"

namespace colocate {

/// What one mode did.
struct observation {
  std::string mode;
  serving_record serving;
  training_record training;
  std::uint64_t yields = 0;
  training_state state;  ///< after the last step
};

/// What running alone came to.
struct baseline {
  std::vector<double> input_seconds;    ///< median service time of each input
  std::vector<double> service_seconds;  ///< of all requests
  double steps_per_second = 0.0;
};

/// Pools the service times observed alone; an input that was never asked for keeps its time in
/// `calibrated`.
baseline pool(const observation& alone, const std::vector<double>& calibrated);

/// The figures of one mode. `window` in seconds; `digest_step` is common to all modes.
mode_figures derive(const observation& o, const baseline& alone, double window,
                    std::uint64_t digest_step);

/// The smallest number of steps of any mode.
std::uint64_t common_steps(const std::vector<observation>& modes);

/// Sentences about everything that keeps the run from being verified: wrong answers, digests that
/// differ between modes, weights that are not what the device's digest says.
std::vector<std::string> complaints(const std::vector<observation>& modes);

}  // namespace colocate
