// SPDX-License-Identifier: Apache-2.0
// A small latency-critical kernel beside a persistent best-effort one, where both fence at system
// scope: what a memory-sync domain of its own and a streaming window in the second-level cache for
// the best-effort one are worth. Launched by CUDA alone. Rows domains/HOW.
#include "measure/fenced_kernels.cuh"
#include "measure/patience.hpp"
#include "measure/program.cuh"
#include "measure/statistics.hpp"

#include "common/cuda_check.hpp"
#include "common/cuda_memory.cuh"

#include <benchmark/benchmark.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace {

using bench::word64;

constexpr unsigned workers_per_sm = 2;
constexpr word64 limit_ns = 500'000'000;
constexpr int rounds = 8;
constexpr int samples = 200;  ///< of a round
constexpr int unmeasured = 20;

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaDeviceGetAttribute(&value, which, device));
  return value;
}
unsigned sms() { return static_cast<unsigned>(attribute(cudaDevAttrMultiProcessorCount)); }

word64 read(word64& w) { return std::atomic_ref<word64>(w).load(std::memory_order_acquire); }

/// An object in memory both sides see.
template <class T>
class mapped {
 public:
  explicit mapped(std::size_t n = 1) {
    BENCH_CUDA(cudaHostAlloc(&p_, n * sizeof(T), cudaHostAllocMapped));
    std::fill_n(p_, n, T{});
  }
  mapped(const mapped&) = delete;
  mapped& operator=(const mapped&) = delete;
  ~mapped() { static_cast<void>(cudaFreeHost(p_)); }
  [[nodiscard]] T* get() const { return p_; }
  T* operator->() const { return p_; }

 private:
  T* p_ = nullptr;
};

class priority_stream {
 public:
  explicit priority_stream(bool high) {
    int least = 0;
    int greatest = 0;
    BENCH_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    BENCH_CUDA(cudaStreamCreateWithPriority(&s_, cudaStreamNonBlocking, high ? greatest : least));
  }
  priority_stream(const priority_stream&) = delete;
  priority_stream& operator=(const priority_stream&) = delete;
  ~priority_stream() { static_cast<void>(cudaStreamDestroy(s_)); }
  [[nodiscard]] cudaStream_t get() const { return s_; }

 private:
  cudaStream_t s_ = nullptr;
};

template <class Arguments>
void launch(const void* kernel, unsigned blocks, cudaStream_t stream, Arguments arguments,
            std::vector<cudaLaunchAttribute> attributes) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(bench::fenced_threads);
  config.stream = stream;
  config.attrs = attributes.data();
  config.numAttrs = static_cast<unsigned>(attributes.size());
  void* pointers[] = {&arguments};
  BENCH_CUDA(cudaLaunchKernelExC(&config, kernel, pointers));
}

/// What the best-effort launch is given.
struct separation {
  bool domain = false;
  bool window = false;
};

