// SPDX-License-Identifier: Apache-2.0
// A body that traps takes the context with it: every waiter is told, nobody hangs. One case only,
// since the process cannot use the GPU afterwards.
#include <support/gpu.hpp>

using namespace std::chrono_literals;

namespace {

struct trap_at {
  unsigned tile;
  unsigned* hits;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) b.atomic_add(hits, 1U);
#if defined(__CUDA_ARCH__)
    if (b.index().x == tile) __trap();
#endif
  }
};

}  // namespace

TEST_CASE("a trapped best-effort body: every waiter is told within a second") {
  unsigned* hits = nullptr;
  CUDA_OK(cudaMalloc(&hits, sizeof(unsigned)));
  {
    cede::scheduler gpu;
    auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
    auto train = gpu.workload({.name = "train"});
    cede::stream s = serve.stream();
    cede::stream t = train.stream();
    cede::stream u = train.stream();
    t.launch({.grid = 5000, .block = 64}, trap_at{4000, hits});
    for (int i = 0; i < 5; ++i) t.launch({.grid = 5000, .block = 64}, trap_at{5001, hits});
    cede::event last = t.record();
    std::atomic<int> told{0};
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> waiters;
    auto expect = [&](auto f) {
      waiters.emplace_back([&told, f] {
        try {
          f();
        } catch (const cede::device_error&) {
          ++told;
        }
      });
    };
    expect([&] { t.synchronize(); });
    expect([&] { last.synchronize(); });
    expect([&] { train.synchronize(); });
    expect([&] { t.run([](cudaStream_t) {}); });
    expect([&] {
      while (true) {
        s.launch({.grid = 1, .block = 32}, trap_at{2, hits});
        s.synchronize();
      }
    });
    expect([&] {
      while (true) {
        u.launch({.grid = 1, .block = 32}, trap_at{2, hits});
        u.synchronize();
      }
    });
    for (auto& w : waiters) w.join();
    const auto took = std::chrono::steady_clock::now() - begin;
    CHECK(told == 6);
    CHECK(took < 1s);
    CHECK_THROWS_AS(t.launch({.grid = 1, .block = 1}, trap_at{2, hits}), cede::device_error);
  }  // and the scheduler can still be destroyed
}
