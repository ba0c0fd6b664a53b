// SPDX-License-Identifier: Apache-2.0
// A launch cut into k slices: k driver calls against one prebuilt CUDA graph of the same k
// launches. Rows slices/K/calls and slices/K/graph.
#include "measure/patience.hpp"
#include "measure/program.cuh"
#include "measure/statistics.hpp"
#include "measure/timing.cuh"

#include "bodies/saxpy.cuh"
#include "common/cuda_check.hpp"
#include "common/cuda_memory.cuh"
#include "common/native.cuh"

#include <cede/cede.hpp>

#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int launches = 4;  ///< back to back; 4 x 64 calls fit a stream's queue

/// The launches of all slices, captured from a stream.
class slice_graph {
 public:
  template <class Launch>
  slice_graph(cudaStream_t stream, Launch&& launch) {
    const auto begin = bench::wall::now();
    BENCH_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    cudaGraph_t graph = nullptr;
    try {
      launch();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(stream, &graph));
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
      throw;
    }
    BENCH_CUDA(cudaStreamEndCapture(stream, &graph));
    const cudaError_t status = cudaGraphInstantiate(&exec_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    bench::check_cuda(status, "cudaGraphInstantiate");
    BENCH_CUDA(cudaGraphUpload(exec_, stream));
    BENCH_CUDA(cudaStreamSynchronize(stream));
    build_us_ = bench::microseconds(bench::wall::now() - begin);
  }
  slice_graph(const slice_graph&) = delete;
  slice_graph& operator=(const slice_graph&) = delete;
  ~slice_graph() { static_cast<void>(cudaGraphExecDestroy(exec_)); }
  void launch(cudaStream_t stream) { BENCH_CUDA(cudaGraphLaunch(exec_, stream)); }
  [[nodiscard]] double build_us() const { return build_us_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
  double build_us_ = 0;
};

/// What the host spends on one launch while the stream is empty.
template <class Launch>
double host_us(bench::timer& clock, Launch&& launch) {
  std::vector<double> us;
  for (int i = 0; i < bench::pairs; ++i) {
    const auto begin = bench::wall::now();
    launch();
    us.push_back(bench::microseconds(bench::wall::now() - begin));
    clock.finish();
  }
  return bench::median(std::move(us));
}

void slices_row(benchmark::State& state, unsigned k, bool as_graph) {
  bench::cuda_memory memory;
  bench::saxpy_problem problem(memory, bench::problem_size::medium);
  bench::native_launch<bench::saxpy> native(problem.shape, problem.body);
  cede::sliceable parts{problem.shape, problem.body};
  const auto slices = parts.slices({.count = k});
  bench::timer clock;
  const auto call = [&] {
    for (const cede::slice& p : slices) parts.launch(clock.stream(), p);
  };
  slice_graph graph(clock.stream(), call);
  const auto launch_graph = [&] { graph.launch(clock.stream()); };
  const auto launch_native = [&] { native.plain(clock.stream()); };

  problem.reset();
  launch_native();
  clock.finish();
  problem.keep();
  const auto check = [&](const auto& launch, const char* how) {
    problem.reset();
    launch();
    clock.finish();
    if (problem.differences() != 0) {
      throw std::runtime_error(std::string("not what the native launch computes: slices by ") +
                               how);
    }
  };
  check(call, "calls");
  check(launch_graph, "a graph");

  // Held: the queue is full before the first begins, so that the device's share shows alone.
  const auto time = [&](const auto& launch, bool held) {
    return clock.time([&](int) { launch(); }, launches, held);
  };
  const auto measure = [&](const auto& launch) {
    const bench::pair_times queued =
        bench::time_pairs([&] { return time(launch_native, true); },
                          [&] { return time(launch, true); }, bench::pairs);
    const bench::pair_times fed =
        bench::time_pairs([&] { return time(launch_native, false); },
                          [&] { return time(launch, false); }, bench::pairs);
    state.SetIterationTime(fed.second_us * 1e-6);
    state.counters["ratio_to_native"] = fed.ratio();
    state.counters["queued_us"] = queued.second_us;
    state.counters["queued_ratio_to_native"] = queued.ratio();
    state.counters["added_per_slice_us"] = (queued.second_us - queued.first_us) / (k - 1);
    state.counters["host_us"] = host_us(clock, launch);
  };
  if (as_graph) {
    measure(launch_graph);
    state.counters["build_us"] = graph.build_us();
    state.counters["ratio_to_calls"] =
        bench::time_pairs([&] { return time(call, false); },
                          [&] { return time(launch_graph, false); }, bench::pairs)
            .ratio();
  } else {
    measure(call);
  }
  state.counters["slices"] = static_cast<double>(slices.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  for (const unsigned k : {4U, 16U, 64U}) {
    for (const bool as_graph : {false, true}) {
      bench::add_row("slices/" + std::to_string(k) + (as_graph ? "/graph" : "/calls"),
                     [k, as_graph](benchmark::State& s) { slices_row(s, k, as_graph); });
    }
  }
  return bench::run_benchmarks(argc, argv);
}