class background_job {
 public:
  explicit background_job(bench::cuda_memory& memory)
      : lines_(std::size_t{blocks()} * 32), memory_(memory) {
    // Too large for the cache, and no more than one window may cover.
    const auto window = static_cast<std::size_t>(attribute(cudaDevAttrMaxAccessPolicyWindowSize));
    const auto cache = static_cast<std::size_t>(attribute(cudaDevAttrL2CacheSize));
    const std::size_t bytes = window == 0 ? 4 * cache : std::min(window, 4 * cache);
    a_.words = memory.array<bench::background_words>(1);
    a_.report = report_.get();
    a_.host_lines = lines_.get();
    a_.tiles = bytes / (bench::background_tile * sizeof(uint4));
    a_.array = memory.array<uint4>(a_.tiles * bench::background_tile);
    a_.limit_ns = limit_ns;
  }
  void start(separation how) {
    ++a_.id;
    std::vector<cudaLaunchAttribute> attributes;
    if (how.domain) {
      cudaLaunchAttribute own{};
      own.id = cudaLaunchAttributeMemSyncDomain;
      own.val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
      attributes.push_back(own);
    }
    if (how.window) {
      cudaLaunchAttribute streams{};
      streams.id = cudaLaunchAttributeAccessPolicyWindow;
      streams.val.accessPolicyWindow.base_ptr = a_.array;
      streams.val.accessPolicyWindow.num_bytes = a_.tiles * bench::background_tile * sizeof(uint4);
      streams.val.accessPolicyWindow.hitRatio = 1;
      streams.val.accessPolicyWindow.hitProp = cudaAccessPropertyStreaming;
      streams.val.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
      attributes.push_back(streams);
    }
    launch(reinterpret_cast<const void*>(&bench::fenced::background), blocks(), stream_.get(), a_,
           std::move(attributes));
    bench::await([&] { return read(report_->started) >= a_.id; }, "the start of a kernel");
  }
  /// False if it had ended by itself. `tiles_per_us`: what it did.
  bool stop(double& tiles_per_us) {
    const bool ran = read(report_->left) < a_.id;
    std::atomic_ref<word64>(report_->stop).store(a_.id, std::memory_order_release);
    bench::await([&] { return read(report_->left) >= a_.id; }, "the end of a kernel");
    const word64 tickets = report_->tickets;
    tiles_per_us = static_cast<double>(tickets - before_) * 1000 / static_cast<double>(report_->ns);
    before_ = tickets;
    return ran;
  }
  /// Throws unless each tile that was claimed has been added to.
  void check() {
    BENCH_CUDA(cudaStreamSynchronize(stream_.get()));
    auto* sum = memory_.array<word64>(1);
    const word64 n = a_.tiles * bench::background_tile;
    bench::fenced::add_up<<<256, 256, 0, stream_.get()>>>(a_.array, n, sum);
    BENCH_CUDA(cudaGetLastError());
    BENCH_CUDA(cudaStreamSynchronize(stream_.get()));
    word64 found = 0;
    memory_.download(&found, sum, sizeof found);
    if (found != before_ * bench::background_tile * 4) {
      throw std::runtime_error("the best-effort kernel did not do what it claimed");
    }
  }

 private:
  static unsigned blocks() { return sms() * workers_per_sm; }

  mapped<bench::background_report> report_;
  mapped<word64> lines_;
  priority_stream stream_{false};
  bench::cuda_memory& memory_;
  bench::background_launch a_{};
  word64 before_ = 0;
};

struct times {
  std::vector<double> latency;  ///< from submitting to the word that the host sees, us
  std::vector<double> kernel;   ///< on the device's clock, us
  std::vector<double> tiles_per_us;
};

class critical_job {
 public:
  explicit critical_job(bench::cuda_memory& memory) : memory_(memory) {
    const std::size_t n = std::size_t{sms()} * bench::critical_share;
    const word64 never = ~word64{0};
    a_.words = memory.array<bench::critical_words>(1);
    memory.upload(&a_.words->begin_ns, &never, sizeof never);
    a_.report = report_.get();
    a_.in = memory.array(std::vector<uint4>(n, uint4{1, 1, 1, 1}));
    a_.sums = memory.array<unsigned>(std::size_t{sms()} * bench::fenced_threads);
  }
  /// At random instants; adds to `found`.
  void sample(times& found) {
    for (int i = 0; i < unmeasured + samples; ++i) {
      const double pause = std::uniform_real_distribution<double>(0, 40)(random_);
      bench::spin_until(bench::wall::now() +
                        std::chrono::nanoseconds(static_cast<std::int64_t>(pause * 1000)));
      ++a_.id;
      const auto begin = bench::wall::now();
      launch(reinterpret_cast<const void*>(&bench::fenced::critical), sms(), stream_.get(), a_, {});
      bench::await([&] { return read(report_->done) >= a_.id; }, "the end of a kernel");
      const auto end = bench::wall::now();
      if (i < unmeasured) continue;  // what it reads is to be in the cache, if it stays there
      found.latency.push_back(bench::microseconds(end - begin));
      found.kernel.push_back(static_cast<double>(report_->ns) / 1000);
    }
  }
  /// Throws unless the last launch added up all there is.
  void check() {
    BENCH_CUDA(cudaStreamSynchronize(stream_.get()));
    const std::size_t n = std::size_t{sms()} * bench::fenced_threads;
    for (const unsigned sum : memory_.read(a_.sums, n)) {
      if (sum != bench::critical_steps * bench::critical_loads * 4) {
        throw std::runtime_error("the latency-critical kernel did not add up what it read");
      }
    }
  }

