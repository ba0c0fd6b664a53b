// SPDX-License-Identifier: Apache-2.0
// The rows of one body: native, sliced, gated and persistent, in three sizes.
#pragma once

#include "adapters/configurations.hpp"
#include "measure/body_setup.cuh"
#include "measure/preemptible.cuh"
#include "measure/program.cuh"
#include "measure/suite.hpp"
#include "measure/tile_times.cuh"

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <vector>

namespace bench {

/// What a body's native row carries besides; specialised for the one that has something.
template <class P>
struct native_extras {
  static void add(benchmark::State&) {}
};

template <class P>
class body_rows {
 public:
  static void add() {
    for (const problem_size s : {problem_size::small, problem_size::medium, problem_size::large}) {
      add_row(s, "native", [s](benchmark::State& state) { native_row(state, s); });
      add_row(s, "sliced", [s](benchmark::State& state) { sliced_row(state, s); });
      for (const cede::form f : {cede::form::gated, cede::form::persistent}) {
        add_row(s, name_of(f), [s, f](benchmark::State& state) { preemptible_row(state, s, f); });
      }
    }
  }

  /// Lines of comma-separated values; configurations.py chooses among them.
  static void print_curve() {
    for (const problem_size s : {problem_size::medium, problem_size::large}) {
      setup on(s);
      const unsigned most = fitting(on);
      for (const unsigned workers : std::set{most, most * 3 / 4, most - most / 2}) {
        if (workers == 0) continue;
        for (const unsigned claim : {1U, 2U, 4U, 8U, 16U}) {
          // Overlapped, which is faster at medium size: docs/measurements.md.
          const latencies l = point(on, s,
                                    {.form = cede::form::persistent,
                                     .workers_per_sm = workers,
                                     .tiles_per_claim = claim,
                                     .overlap = true});
          if (l.p99() > 60) break;
        }
      }
      for (const std::uint64_t chunk : {4096U, 16384U, 1U << 20U}) {
        point(on, s, {.form = cede::form::gated, .chunk = chunk});
        if (chunk >= on.problem.shape.tiles()) break;
      }
    }
  }

 private:
  using body = typename P::body_type;
  using setup = body_setup<P>;

  template <class Row>
  static void add_row(problem_size s, const char* how, Row row) {
    bench::add_row(std::string("adapters/") + P::name + "/" + bench::name_of(s) + "/" + how, row);
  }

  static const cede::detail::cuda_kernels& kernels_of() {
    return *cede::detail::entry_of<body, cede::detail::this_compiler,
                                   !cede::traits_of<body>().whole>()
                .cuda;
  }
  static void count_kernel(benchmark::State& state, const kernel_facts& f) {
    state.counters["registers"] = f.registers;
    state.counters["spill_bytes"] = static_cast<double>(f.local_bytes);
  }
  static void count_tiles(benchmark::State& state, const std::vector<double>& us) {
    state.counters["tile_p50_us"] = quantile(us, 0.5);
    state.counters["tile_p99_us"] = quantile(us, 0.99);
    state.counters["tile_max_us"] = quantile(us, 1);
  }
  static void count_leaving(benchmark::State& state, const latencies& l) {
    state.counters["turnaround_p50_us"] = l.p50();
    state.counters["turnaround_p99_us"] = l.p99();
    state.counters["turnaround_max_us"] = l.max();
    state.counters["yields"] = l.yields;
  }

  static void native_row(benchmark::State& state, problem_size s) {
    setup on(s);
    const pair_times t =
        time_pairs([&] { return on.time_native(); }, [&] { return on.time_native(); }, pairs);
    state.SetIterationTime(t.first_us * 1e-6);
    state.counters["ratio_to_native"] = t.ratio();  // against itself: the noise
    state.counters["plain_us"] = on.plain_us;
    state.counters["loop_us"] = on.loop_us;
    state.counters["workers_per_sm"] = on.native_facts().blocks_per_sm;
    state.counters["tiles_per_claim"] = 0;
    count_kernel(state, on.native_facts());
    native_extras<P>::add(state);
  }

