// SPDX-License-Identifier: Apache-2.0
// The latency-critical and the best-effort types of the plan, set to the times in their names on
// the GPU at hand.
#pragma once

#include "adapters/configurations.hpp"
#include "adapters/cublas.hpp"
#include "bodies/saxpy.cuh"
#include "bodies/tensor_gemm.cuh"
#include "common/cuda_memory.cuh"
#include "measure/preemptible.cuh"
#include "measure/tile_times.cuh"
#include "measure/timing.cuh"
#include "scheduler/path.cuh"
#include "scheduler/plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../examples/colocate/service.hpp"
#include "../examples/colocate/training.hpp"

namespace bench::scheduler {

/// One request of a latency-critical workload.
class critical {
 public:
  critical() = default;
  critical(const critical&) = delete;
  critical& operator=(const critical&) = delete;
  virtual ~critical() = default;
  /// Launches what one request takes. Does not wait.
  virtual void submit(path& on) = 0;
};

/// Best-effort work in units that take at least about 200 us, so that marking their ends costs
/// nothing.
class effort {
 public:
  effort() = default;
  effort(const effort&) = delete;
  effort& operator=(const effort&) = delete;
  virtual ~effort() = default;
  /// Launches one unit. Does not wait.
  virtual void submit(path& on) = 0;
  /// P99 of its tiles in a real launch, 0 where that was not measured.
  [[nodiscard]] virtual double tile_p99_us() const { return 0; }
};

/// Multiply-adds that depend on each other, bound by the arithmetic of an SM.
struct arithmetic {
  static constexpr bool barrier_free = true;
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

/// Two blocks of 256 threads keep an SM's arithmetic busy; more would only make tiles longer.
inline constexpr unsigned arithmetic_per_sm = 2;

inline unsigned sms_of_device() {
  int device = 0;
  int sms = 0;
  BENCH_CUDA(cudaGetDevice(&device));
  BENCH_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  return static_cast<unsigned>(sms);
}

/// Microseconds of one of several plain launches back to back.
template <class Body>
double plain_us(timer& clock, const cede::shape& s, const Body& body, int launches) {
  native_launch<Body> all(s, body);
  auto run = [&] {
    return clock.time([&](int) { all.plain(clock.stream()); }, launches, launches <= 64);
  };
  run();
  return median({run(), run(), run()});
}

/// The number of rounds, or of elements, with which `us_of(n)` comes to `wanted_us`: what takes
/// time grows about in proportion, so that a few corrections are enough.
template <class Time>
std::uint32_t fit(double wanted_us, std::uint32_t first, std::uint32_t most, Time&& us_of) {
  double n = first;
  for (int i = 0; i < 5; ++i) {
    n = std::clamp(n * wanted_us / us_of(static_cast<std::uint32_t>(n)), 1.0,
                   static_cast<double>(most));
  }
  return static_cast<std::uint32_t>(n);
}

/// One wave of blocks that takes `us`, `count` times in a row.
class chain : public critical {
 public:
  chain(double us, int count) : kernel_(make(us)), count_(count) {}
  void submit(path& on) override {
    for (int i = 0; i < count_; ++i) on.launch(kernel_);
  }

 private:
  kernel<arithmetic> make(double us) {
    const unsigned blocks = arithmetic_per_sm * sms_of_device();
    const cede::shape s{.grid = blocks, .block = 256};
    float* out = memory_.array<float>(blocks);
    timer clock;
    const std::uint32_t rounds = fit(us, 1024, 1U << 24U, [&](std::uint32_t n) {
      return plain_us(clock, s, arithmetic{n, out}, 20);
    });
    return {s, {rounds, out}};
  }
  cuda_memory memory_;
  kernel<arithmetic> kernel_;
  int count_;
};

/// The same chain recorded into a graph: one launch.
class graph final : public critical {
 public:
  graph(double us, int count) : nodes_(us, count) {
    timer clock;
    path on{.raw = clock.stream()};
    nodes_.submit(on);  // loaded before it is recorded
    clock.finish();
    cudaGraph_t recorded = nullptr;
    BENCH_CUDA(cudaStreamBeginCapture(clock.stream(), cudaStreamCaptureModeThreadLocal));
    nodes_.submit(on);
    BENCH_CUDA(cudaStreamEndCapture(clock.stream(), &recorded));
    BENCH_CUDA(cudaGraphInstantiate(&ready_, recorded, 0));
    BENCH_CUDA(cudaGraphDestroy(recorded));
  }
  ~graph() override { static_cast<void>(cudaGraphExecDestroy(ready_)); }
  void submit(path& on) override {
    on.run([&](cudaStream_t raw) { BENCH_CUDA(cudaGraphLaunch(ready_, raw)); });
  }