 private:
  mapped<bench::critical_report> report_;
  priority_stream stream_{true};
  bench::cuda_memory& memory_;
  bench::critical_launch a_{};
  std::mt19937 random_{7};
};

/// One round in company, again if the host was held up until the best-effort kernel had ended.
void round_beside(background_job& background, critical_job& critical, separation how, times& all) {
  for (int attempt = 0; attempt < 3; ++attempt) {
    times found;
    double tiles_per_us = 0;
    background.start(how);
    critical.sample(found);
    if (!background.stop(tiles_per_us)) continue;
    all.latency.insert(all.latency.end(), found.latency.begin(), found.latency.end());
    all.kernel.insert(all.kernel.end(), found.kernel.begin(), found.kernel.end());
    all.tiles_per_us.push_back(tiles_per_us);
    return;
  }
  throw std::runtime_error("the best-effort kernel ended before the samples were taken");
}

void domains_row(benchmark::State& state, separation how) {
  if (how.domain && attribute(cudaDevAttrMemSyncDomainCount) < 2) {
    throw std::runtime_error("this device has one memory-sync domain");
  }
  if (how.window && attribute(cudaDevAttrMaxAccessPolicyWindowSize) == 0) {
    throw std::runtime_error("this device has no access-policy windows");
  }
  bench::cuda_memory memory;
  critical_job critical(memory);
  background_job background(memory);
  times unused;
  times alone;
  times same;  // without any separation, interleaved
  times apart;
  // Loads both kernels before one of them waits for the other.
  critical.sample(unused);
  round_beside(background, critical, how, unused);
  for (int i = 0; i < rounds; ++i) {
    critical.sample(alone);
    round_beside(background, critical, {}, same);
    round_beside(background, critical, how, apart);
  }
  critical.check();
  background.check();

  const auto at = [](const std::vector<double>& us, double q) { return bench::quantile(us, q); };
  state.SetIterationTime(at(apart.latency, 0.5) * 1e-6);
  state.counters["latency_p50_us"] = at(apart.latency, 0.5);
  state.counters["latency_p99_us"] = at(apart.latency, 0.99);
  state.counters["kernel_p50_us"] = at(apart.kernel, 0.5);
  state.counters["kernel_p99_us"] = at(apart.kernel, 0.99);
  state.counters["alone_latency_p50_us"] = at(alone.latency, 0.5);
  state.counters["alone_latency_p99_us"] = at(alone.latency, 0.99);
  state.counters["alone_kernel_p50_us"] = at(alone.kernel, 0.5);
  state.counters["alone_kernel_p99_us"] = at(alone.kernel, 0.99);
  state.counters["kernel_p50_ratio_to_same"] = at(apart.kernel, 0.5) / at(same.kernel, 0.5);
  state.counters["kernel_p99_ratio_to_same"] = at(apart.kernel, 0.99) / at(same.kernel, 0.99);
  state.counters["best_effort_tiles_per_us"] = bench::median(apart.tiles_per_us);
  state.counters["best_effort_ratio_to_same"] =
      bench::median(apart.tiles_per_us) / bench::median(same.tiles_per_us);
  state.counters["samples"] = static_cast<double>(apart.latency.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::have_device()) return 1;
  const std::pair<const char*, separation> rows[] = {{"same", {}},
                                                     {"remote", {.domain = true}},
                                                     {"window", {.window = true}},
                                                     {"remote_window", {true, true}}};
  for (const auto& [name, how] : rows) {
    const separation s = how;
    bench::add_row(std::string("domains/") + name,
                   [s](benchmark::State& state) { domains_row(state, s); });
  }
  return bench::run_benchmarks(argc, argv);
}
