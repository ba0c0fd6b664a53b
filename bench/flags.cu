// SPDX-License-Identifier: Apache-2.0
// The ways in which a raise can reach persistent workers: how soon all have left, and what the loop
// costs as long as nobody raises anything. Rows flags/ROUTE/TILE.
#include "measure/flag_loop.cuh"
#include "measure/patience.hpp"
#include "measure/program.cuh"
#include "measure/statistics.hpp"
#include "measure/timing.cuh"
#include "measure/turnaround.cuh"

#include "common/cuda_check.hpp"
#include "common/cuda_memory.cuh"

#include <cede/detail/cuda_call.hpp>

#include <benchmark/benchmark.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using bench::flag_route;
using bench::word64;

constexpr unsigned workers_per_sm = 4;
constexpr unsigned pollers = 8;     ///< of the asynchronous poll
constexpr double launch_us = 1000;  ///< about what all tiles take: nothing runs for longer

unsigned workers() {
  int device = 0;
  int sms = 0;
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return static_cast<unsigned>(sms) * workers_per_sm;
}

/// One loop, its words and its arrays.
template <flag_route R>
class flag_job {
 public:
  flag_job(word64 tiles, unsigned rounds) {
    int resident = 0;
    BENCH_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &resident, bench::flag_device::loop<R>, static_cast<int>(bench::flag_threads), 0));
    if (resident <= static_cast<int>(workers_per_sm)) {
      throw std::runtime_error("the workers and a watcher are not resident at once");
    }
    BENCH_CUDA(cudaHostAlloc(&report_, sizeof *report_, cudaHostAllocMapped));
    *report_ = {};
    BENCH_CUDA(cudaStreamCreateWithFlags(&writer_, cudaStreamNonBlocking));
    a_.words = memory_.array<bench::flag_words>(1);
    a_.report = report_;
    a_.out = memory_.array<float>(tiles);
    a_.runs = memory_.array<unsigned>(tiles);
    a_.tiles = tiles;
    a_.rounds = rounds;
    a_.blocks = workers() + (bench::has_watcher<R> ? 1 : 0);
    a_.poll_every = std::max(workers() / pollers, 1U);
    wrong_ = memory_.array<unsigned>(1);
    // The first use of a memory operation can need the device: before anything runs there.
    if constexpr (R == flag_route::stream_write) write_value(0);
    BENCH_CUDA(cudaStreamSynchronize(writer_));
  }
  flag_job(const flag_job&) = delete;
  flag_job& operator=(const flag_job&) = delete;
  ~flag_job() {
    static_cast<void>(cudaStreamDestroy(writer_));
    static_cast<void>(cudaFreeHost(report_));
  }

  void launch(cudaStream_t stream) {
    ++a_.id;
    a_.raises = raises_;
    bench::flag_device::loop<R><<<a_.blocks, bench::flag_threads, 0, stream>>>(a_);
    BENCH_CUDA(cudaGetLastError());
  }
  void raise() {
    ++raises_;
    if constexpr (R == flag_route::stream_write) {
      write_value(raises_);
    } else {
      std::atomic_ref<word64>(report_->raised).store(raises_, std::memory_order_release);
    }
  }
  [[nodiscard]] bool started() const { return read(report_->started) >= a_.id; }
  [[nodiscard]] bool left() const { return read(report_->left) >= a_.id; }
  void await_left() const {
    bench::await([&] { return left(); }, "the end of a loop");
  }
  /// Tiles executed by the launch that left last and those before it.
  [[nodiscard]] word64 cursor() const { return read(report_->cursor); }
  [[nodiscard]] bool finished() const { return cursor() == a_.tiles; }
  [[nodiscard]] word64 tiles() const { return a_.tiles; }

  /// Throws unless each tile ran as often as the grid.
  void check(cudaStream_t stream, unsigned times) {
    bench::flag_device::check<<<256, 256, 0, stream>>>(a_.runs, a_.tiles, times, wrong_);
    BENCH_CUDA(cudaGetLastError());
    BENCH_CUDA(cudaStreamSynchronize(stream));
    unsigned wrong = 0;
    memory_.download(&wrong, wrong_, sizeof wrong);
    if (wrong != 0) {
      throw std::runtime_error(std::to_string(wrong) + " tiles did not run exactly once a pass");
    }
  }

 private:
  static word64 read(word64& w) {
    return std::atomic_ref<word64>(w).load(std::memory_order_acquire);
  }
  void write_value(word64 v) {
    const auto at = reinterpret_cast<CUdeviceptr>(&a_.words->raised);
    const CUresult status = cede::detail::driver().write_value(writer_, at, v, 0);
    if (status != CUDA_SUCCESS) {
      throw std::runtime_error("cuStreamWriteValue64 failed with status " + std::to_string(status));
    }
  }

  bench::cuda_memory memory_;
  bench::flag_report* report_ = nullptr;
  cudaStream_t writer_ = nullptr;
  bench::flag_launch a_{};
  unsigned* wrong_ = nullptr;
  word64 raises_ = 0;
};