 private:
  chain nodes_;
  cudaGraphExec_t ready_ = nullptr;
};

/// A product of NVIDIA's library, in bfloat16.
class library_product {
 public:
  explicit library_product(std::uint32_t extent)
      : extent_(extent),
        a_(memory_.array<std::uint16_t>(elements())),
        b_(memory_.array<std::uint16_t>(elements())),
        c_(memory_.array<std::uint16_t>(elements())),
        product_(clock_.stream()) {
    memory_.fill_bfloat16(a_, elements(), -1, 1, 1);
    memory_.fill_bfloat16(b_, elements(), -1, 1, 2);
    submit_to(clock_.stream());
    clock_.finish();
  }
  void submit_to(cudaStream_t raw) {
    product_.use(raw);
    product_.run(extent_, extent_, extent_, a_, b_, c_);
  }

 private:
  [[nodiscard]] std::size_t elements() const { return std::size_t{extent_} * extent_; }
  std::uint32_t extent_;
  cuda_memory memory_;
  std::uint16_t *a_, *b_, *c_;
  timer clock_;
  cublas_product product_;
};

class critical_product final : public critical {
 public:
  void submit(path& on) override {
    on.run([&](cudaStream_t raw) { product_.submit_to(raw); });
  }

 private:
  library_product product_{2048};
};

/// The main job's transformer on its longest input, three times in a row: about 4 ms. One longer
/// input would take more shared memory than a plain launch has without asking.
class transformer_block final : public critical {
 public:
  void submit(path& on) override {
    model_queue& q = queue_.of(on, {});
    for (int i = 0; i < 3; ++i) service_->answer(q, 0);
  }

 private:
  std::unique_ptr<colocate::service> service_ = colocate::make_cuda_service({512}, 1);
  queue_for_path queue_;
};

inline std::unique_ptr<critical> make_critical(std::string_view name) {
  if (name == "k12") return std::make_unique<chain>(12, 1);
  if (name == "k40") return std::make_unique<chain>(40, 1);
  if (name == "chain20x6") return std::make_unique<chain>(6, 20);
  if (name == "chain20x31") return std::make_unique<chain>(31, 20);
  if (name == "graph20x31") return std::make_unique<graph>(31, 20);
  if (name == "cublas2048") return std::make_unique<critical_product>();
  if (name == "block4ms") return std::make_unique<transformer_block>();
  throw std::invalid_argument("no latency-critical type is called " + std::string(name));
}

/// Launches of one body.
template <class Body>
class body_effort : public effort {
 public:
  body_effort(std::unique_ptr<cuda_memory> memory, const cede::shape& s, const Body& body,
              const cede::launch_options& options, double us)
      : memory_(std::move(memory)),
        kernel_(s, body),
        options_(options),
        launches_(std::max(1, static_cast<int>(std::lround(200 / us)))) {
    timer clock;
    tile_clock tiles(s.tiles());
    note_tiles(tiles, clock.stream(), s, body, options);
    tile_p99_us_ = quantile(tiles.microseconds(), 0.99);
  }
  void submit(path& on) override {
    for (int i = 0; i < launches_; ++i) on.launch(kernel_, options_);
  }
  [[nodiscard]] double tile_p99_us() const override { return tile_p99_us_; }

