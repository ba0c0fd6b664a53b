// SPDX-License-Identifier: Apache-2.0
// Recorded graphs and CUDA's own on a GPU: a latency-critical one is one launch with the priority
// of its stream, a best-effort one keeps its order beside raises. Every wait of a test is limited.
#include <support/gpu.hpp>

#include <algorithm>
#include <memory>
#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

/// Turns `from` into `from + 1` in every tile and counts the tiles that found something else.
struct step_up {
  unsigned* values;
  unsigned from;
  unsigned* wrong;
  int rounds;
  CEDE_BODY void operator()(cede::block b) const {
    unsigned v = b.index().x;
    for (int r = 0; r < rounds; ++r) v = mix(v + static_cast<unsigned>(r));
    if (b.thread_rank() != 0) return;
    // `v` is used, so that the rounds are not left out.
    if (values[b.index().x] != from || v == 0x12345678U) b.atomic_add(wrong, 1U);
    values[b.index().x] = from + 1;
  }
};

__global__ void add_one(unsigned* p) { atomicAdd(p, 1U); }

/// 0 → 1 → … → steps, copied, then zeroed.
cede::graph chain(unsigned tiles, unsigned steps, int rounds, unsigned* values, unsigned* copied,
                  unsigned* wrong) {
  cede::graph g;
  for (unsigned i = 0; i < steps; ++i)
    g.launch({.grid = tiles, .block = 64}, step_up{values, i, wrong, rounds});
  g.copy(copied, values, tiles * sizeof(unsigned)).fill(values, 0, tiles * sizeof(unsigned));
  return g;
}

/// One of CUDA's graphs: `n` kernels one behind another.
cudaGraphExec_t foreign_chain(unsigned* p, int n) {
  cudaStream_t on = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking));
  CUDA_OK(cudaStreamBeginCapture(on, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < n; ++i) add_one<<<1, 1, 0, on>>>(p);
  cudaGraph_t g = nullptr;
  CUDA_OK(cudaStreamEndCapture(on, &g));
  cudaGraphExec_t exec = nullptr;
  CUDA_OK(cudaGraphInstantiate(&exec, g, cudaGraphInstantiateFlagUseNodePriority));
  CUDA_OK(cudaGraphDestroy(g));
  CUDA_OK(cudaGraphUpload(exec, on));
  CUDA_OK(cudaStreamSynchronize(on));
  CUDA_OK(cudaStreamDestroy(on));
  return exec;
}

template <class T>
bool all(const buffer<T>& b, T value) {
  const auto v = b.read();
  return std::ranges::count(v, value) == static_cast<std::ptrdiff_t>(v.size());
}

}  // namespace

TEST_CASE("a graph gives the same results on every kind of stream, beside raises") {
  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train"});
  const unsigned tiles = sized(4096);
  buffer<unsigned> critical(tiles), critical_copy(tiles), effort(tiles), effort_copy(tiles),
      wrong(1);
  auto answers = serve.stream();
  auto steps = train.stream();
  auto small = std::make_unique<cede::graph>(
      chain(132, 20, 10, critical.get(), critical_copy.get(), wrong.get()));
  const cede::graph large = chain(tiles, 6, 2000, effort.get(), effort_copy.get(), wrong.get());
  answers.launch(*small);  // makes it
  REQUIRE(answers.synchronize_for(patience()));
  const int n = std::min(raises(), 1000);
  for (int i = 0; i < n; ++i) {
    if (i % 10 == 0) steps.launch(large);
    const auto request = serve.request();
    answers.launch(*small);
    if (i % 3 == 0) {
      REQUIRE(answers.synchronize_for(patience()));
    }
  }
  small = nullptr;  // while it may still run
  REQUIRE(answers.synchronize_for(patience()));
  REQUIRE(steps.synchronize_for(patience()));
  CHECK(all(wrong, 0U));
  const auto copied = critical_copy.read();
  CHECK(std::count(copied.begin(), copied.begin() + 132, 20U) == 132);
  CHECK(all(effort_copy, 6U));
  CHECK(all(effort, 0U));
}

TEST_CASE("a graph of CUDA's goes in stream order, alone and as a node") {
  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train"});
  buffer<unsigned> count(1), values(64), copied(64), wrong(1);
  cudaGraphExec_t foreign = foreign_chain(count.get(), 5);
  unsigned expected = 0;
  for (cede::stream s : {serve.stream(), train.stream()}) {
    cede::graph g;
    int calls = 0;
    g.launch({.grid = 64, .block = 64}, step_up{values.get(), 0, wrong.get(), 100})
        .launch({.grid = 64, .block = 64}, step_up{values.get(), 1, wrong.get(), 100})
        .launch(foreign)
        .run([&](cudaStream_t raw) {
          ++calls;
          add_one<<<1, 1, 0, raw>>>(count.get());
        })
        .launch({.grid = 64, .block = 64}, step_up{values.get(), 2, wrong.get(), 100})
        .copy(copied.get(), values.get(), 64 * sizeof(unsigned))
        .fill(values.get(), 0, 64 * sizeof(unsigned));
    for (int i = 0; i < 20; ++i) s.launch(g);
    s.launch(foreign);
    REQUIRE(s.synchronize_for(patience()));
    expected += 20 * 6 + 5;
    CHECK(count.read()[0] == expected);
    CHECK(calls == 20);
    CHECK(all(copied, 3U));
    CHECK(all(values, 0U));
    CHECK(all(wrong, 0U));
    copied.clear();
  }
  CUDA_OK(cudaGraphExecDestroy(foreign));
}

TEST_CASE("a graph is refused whole where a node does not fit the device") {
  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train"});
  buffer<unsigned> values(64), wrong(1);
  cede::graph g;
  g.launch({.grid = 64, .block = 64}, step_up{values.get(), 0, wrong.get(), 1})
      .launch({.grid = 64, .block = 64, .shared = std::size_t{1} << 20U},
              step_up{values.get(), 1, wrong.get(), 1});
  for (cede::stream s : {serve.stream(), train.stream()}) {
    CHECK_THROWS_AS(s.launch(g), cede::invalid_argument);
    REQUIRE(s.synchronize_for(patience()));
  }
  CHECK(all(values, 0U));
}
