// SPDX-License-Identifier: Apache-2.0
// How every body of the benchmark suite is tested on a GPU: all ways to run it against the
// reference, and bit-equal results under random raises.
#pragma once

#include <support/gpu.hpp>

#include <algorithm>
#include <random>

#include "common/cuda_memory.cuh"
#include "common/native.cuh"
#include "common/problem.hpp"

namespace test {

/// Bodies of the suite; they share the 10^4 raises.
inline constexpr int suite_bodies = 18;

/// The ways of the preemptible adapter that are tested. A worker meets several tiles in all of
/// them.
inline const cede::launch_options preemptible_ways[] = {
    {.form = cede::form::persistent, .workers_per_sm = 1},
    {.form = cede::form::persistent, .workers_per_sm = 4, .tiles_per_claim = 3},
    {.form = cede::form::gated},
    {.form = cede::form::gated, .chunk = 700},
};

inline std::string text_of(const cede::launch_options& o) {
  return o.form == cede::form::gated
             ? "gated, chunk " + std::to_string(o.chunk)
             : "persistent, " + std::to_string(o.workers_per_sm) + " workers, " +
                   std::to_string(o.tiles_per_claim) + " tiles per claim";
}

template <class P>
void body_matches_reference() {
  CAPTURE(std::string(P::name));
  raw_stream stream;
  bench::cuda_memory memory;
  P problem(memory, under_tool() ? bench::problem_size::tiny : bench::problem_size::small);
  auto check = [&](const char* how) {
    CAPTURE(std::string(how));
    stream.finish();
    CHECK(problem.error() <= P::tolerance);
    problem.reset();
  };
  problem.reset();
  CHECK(problem.error() > P::tolerance);  // what has not run is found wrong

  using body = typename P::body_type;
  bench::native_launch<body> native(problem.shape, problem.body);
  native.plain(stream.s);
  check("plain kernel");
  if (native.has_loop) {
    native.loop(stream.s);
    check("plain loop");
  }
  for (const std::uint64_t n : {1U, 3U}) {
    cede::sliceable parts{problem.shape, problem.body};
    for (const auto& p : parts.slices({.count = n})) parts.launch(stream.s, p);
    check("slices");
  }
  for (const auto& options : preemptible_ways) {
    cede::preemptible<body> job{problem.shape, problem.body, options};
    job.launch(stream.s);
    REQUIRE(job.wait_for(patience()));
    CHECK(job.finished());
    check(text_of(options).c_str());
  }
}

template <class P>
void body_survives_raises() {
  CAPTURE(std::string(P::name));
  raw_stream stream;
  bench::cuda_memory memory;
  P problem(memory, under_tool() ? bench::problem_size::small : bench::problem_size::medium);
  using body = typename P::body_type;
  problem.reset();
  cede::sliceable parts{problem.shape, problem.body};
  parts.launch(stream.s);
  stream.finish();
  problem.keep();

  std::mt19937 random(1);
  for (int cut = 0; cut < 5; ++cut) {
    problem.reset();
    const std::uint64_t n = 2 + random() % 30;
    CAPTURE(n);
    for (const auto& p : parts.slices({.count = n})) parts.launch(stream.s, p);
    stream.finish();
    REQUIRE(problem.differences() == 0);
  }
  const int ways = static_cast<int>(std::size(preemptible_ways));
  const int wanted = std::max(3, raises(10000) / suite_bodies / ways);
  for (const auto& options : preemptible_ways) {
    const std::string way = text_of(options);
    CAPTURE(way);
    cede::preemptible<body> job{problem.shape, problem.body, options};
    int made = 0;
    int yields = 0;
    for (unsigned seed = 1; made < wanted; ++seed) {
      problem.reset();
      random_raiser raiser([&] { job.yield(); }, wanted, 60, seed);
      for (;;) {
        job.launch(stream.s);
        REQUIRE_MESSAGE(job.wait_for(patience()), "the launch neither finished nor left in time");
        if (job.finished()) break;
        ++yields;
      }
      made += raiser.stop();
      REQUIRE(problem.differences() == 0);
    }
    MESSAGE(std::string(P::name), ", ", way, ": ", made, " raises, ", yields, " yields");
    if (!under_tool()) CHECK(yields > 0);
  }
}

}  // namespace test
