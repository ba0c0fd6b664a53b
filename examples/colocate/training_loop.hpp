// SPDX-License-Identifier: Apache-2.0
// The training's thread: step after step, a few launched ahead.
#pragma once

#include <atomic>
#include <cstdint>

#include "queue.hpp"
#include "training.hpp"

namespace colocate {

/// The loss is judged, and weights are compared, over at least so many steps.
inline constexpr std::uint32_t fewest_steps = 100;

struct training_record {
  std::uint32_t steps = 0;      ///< all of them
  std::uint32_t in_window = 0;  ///< those done by the end of the window
  double seconds = 0.0;         ///< from the start to the last of those
};

/// Trains from `start` to the end of the window, and on until `fewest` steps are done. Returns when
/// all steps launched are done. `done` counts along for whoever shows progress.
training_record train(queue& q, training& model, steady::time_point start, double window,
                      std::uint32_t fewest, std::atomic<std::uint64_t>& done);

/// Exactly `steps` steps, however long they take.
void train_steps(queue& q, training& model, std::uint32_t steps);

}  // namespace colocate