 private:
  std::unique_ptr<cuda_memory> memory_;
  kernel<Body> kernel_;
  cede::launch_options options_;
  int launches_;
  double tile_p99_us_ = 0;
};

/// Launches of `us`, bound by memory.
inline std::unique_ptr<effort> memory_effort(double us) {
  auto memory = std::make_unique<cuda_memory>();
  // What 6 TB/s would move in that time; no GPU of today is faster outside of its caches.
  const auto most =
      static_cast<std::uint32_t>(std::max(6e6 * us / sizeof(float_4) / 3, double{1U << 20U}));
  auto* x = memory->array<float_4>(most);
  auto* y = memory->array<float_4>(most);
  auto shape_of = [](std::uint32_t fours) {
    return cede::shape{.grid = (fours + 255) / 256, .block = 256};
  };
  timer clock;
  const std::uint32_t fours = fit(us, most / 2, most, [&](std::uint32_t n) {
    return plain_us(clock, shape_of(n), saxpy{n, 0.5F, x, y}, us > 2000 ? 2 : 10);
  });
  const problem_size like = us < 400 ? problem_size::medium : problem_size::large;
  return std::make_unique<body_effort<saxpy>>(
      std::move(memory), shape_of(fours), saxpy{fours, 0.5F, x, y},
      configuration("saxpy", like, cede::form::persistent), us);
}

/// Launches of about 3 ms of tiles that take `us` each.
inline std::unique_ptr<effort> tile_effort(double us) {
  auto memory = std::make_unique<cuda_memory>();
  const unsigned resident = arithmetic_per_sm * sms_of_device();
  const auto waves = static_cast<unsigned>(std::lround(3000 / us));
  const cede::shape s{.grid = resident * waves, .block = 256};
  float* out = memory->array<float>(resident * waves);
  timer clock;
  const std::uint32_t rounds = fit(us, 512, 1U << 24U, [&](std::uint32_t n) {
    return plain_us(clock, s, arithmetic{n, out}, 2) / waves;
  });
  const cede::launch_options options{
      .form = cede::form::persistent, .workers_per_sm = arithmetic_per_sm, .tiles_per_claim = 1};
  return std::make_unique<body_effort<arithmetic>>(std::move(memory), s, arithmetic{rounds, out},
                                                   options, 3000);
}

inline std::unique_ptr<effort> tensor_effort() {
  auto memory = std::make_unique<cuda_memory>();
  // Twice as deep as the suite's large one, so that a launch takes more than 1 ms.
  const tensor_gemm_problem p(*memory, 32768, 16384, 1024);
  const auto options = configuration("tensor_gemm", problem_size::large, cede::form::persistent);
  return std::make_unique<body_effort<tensor_gemm>>(std::move(memory), p.shape, p.body, options,
                                                    1500);
}

/// The main job's training; a unit is a step of 16 launches.
class training_effort final : public effort {
 public:
  void submit(path& on) override {
    // As in the main job: few workers, short tiles.
    training_->step(
        queue_.of(on, {.form = cede::form::persistent, .workers_per_sm = 4, .tiles_per_claim = 1}));
  }

 private:
  // Which symbols it learns does not matter to its speed.
  static std::string text() {
    std::string t(100'000, ' ');
    for (std::size_t i = 0; i < t.size(); ++i) {
      t[i] = static_cast<char>('a' + random_bits(i, 5) % 26);
    }
    return t;
  }
  std::unique_ptr<colocate::training> training_ = colocate::make_cuda_training(text(), 1);
  queue_for_path queue_;
};

class library_effort final : public effort {
 public:
  void submit(path& on) override {
    on.run([&](cudaStream_t raw) { product_.submit_to(raw); });
  }

 private:
  library_product product_{8192};
};

inline std::unique_ptr<effort> make_effort(std::string_view name) {
  if (name == "mem25us") return memory_effort(25);
  if (name == "mem100us") return memory_effort(100);
  if (name == "mem750us") return memory_effort(750);
  if (name == "mem10ms") return memory_effort(10'000);
  if (name == "tile12us") return tile_effort(12);
  if (name == "tile50us") return tile_effort(50);
  if (name == "tile500us") return tile_effort(500);
  if (name == "tensor_gemm") return tensor_effort();
  if (name == "training") return std::make_unique<training_effort>();
  if (name == "cublas_gemm") return std::make_unique<library_effort>();
  throw std::invalid_argument("no best-effort type is called " + std::string(name));
}

}  // namespace bench::scheduler
