// SPDX-License-Identifier: Apache-2.0
// What the programs share: the context of a record, and Google Benchmark's own main.
#pragma once

#include "common/cuda_check.hpp"

#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace bench {

/// Interleaved pairs of a ratio.
inline constexpr int pairs = 31;
/// Raises answered, for a turnaround.
inline constexpr int raises = 1200;

inline std::string version_text(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

inline std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

inline std::string usual_samples() {
  return std::to_string(pairs) + " pairs, " + std::to_string(raises) + " raises";
}

/// run.sh tells the commit, the state of the headers and the driver's release.
inline void describe_machine(const std::string& samples) {
  int device = 0;
  int driver = 0;
  int runtime = 0;
  cudaDeviceProp p{};
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaGetDeviceProperties(&p, device));
  BENCH_CUDA(cudaDriverGetVersion(&driver));
  BENCH_CUDA(cudaRuntimeGetVersion(&runtime));
  benchmark::AddCustomContext("gpu", p.name);
  benchmark::AddCustomContext("driver", from_environment("CEDE_DRIVER", version_text(driver)));
  benchmark::AddCustomContext("cuda", version_text(runtime));
  benchmark::AddCustomContext("commit", from_environment("CEDE_COMMIT", "unknown"));
  benchmark::AddCustomContext("tree", from_environment("CEDE_TREE", "unknown"));
  benchmark::AddCustomContext("samples", samples);
}

/// Registers a row, which is run once and sets its time and counters itself. One that fails says
/// why and takes no other with it.
template <class Row>
void add_row(const std::string& name, Row row) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [name, row](benchmark::State& state) {
                                 for (auto _ : state) {
                                   try {
                                     row(state);
                                   } catch (const std::exception& e) {
                                     std::fprintf(stderr, "%s: %s\n", name.c_str(), e.what());
                                     state.SkipWithError(e.what());
                                     break;
                                   }
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond);
}

/// Runs what is registered; the exit status of the program. `samples`: how many a row has, in
/// words.
inline int run_benchmarks(int& argc, char** argv, const std::string& samples = usual_samples()) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  describe_machine(samples);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

inline bool have_device() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return true;
  std::fprintf(stderr, "There is no GPU to measure on: %s.\n", cudaGetErrorString(status));
  return false;
}

}  // namespace bench
