// SPDX-License-Identifier: Apache-2.0
// What the vote barrier costs: a body whose threads may return before a later b.sync(), against the
// same text where they stay and do nothing. Rows early_return/FORM.
#include "measure/preemptible.cuh"
#include "measure/program.cuh"
#include "measure/timing.cuh"

#include "common/cuda_memory.cuh"
#include "common/native.cuh"

#include <cede/cede.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>

namespace {

constexpr unsigned threads = 256;
constexpr unsigned steps = 16;  ///< barriers of a tile
constexpr unsigned tiles = 200'000;
constexpr unsigned rows = 4096;  ///< of input, so few that it stays in the cache
constexpr int launches = 8;

/// How the threads beyond the end of a row of their own length come through its barriers.
enum class style {
  returns,        ///< they do not: they return before the first b.sync()
  guarded,        ///< they stay, for b.sync()
  guarded_plain,  ///< they stay, for the barrier of CUDA, which needs all threads
};

/// Each element becomes the mean of itself and the next one, `steps` times over.
template <style S>
struct smooth_rows {
  static constexpr bool returns_early = S == style::returns;
  static constexpr unsigned max_threads = threads;
  struct buffers {
    float v[2][threads];
  };

  float* out;
  const float* in;

  template <class Block>
  CEDE_BODY static void sync(Block b) {
#if defined(__CUDA_ARCH__)
    if constexpr (S == style::guarded_plain) {
      __syncthreads();
      return;
    }
#endif
    b.sync();
  }

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const std::uint32_t tile = b.index().x;
    const std::uint32_t t = b.thread_rank();
    const std::uint32_t length = threads / 2 + tile * 37 % (threads / 2) + 1;
    if (returns_early && t >= length) return;
    const bool lives = returns_early || t < length;
    auto& row = b.template shared<buffers>().v;
    const std::uint32_t next = t + 1 < length ? t + 1 : 0;
    float v = lives ? in[tile % rows * threads + t] : 0;
    for (unsigned i = 0; i < steps; ++i) {
      if (lives) row[i % 2][t] = v;
      sync(b);
      if (lives) v = 0.5F * (v + row[i % 2][next]);
    }
    if (lives) out[std::size_t{tile} * threads + t] = v;
  }
};

template <style S>
std::deque<cede::preemptible<smooth_rows<S>>> jobs(const cede::shape& s, const smooth_rows<S>& body,
                                                   const cede::launch_options& o) {
  std::deque<cede::preemptible<smooth_rows<S>>> made;
  for (int i = 0; i < launches; ++i) made.emplace_back(s, body, o);
  return made;
}

void early_return_row(benchmark::State& state, cede::form how) {
  const cede::shape shape{.grid = tiles, .block = threads};
  const cede::launch_options o{
      .form = how, .workers_per_sm = 8, .tiles_per_claim = 4, .chunk = 1U << 20U};
  bench::cuda_memory memory;
  constexpr std::size_t elements = std::size_t{tiles} * threads;
  auto* in = memory.array<float>(std::size_t{rows} * threads);
  memory.fill_floats(in, std::size_t{rows} * threads, -1, 1, 1);
  auto* expected = memory.array<float>(elements);
  auto* out = memory.array<float>(elements);

  bench::timer clock;
  bench::native_launch<smooth_rows<style::returns>> native(shape, {expected, in});
  bench::native_launch<smooth_rows<style::guarded>> native_guarded(shape, {expected, in});
  auto early = jobs<style::returns>(shape, {out, in}, o);
  auto guarded = jobs<style::guarded>(shape, {out, in}, o);
  auto plain = jobs<style::guarded_plain>(shape, {out, in}, o);
  const auto time_native = [&] {
    return clock.time([&](int) { native.plain(clock.stream()); }, launches, true);
  };
  const auto time_native_guarded = [&] {
    return clock.time([&](int) { native_guarded.plain(clock.stream()); }, launches, true);
  };
  const auto time_early = [&] { return bench::time_launches(clock, early, true); };
  const auto time_guarded = [&] { return bench::time_launches(clock, guarded, true); };
  const auto time_plain = [&] { return bench::time_launches(clock, plain, true); };

  // All of them once, which loads them; each has to say the same.
  const auto check = [&](const auto& run, const char* which) {
    memory.clear(out, elements * sizeof *out);
    run();
    if (memory.count_different(expected, out, elements * sizeof *out) != 0) {
      throw std::runtime_error(std::string("not what the native launch computes: ") + which);
    }
  };
  time_native_guarded();
  time_native();
  check(time_early, "the body that returns early");
  check(time_guarded, "the guarded body");
  check(time_plain, "the guarded body with CUDA's barrier");

  const bench::pair_times to_native = bench::time_pairs(time_native, time_early, bench::pairs);
  const bench::pair_times to_guarded = bench::time_pairs(time_guarded, time_early, bench::pairs);
  const bench::pair_times to_plain = bench::time_pairs(time_plain, time_early, bench::pairs);
  const bench::pair_times guarded_to_native =
      bench::time_pairs(time_native_guarded, time_plain, bench::pairs);
  state.SetIterationTime(to_native.second_us * 1e-6);
  state.counters["ratio_to_native"] = to_native.ratio();
  state.counters["ratio_to_guarded"] = to_guarded.ratio();
  // The guarded text with a barrier that counts threads and asks nothing.
  state.counters["ratio_to_guarded_plain_barrier"] = to_plain.ratio();
  // What the form costs this body without any vote within the tile.
  state.counters["guarded_plain_barrier_ratio_to_native"] = guarded_to_native.ratio();
  state.counters["barriers_per_tile"] = steps;
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  for (const auto how : {cede::form::persistent, cede::form::gated}) {
    bench::add_row(std::string("early_return/") + bench::name_of(how),
                   [how](benchmark::State& s) { early_return_row(s, how); });
  }
  return bench::run_benchmarks(argc, argv);
}
