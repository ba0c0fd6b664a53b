// SPDX-License-Identifier: Apache-2.0
// Preemptible launches under measurement: raised at random, and with their tiles timed.
#pragma once

#include "measure/patience.hpp"
#include "measure/tile_times.cuh"
#include "measure/timing.cuh"
#include "measure/turnaround.cuh"

#include <cede/preempt.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <stdexcept>

namespace bench {

inline const char* name_of(cede::form f) {
  return f == cede::form::persistent ? "persistent" : f == cede::form::gated ? "gated" : "sliced";
}

/// A preemptible launch has left or finished. In short waits: within one the adapter looks at its
/// word without pause.
template <class Job>
void await_left(Job& job) {
  const auto deadline = wall::now() + patience;
  while (!job.wait_for(std::chrono::microseconds(50))) {
    if (wall::now() > deadline) give_up("the end of a preemptible launch");
  }
}

/// Raises at random instants of a launch that takes `launch_us`; resumed, it goes on, so that all
/// of it is met. Raises that find the launch over do not count. Where every tile of a launch is
/// under way at once none can leave early: then, and only then, those count that met it running.
template <class Job>
latencies raise_at_random(Job& job, cudaStream_t stream, double launch_us, raise_plan plan) {
  std::mt19937 random(7);
  latencies early;
  latencies all;
  const double tiles = static_cast<double>(job.shape().tiles());
  const auto end = wall::now() + plan.limit;
  while (early.yields < plan.wanted && wall::now() < end) {
    const double rest = job.finished() ? 1 : 1 - static_cast<double>(job.cursor()) / tiles;
    const double span = std::min(launch_us * (rest > 0 ? rest : 1) + 8, 400.0);
    job.launch(stream);
    const double pause = std::uniform_real_distribution<double>(0, span)(random);
    spin_until(wall::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(pause * 1000)));
    if (job.wait_for(std::chrono::nanoseconds(0))) continue;  // over before the raise
    const auto begin = wall::now();
    job.yield();
    await_left(job);
    const double took = microseconds(wall::now() - begin);
    all.us.push_back(took);
    if (!job.finished()) {
      ++early.yields;
      early.us.push_back(took);
    }
    // A launch of one wave never leaves early.
    if (early.yields == 0 && static_cast<int>(all.us.size()) >= plan.wanted) break;
  }
  while (!job.finished()) {  // leave nothing half done
    job.launch(stream);
    await_left(job);
  }
  if (early.yields > 0) return early;
  return all;
}

/// Microseconds a launch of all these back to back, each of which has to finish.
template <class Body>
double time_launches(timer& clock, std::deque<cede::preemptible<Body>>& jobs, bool held) {
  const double us =
      clock.time([&](int i) { jobs[static_cast<std::size_t>(i)].launch(clock.stream()); },
                 static_cast<int>(jobs.size()), held);
  for (auto& job : jobs) {
    await_left(job);
    if (!job.finished()) throw std::runtime_error("a launch that nobody stopped did not finish");
  }
  return us;
}

/// Launches a body a few times with its tiles timed; the longest that the protocol saw, in us.
template <class Body>
double note_tiles(tile_clock& clock, cudaStream_t stream, const cede::shape& shape,
                  const Body& body, const cede::launch_options& options) {
  cede::preemptible<timed<Body>> noted{shape, timed<Body>{body, clock.log()}, options};
  double longest_us = 0;
  for (int i = 0; i < 4; ++i) {
    noted.launch(stream);
    await_left(noted);
    clock.collect();
    longest_us = std::max(longest_us,
                          std::chrono::duration<double, std::micro>(noted.longest_tile()).count());
  }
  return longest_us;
}

}  // namespace bench
