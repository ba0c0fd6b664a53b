// SPDX-License-Identifier: Apache-2.0
// How long one long kernel of short tiles keeps the GPU after it is told to leave, by its length
// and by what makes it leave: persistent workers, gated blocks, slices, stream priorities alone.
#include "measure/preemptible.cuh"
#include "measure/program.cuh"
#include "measure/tile_times.cuh"
#include "measure/timing.cuh"
#include "measure/turnaround.cuh"

#include "common/cuda_memory.cuh"
#include "common/native.cuh"

#include <cede/cede.hpp>

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>

namespace {

/// Multiply-adds that depend on each other, bound by the arithmetic of an SM.
struct multiply_add {
  std::uint32_t rounds;
  float* out;  ///< one value a tile
  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t tile = b.index().x;
    float v = static_cast<float>(tile & 1023U) + static_cast<float>(b.thread_rank());
    for (std::uint32_t i = 0; i < rounds; ++i) v = v * 0.999F + 0.5F;
    // Never less than 0: no more than one thread stores, but all have to calculate.
    if (v < 0 || b.thread_rank() == 0) out[tile] = v;
  }
};

constexpr std::uint32_t rounds = 512;
constexpr unsigned workers_per_sm = 2;  // more would share the arithmetic, and the youngest starve
constexpr double slice_us = 25;

cede::shape shape_of(std::uint64_t tiles) { return {.grid = tiles, .block = 256}; }

/// As many tiles as take `ms` in a plain kernel.
std::uint64_t tiles_for(double ms) {
  constexpr std::uint64_t sample = 200'000;
  bench::cuda_memory memory;
  bench::native_launch<multiply_add> all(shape_of(sample), {rounds, memory.array<float>(sample)});
  bench::timer clock;
  auto run = [&] { return clock.time([&](int) { all.plain(clock.stream()); }, 2, false); };
  run();
  const double us = bench::time_pairs(run, run, 9).first_us;
  return static_cast<std::uint64_t>(std::ceil(ms * 1000 / us * static_cast<double>(sample)));
}

struct long_kernel {
  explicit long_kernel(double ms)
      : shape(shape_of(tiles_for(ms))), body{rounds, memory.array<float>(shape.tiles())} {}
  bench::cuda_memory memory;
  cede::shape shape;
  multiply_add body;
  bench::timer clock;
};

void count(benchmark::State& state, const bench::latencies& l, bench::tile_clock& tiles,
           double us) {
  state.SetIterationTime(us * 1e-6);
  state.counters["latency_p50_us"] = l.p50();
  state.counters["latency_p99_us"] = l.p99();
  state.counters["latency_max_us"] = l.max();
  state.counters["yields"] = l.yields;
  state.counters["tile_p50_us"] = bench::quantile(tiles.microseconds(), 0.5);
  state.counters["tile_p99_us"] = bench::quantile(tiles.microseconds(), 0.99);
}

void preemptible_row(benchmark::State& state, double ms, cede::form how) {
  long_kernel k(ms);
  const cede::launch_options options{.form = how, .workers_per_sm = workers_per_sm};
  cede::preemptible job{k.shape, k.body, options};
  job.launch(k.clock.stream());  // loads it
  bench::await_left(job);
  const double us = k.clock.time([&](int) { job.launch(k.clock.stream()); }, 1, false);
  bench::await_left(job);
  const bench::latencies l =
      bench::raise_at_random(job, k.clock.stream(), us, {.wanted = bench::raises});
  bench::tile_clock tiles(k.shape.tiles());
  bench::note_tiles(tiles, k.clock.stream(), k.shape, k.body, options);
  count(state, l, tiles, us);
}

/// `slices` launches, one after the other, in a stream of the lowest priority; the latency-critical
/// kernel has the highest.
void priority_row(benchmark::State& state, double ms, bool cut) {
  long_kernel k(ms);
  bench::tile_clock tiles(k.shape.tiles());
  cede::sliceable parts{k.shape, k.body};
  const auto count_of = cut ? static_cast<std::uint64_t>(std::ceil(ms * 1000 / slice_us)) : 1;
  const auto slices = parts.slices({.count = count_of});
  auto all = [&](auto& launches, cudaStream_t stream) {
    for (const cede::slice& p : slices) launches.launch(stream, p);
  };
  all(parts, k.clock.stream());
  const double us = k.clock.time([&](int) { all(parts, k.clock.stream()); }, 1, false);
  bench::urgent_kernel urgent;
  std::size_t next = 0;
  const bench::latencies l =
      urgent.at_random([&] { parts.launch(urgent.low(), slices[next++ % slices.size()]); },
                       us / static_cast<double>(slices.size()), {.wanted = bench::raises});
  cede::sliceable noted{k.shape, bench::timed<multiply_add>{k.body, tiles.log()}};
  all(noted, k.clock.stream());
  k.clock.finish();
  tiles.collect();
  count(state, l, tiles, us);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  for (const auto& [name, ms] : {std::pair{"0.1", 0.1}, {"1", 1.0}, {"10", 10.0}, {"100", 100.0}}) {
    const std::string at = std::string("preemption/") + name + "ms/";
    for (const auto how : {cede::form::persistent, cede::form::gated}) {
      bench::add_row(at + bench::name_of(how),
                     [ms, how](benchmark::State& s) { preemptible_row(s, ms, how); });
    }
    bench::add_row(at + "sliced", [ms](benchmark::State& s) { priority_row(s, ms, true); });
    bench::add_row(at + "priorities", [ms](benchmark::State& s) { priority_row(s, ms, false); });
  }
  return bench::run_benchmarks(argc, argv);
}
