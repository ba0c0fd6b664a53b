// SPDX-License-Identifier: Apache-2.0
// One problem ready to be measured: its arrays, its plain kernels, and which of them is the
// baseline.
#pragma once

#include "common/cuda_memory.cuh"
#include "common/native.cuh"
#include "common/problem.hpp"
#include "measure/patience.hpp"
#include "measure/preemptible.cuh"
#include "measure/timing.cuh"

#include <cede/cede.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>
#include <stdexcept>
#include <string>

namespace bench {

template <class P>
class body_setup {
 public:
  using body = typename P::body_type;
  using job = cede::preemptible<body>;

  explicit body_setup(problem_size s) : problem(memory, s), native(problem.shape, problem.body) {
    choose_baseline();
  }

  cuda_memory memory;
  P problem;
  native_launch<body> native;
  timer clock;
  bool looping = false;  ///< the plain loop is faster than the plain kernel
  double plain_us = 0;
  double loop_us = 0;  ///< 0 where there is none
  int launches = 2;    ///< back to back
  bool held = false;

  [[nodiscard]] double native_us() const { return looping ? loop_us : plain_us; }
  [[nodiscard]] const kernel_facts& native_facts() const {
    return looping ? native.loop_facts() : native.plain_facts();
  }
  double time_native() {
    return clock.time([&](int) { looping ? native.loop(clock.stream()) : plain(); }, launches,
                      held);
  }

  /// As many adapters as launches back to back: each is launched again when it is finished only.
  std::deque<job> jobs(const cede::launch_options& options) {
    std::deque<job> made;
    for (int i = 0; i < launches; ++i) made.emplace_back(problem.shape, problem.body, options);
    for (job& j : made) run(j);
    return made;
  }
  void run(job& j) {
    j.launch(clock.stream());
    await_left(j);
    if (!j.finished()) throw std::runtime_error("a launch that nobody stopped did not finish");
  }
  /// `calls`: how many calls of the driver a launch makes; the queue of a held stream is short.
  double time_jobs(std::deque<job>& made, std::uint64_t calls) {
    return time_launches(clock, made, held && calls * static_cast<std::uint64_t>(launches) <= 512);
  }

  /// Throws unless a launch that is told to leave again and again gives the same bits.
  void verify(job& j) {
    problem.reset();
    run(j);
    problem.keep();
    problem.reset();
    std::mt19937 random(3);
    const double span = std::clamp(native_us(), 5.0, 200.0);
    do {
      j.launch(clock.stream());
      spin_until(wall::now() + std::chrono::nanoseconds(static_cast<std::int64_t>(
                                   std::uniform_real_distribution<>(0, span)(random) * 1000)));
      j.yield();
      await_left(j);
    } while (!j.finished());
    if (problem.differences() != 0) {
      throw std::runtime_error("the preempted launch gave other bits than the unpreempted one");
    }
  }

 private:
  void plain() { native.plain(clock.stream()); }

  void choose_baseline() {
    auto plain_once = [&] { return clock.time([&](int) { plain(); }, launches, held); };
    auto loop_once = [&] {
      return clock.time([&](int) { native.loop(clock.stream()); }, launches, held);
    };
    plain_once();  // loads it
    plain_us = plain_once();
    launches = plain_us < 20 ? 32 : plain_us < 500 ? 8 : 2;
    held = plain_us < 500;
    if (!native.has_loop) {
      plain_us = time_pairs(plain_once, plain_once, 9).first_us;
      return;
    }
    loop_once();
    const pair_times both = time_pairs(plain_once, loop_once, 9);
    plain_us = both.first_us;
    loop_us = both.second_us;
    looping = loop_us < plain_us;
  }
};

}  // namespace bench