  static void sliced_row(benchmark::State& state, problem_size s) {
    setup on(s);
    std::uint64_t count = configuration(P::name, s, cede::form::sliced).slices;
    // About 25 us each, unless told otherwise.
    if (count == 0) count = static_cast<std::uint64_t>(std::ceil(on.native_us() / 25));
    cede::sliceable parts{on.problem.shape, on.problem.body};
    const auto slices = parts.slices({.count = count});
    auto all = [&] {
      return on.clock.time(
          [&](int) {
            for (const cede::slice& p : slices) parts.launch(on.clock.stream(), p);
          },
          on.launches, on.held && slices.size() * static_cast<std::size_t>(on.launches) <= 512);
    };
    all();
    const pair_times t = time_pairs([&] { return on.time_native(); }, all, pairs);
    urgent_kernel urgent;
    std::size_t next = 0;
    const latencies l =
        urgent.at_random([&] { parts.launch(urgent.low(), slices[next++ % slices.size()]); },
                         t.second_us / static_cast<double>(slices.size()), {.wanted = raises});
    // A body that looks back must not be left half done.
    for (; next % slices.size() != 0; ++next) {
      parts.launch(on.clock.stream(), slices[next % slices.size()]);
    }
    on.clock.finish();

    tile_clock log(on.problem.shape.tiles());
    cede::sliceable noted{on.problem.shape, timed<body>{on.problem.body, log.log()}};
    for (int i = 0; i < 4; ++i) {
      for (const cede::slice& p : noted.slices({.count = count})) {
        noted.launch(on.clock.stream(), p);
      }
      on.clock.finish();
      log.collect();
    }
    state.SetIterationTime(t.second_us * 1e-6);
    state.counters["ratio_to_native"] = t.ratio();
    state.counters["slices"] = static_cast<double>(slices.size());
    const kernel_facts f = facts_of(kernels_of().native, on.problem.shape);
    state.counters["workers_per_sm"] = f.blocks_per_sm;
    state.counters["tiles_per_claim"] = 0;
    count_kernel(state, f);
    count_leaving(state, l);
    count_tiles(state, log.microseconds());
  }

  static std::uint64_t calls_of(const setup& on, const cede::launch_options& o) {
    if (o.form != cede::form::gated) return 1;
    const std::uint64_t chunk = o.chunk == 0 ? 4096 : o.chunk;
    return (on.problem.shape.tiles() - 1) / chunk + 2;
  }

  static void preemptible_row(benchmark::State& state, problem_size s, cede::form f) {
    setup on(s);
    const cede::launch_options options = configuration(P::name, s, f);
    auto jobs = on.jobs(options);
    const pair_times t =
        time_pairs([&] { return on.time_native(); },
                   [&] { return on.time_jobs(jobs, calls_of(on, options)); }, pairs);
    const latencies l =
        raise_at_random(jobs.front(), on.clock.stream(), t.second_us, {.wanted = raises});
    on.verify(jobs.front());

    tile_clock log(on.problem.shape.tiles());
    const double longest_us =
        note_tiles(log, on.clock.stream(), on.problem.shape, on.problem.body, options);
    state.SetIterationTime(t.second_us * 1e-6);
    state.counters["ratio_to_native"] = t.ratio();
    const bool persistent = f == cede::form::persistent;
    const kernel_facts k =
        facts_of(persistent ? kernels_of().persistent : kernels_of().gated, on.problem.shape);
    state.counters["workers_per_sm"] =
        persistent ? std::ceil(static_cast<double>(jobs.front().workers()) / on.native.sms())
                   : k.blocks_per_sm;
    state.counters["tiles_per_claim"] = persistent ? std::max(1U, options.tiles_per_claim) : 1;
    if (!persistent) state.counters["chunk"] = static_cast<double>(options.chunk);
    state.counters["tile_recorded_us"] = longest_us;  // the longest that the protocol saw
    count_kernel(state, k);
    count_leaving(state, l);
    count_tiles(state, log.microseconds());
    std::fprintf(stderr, "%s/%s/%s: %.4f of native, turnaround P99 %.1f us\n", P::name,
                 bench::name_of(s), name_of(f), t.ratio(), l.p99());
  }

  /// Workers per SM at full occupancy.
  static unsigned fitting(const setup& on) {
    return static_cast<unsigned>(facts_of(kernels_of().persistent, on.problem.shape).blocks_per_sm);
  }

  /// One line of the curve.
  static latencies point(setup& on, problem_size s, const cede::launch_options& o) {
    auto jobs = on.jobs(o);
    const pair_times t = time_pairs([&] { return on.time_native(); },
                                    [&] { return on.time_jobs(jobs, calls_of(on, o)); }, 5);
    const latencies l = raise_at_random(jobs.front(), on.clock.stream(), t.second_us,
                                        {.wanted = 120, .limit = std::chrono::seconds(1)});
    std::printf("%s,%s,%s,%u,%u,%llu,%d,%.4f,%.2f,%.2f,%d\n", P::name, bench::name_of(s),
                name_of(o.form), o.workers_per_sm, o.tiles_per_claim,
                static_cast<unsigned long long>(o.chunk), o.overlap ? 1 : 0, t.ratio(), l.p50(),
                l.p99(), l.yields);
    std::fflush(stdout);
    return l;
  }
};

/// Defines a body's place in the suite.
#define BENCH_BODY(PROBLEM)                                                                   \
  static const bench::add_to_suite added {                                                    \
    {                                                                                         \
      PROBLEM::name, &bench::body_rows<PROBLEM>::add, &bench::body_rows<PROBLEM>::print_curve \
    }                                                                                         \
  }

}  // namespace bench