struct size_of_loop {
  unsigned rounds = 0;
  word64 tiles = 0;
};

/// Rounds for tiles of about `us` with all workers at it, and as many tiles as take `launch_us`.
size_of_loop size_for(double us) {
  size_of_loop size{512, word64{workers()} * 256};
  bench::timer clock;
  for (int i = 0; i < 2; ++i) {
    flag_job<flag_route::none> plain(size.tiles, size.rounds);
    auto run = [&] { return clock.time([&](int) { plain.launch(clock.stream()); }, 1, true); };
    run();
    const double loop_us = bench::time_pairs(run, run, 9).first_us;
    const double tile_us = loop_us * workers() / static_cast<double>(size.tiles);
    size.rounds = static_cast<unsigned>(std::clamp(size.rounds * us / tile_us, 16.0, 65536.0));
  }
  size.tiles = word64{workers()} * static_cast<word64>(launch_us / us);
  return size;
}

struct raised_loop {
  bench::latencies found;
  std::vector<double> call_us;  ///< what a raise costs the host
};

/// Raises at random instants while workers are at it: a launch that has not begun yet would add its
/// way to the device. Resumed until all tiles are done, and then begun anew.
template <flag_route R>
raised_loop raise_at_random(flag_job<R>& job, cudaStream_t stream, double us) {
  std::mt19937 random(7);
  raised_loop r;
  double rest = 1;
  auto take_in = [&] {
    if (job.finished()) job.check(stream, 1);
    rest = job.finished()
               ? 1
               : 1 - static_cast<double>(job.cursor()) / static_cast<double>(job.tiles());
  };
  const auto end = bench::wall::now() + std::chrono::seconds(4);
  while (r.found.yields < bench::raises && bench::wall::now() < end) {
    job.launch(stream);
    bench::await([&] { return job.started(); }, "the start of a loop");
    const double pause =
        std::uniform_real_distribution<double>(0, std::min(us * rest, 400.0))(random);
    bench::spin_until(bench::wall::now() +
                      std::chrono::nanoseconds(static_cast<std::int64_t>(pause * 1000)));
    const bool late = job.left();
    if (!late) {
      const auto begin = bench::wall::now();
      job.raise();
      const auto called = bench::wall::now();
      job.await_left();
      const auto over = bench::wall::now();
      if (!job.finished()) {
        ++r.found.yields;
        r.found.us.push_back(bench::microseconds(over - begin));
        r.call_us.push_back(bench::microseconds(called - begin));
      }
    }
    take_in();
  }
  while (!job.finished()) {
    job.launch(stream);
    job.await_left();
    take_in();
  }
  return r;
}

template <flag_route R>
void flag_row(benchmark::State& state, double us) {
  const size_of_loop size = size_for(us);
  flag_job<flag_route::none> plain(size.tiles, size.rounds);
  flag_job<R> job(size.tiles, size.rounds);
  bench::timer clock;
  unsigned passes = 0;
  auto time = [&](auto& one) {
    return clock.time([&](int) { one.launch(clock.stream()); }, 1, true);
  };
  time(plain);  // loads them
  time(job);
  const bench::pair_times t = bench::time_pairs([&] { return time(plain); },
                                                [&] { return ++passes, time(job); }, bench::pairs);
  plain.check(clock.stream(), passes + 1);
  job.check(clock.stream(), passes + 1);
  state.SetIterationTime(t.second_us * 1e-6);
  state.counters["ratio_to_plain"] = t.ratio();
  state.counters["tile_us"] = t.first_us * workers() / static_cast<double>(size.tiles);
  state.counters["workers_per_sm"] = workers_per_sm;
  if constexpr (R == flag_route::none) return;  // the noise of the ratio
  const raised_loop r = raise_at_random(job, clock.stream(), t.second_us);
  state.counters["turnaround_p50_us"] = r.found.p50();
  state.counters["turnaround_p99_us"] = r.found.p99();
  state.counters["turnaround_max_us"] = r.found.max();
  state.counters["yields"] = r.found.yields;
  state.counters["raise_call_us"] = bench::median(r.call_us);
}

template <flag_route R>
void add_route(const std::string& name) {
  for (const int us : {2, 10}) {
    bench::add_row("flags/" + name + "/" + std::to_string(us) + "us",
                   [us](benchmark::State& s) { flag_row<R>(s, us); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  add_route<flag_route::none>("none");
  add_route<flag_route::ticket_watcher>("ticket_watcher");
  add_route<flag_route::word_watcher>("word_watcher");
  add_route<flag_route::mapped>("mapped");
  add_route<flag_route::asynchronous>("asynchronous");
  add_route<flag_route::stream_write>("stream_write");
  return bench::run_benchmarks(argc, argv);
}
