// SPDX-License-Identifier: Apache-2.0
// The service's thread: takes requests as they arrive, one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "arrivals.hpp"
#include "queue.hpp"
#include "service.hpp"

namespace colocate {

/// A service that is more requests than this behind where it would be alone never catches up.
/// (Behind the arrivals alone would not do: bursts of a real trace pile up more, even where nobody
/// disturbs.)
inline constexpr std::size_t most_behind = 200;

/// A request that was answered. Times in seconds.
struct served {
  std::size_t input;
  double service;   ///< from the moment it was taken up
  double response;  ///< from its arrival
};

struct serving_record {
  std::vector<served> requests;
  bool unstable = false;
  std::uint64_t wrong = 0;   ///< answers beyond the tolerance
  float worst_error = 0.0F;  ///< of all answers
};

/// How the service's thread spends the time until the next arrival: spinning over the last stretch
/// (exact, but takes a core), or asleep.
enum class waiting : std::uint8_t { spin, sleep };

/// What the service is to do in a window.
struct serving_work {
  std::span<const arrival> arrivals;
  std::span<const double> starts_alone;  ///< of each arrival
  double window;                         ///< seconds
};

/// Serves the arrivals in an open loop: each is due at `start` + its time, whether or not the
/// service is ready. Ends with the last one, at the end of the window, or as `unstable` when more
/// than `most_behind` behind. `answered` counts along for whoever shows progress.
serving_record serve(queue& q, service& s, const serving_work& work, steady::time_point start,
                     waiting how, std::atomic<std::uint64_t>& answered);

/// Service times of one input, one request after another; the first `warm` are not counted.
std::vector<double> time_alone(queue& q, service& s, std::size_t input, std::size_t warm,
                               std::size_t count);

}  // namespace colocate
