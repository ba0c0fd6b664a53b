// SPDX-License-Identifier: Apache-2.0
// The scheduler on a GPU: order, exactness under requests, CUDA's own waits, memory.
#include <support/gpu.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <thread>

using namespace test;
using namespace std::chrono_literals;

namespace {

__global__ void plain_add(unsigned* p, unsigned v) { *p += v; }
__global__ void plain_copy(unsigned* to, const unsigned* from) { *to = *from; }

cede::workload_options serve_options() {
  return {.name = "serve", .priority = cede::latency_critical};
}
cede::workload_options train_options(const char* name = "train") {
  return {.name = name, .priority = cede::best_effort};
}

/// Each launch adds `v` to every element, tile by tile: launches out of order or doubled tiles
/// show.
struct chain_step {
  unsigned* data;
  unsigned n;
  unsigned step;
  unsigned* errors;
  int rounds;
  CEDE_BODY void operator()(cede::block b) const {
    const unsigned i = b.index().x * b.size() + b.thread_rank();
    if (i >= n) return;
    unsigned spin = i;
    for (int r = 0; r < rounds; ++r) spin = mix(spin);
    if (data[i] != step) b.atomic_add(errors, 1U);
    data[i] = step + 1 + (spin == 0x12345 ? 0 : 0);
  }
};

struct touch {
  unsigned* p;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) b.atomic_add(p, 1U);
  }
};

}  // namespace

TEST_CASE("launches of a stream keep their order through thousands of requests") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  for (auto [form, chunk] :
       {std::pair{cede::form::persistent, 0U}, std::pair{cede::form::gated, 2048U}}) {
    auto train = gpu.workload(train_options());
    cede::stream s = serve.stream();
    cede::stream t = train.stream();
    constexpr unsigned n = 1U << 22U;
    const int steps = raises(400);
    buffer<unsigned> data(n), errors(1), answers(1);
    std::atomic<bool> stop{false};
    std::thread service([&] {
      while (!stop.load()) {
        {
          auto request = serve.request();
          for (int i = 0; i < 3; ++i) s.launch({.grid = 8, .block = 32}, touch{answers.get()});
        }
        s.synchronize();
        std::this_thread::sleep_for(300us);
      }
    });
    for (int step = 0; step < steps; ++step) {
      t.launch({.grid = n / 256, .block = 256}, {.form = form, .chunk = chunk},
               chain_step{data.get(), n, static_cast<unsigned>(step), errors.get(), 100});
    }
    CHECK(t.synchronize_for(120s));
    stop = true;
    service.join();
    CHECK(errors.read()[0] == 0);
    CHECK(data.read() == std::vector<unsigned>(n, static_cast<unsigned>(steps)));
    for (const auto& w : gpu.stats().workloads) {
      if (w.name == "train" && w.launches == static_cast<std::uint64_t>(steps)) {
        MESSAGE(w.name, ": ", w.yields, " yields, ", w.resumes, " resumes");
      }
    }
  }
}

TEST_CASE("kernel, then event, then copy: neither before the last tile is done (S24)") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  cudaStream_t other = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  cudaEvent_t behind = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&behind, cudaEventDisableTiming));
  constexpr unsigned tiles = 3000;
  unsigned* copied = nullptr;
  CUDA_OK(cudaHostAlloc(&copied, tiles * sizeof(unsigned), cudaHostAllocDefault));
  for (int round = 0; round < 20; ++round) {
    buffer<unsigned> hits(tiles), seen(1);
    std::fill_n(copied, tiles, 0U);
    {
      auto request = serve.request();  // the launch is held back from the start
      t.launch({.grid = tiles, .block = 32}, spin_cycles{20000, hits.get()});
      t.record(behind);
      CUDA_OK(cudaStreamWaitEvent(other, behind, 0));
      CUDA_OK(
          cudaMemcpyAsync(copied, hits.get(), tiles * sizeof(unsigned), cudaMemcpyDefault, other));
      t.copy(seen.get(), hits.get() + tiles - 1, sizeof(unsigned));
      std::this_thread::sleep_for(2ms);
      CHECK(cudaEventQuery(behind) == cudaErrorNotReady);
      static_cast<void>(cudaGetLastError());
    }
    for (int i = 0; i < 5; ++i) {  // and preempted on the way
      auto request = serve.request();
      s.launch({.grid = 4, .block = 32}, touch{seen.get()});
    }
    CUDA_OK(cudaStreamSynchronize(other));
    for (unsigned i = 0; i < tiles; ++i) REQUIRE(copied[i] == 1);
    t.synchronize();
  }
  cudaFreeHost(copied);
  cudaEventDestroy(behind);
  cudaStreamDestroy(other);
}

TEST_CASE("cudaDeviceSynchronize waits for work that is held back") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream t = train.stream();
  for (int round = 0; round < 20; ++round) {
    buffer<unsigned> hits(2000);
    auto request = std::make_unique<cede::request>(serve.request());
    t.launch({.grid = 2000, .block = 32}, spin_cycles{5000, hits.get()});
    std::thread later([&] {
      std::this_thread::sleep_for(5ms);
      request.reset();
    });
    CUDA_OK(cudaDeviceSynchronize());
    CHECK(t.record().done());
    later.join();
    CHECK(hits.read() == std::vector<unsigned>(2000, 1));
  }
}

TEST_CASE("an adopted stream keeps the order of direct work and launches through cede") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cudaStream_t mine = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking));
  buffer<unsigned> value(1), copy(1);
  {
    cede::stream t = train.adopt(mine);
    cede::stream s = serve.stream();
    for (unsigned round = 0; round < 100; ++round) {
      plain_add<<<1, 1, 0, mine>>>(value.get(), 1);
      t.launch({.grid = 1000, .block = 32}, touch{value.get()});
      plain_add<<<1, 1, 0, mine>>>(value.get(), 1);
      if (round % 10 == 0) {
        auto request = serve.request();
        s.launch({.grid = 4, .block = 32}, touch{copy.get()});
      }
    }
    CUDA_OK(cudaStreamSynchronize(mine));
    CHECK(value.read()[0] == 100 * 1002);
    t.synchronize();
  }
  cudaStreamDestroy(mine);
  CHECK_THROWS_AS(static_cast<void>(train.adopt(nullptr)), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(train.adopt(cudaStreamLegacy)), cede::contract_error);
}

TEST_CASE("many streams parked in waits never hold up the lanes that must end them") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  constexpr int count = 96;
  std::vector<cudaStream_t> raw(count);
  std::vector<cede::stream> adopted;
  buffer<unsigned> value(count);
  for (auto& r : raw) {
    CUDA_OK(cudaStreamCreateWithFlags(&r, cudaStreamNonBlocking));
    adopted.push_back(train.adopt(r));
  }
  cede::stream s = serve.stream();
  {
    // More than the device has queues for: the calls in excess wait for room, and this request
    // gives way meanwhile, or they would wait for ever.
    auto request = serve.request();
    for (int i = 0; i < count; ++i) {
      for (int k = 0; k < 5; ++k)
        adopted[i].launch({.grid = 10, .block = 32}, touch{value.get() + i});
    }
    s.launch({.grid = 1, .block = 32}, touch{value.get()});
    CHECK(s.synchronize_for(5s));
  }
  for (auto& t : adopted) REQUIRE_MESSAGE(t.synchronize_for(10s), gpu.explain());
  auto got = value.read();
  --got[0];
  CHECK(got == std::vector<unsigned>(count, 50));
  adopted.clear();
  for (auto r : raw) cudaStreamDestroy(r);
}

TEST_CASE("opaque work: on this thread, after all before it, before all behind it") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  buffer<unsigned> value(1), snapshot(1);
  for (int i = 0; i < 50; ++i) {
    t.launch({.grid = 500, .block = 32}, touch{value.get()});
    const auto here = std::this_thread::get_id();
    t.run([&](cudaStream_t raw) {
      CHECK(std::this_thread::get_id() == here);
      plain_copy<<<1, 1, 0, raw>>>(snapshot.get(), value.get());
      plain_add<<<1, 1, 0, raw>>>(value.get(), 1);
    });
    t.defer([p = value.get()](cudaStream_t raw) { plain_add<<<1, 1, 0, raw>>>(p, 1); });
    if (i % 5 == 0) {
      s.run([&](cudaStream_t raw) { plain_add<<<1, 1, 0, raw>>>(snapshot.get(), 0); });
    }
    t.synchronize();
    REQUIRE(snapshot.read()[0] == static_cast<unsigned>(i) * 502 + 500);
  }
  CHECK(value.read()[0] == 50 * 502);
}

TEST_CASE("waiting for gated work inside a request does not deadlock") {
  {
    buffer<unsigned> two(2);
    plain_copy<<<1, 1>>>(two.get(), two.get() + 1);  // loaded before work is shared
    CUDA_OK(cudaDeviceSynchronize());
  }
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  for (int i = 0; i < 50; ++i) {
    buffer<unsigned> hits(1000), seen(1);
    {
      auto request = serve.request();
      t.launch({.grid = 1000, .block = 32}, spin_cycles{10000, hits.get()});
      s.wait(t.record());
      s.run([&](cudaStream_t raw) { plain_copy<<<1, 1, 0, raw>>>(seen.get(), hits.get() + 999); });
    }
    REQUIRE_MESSAGE(s.synchronize_for(10s), gpu.explain());
    CHECK(seen.read()[0] == 1);
    auto request = serve.request();
    t.launch({.grid = 1000, .block = 32}, spin_cycles{10000, hits.get()});
    REQUIRE_MESSAGE(t.synchronize_for(10s), gpu.explain());
  }
}

TEST_CASE(
    "cudaFree while a launch is held back returns, with a message; free_after is the remedy") {
  cede::scheduler gpu(cede::scheduler_options{.stuck_after = 300ms});
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  buffer<unsigned> hits(1000);
  void* victim = nullptr;
  SUBCASE("the trap: a plain cudaFree comes back early or in time, it never hangs") {
    CUDA_OK(cudaMalloc(&victim, 1 << 20));
    auto request = std::make_unique<cede::request>(serve.request());
    t.launch({.grid = 1000, .block = 32}, spin_cycles{5000, hits.get()});
    std::thread later([&] {
      std::this_thread::sleep_for(50ms);
      request.reset();  // the launch is resumed while cudaFree holds the driver's lock
    });
    const auto begin = std::chrono::steady_clock::now();
    CUDA_OK(cudaFree(victim));
    const auto took = std::chrono::steady_clock::now() - begin;
    MESSAGE("cudaFree returned after ", std::chrono::duration<double, std::milli>(took).count(),
            " ms");
    CHECK(took < 5s);
    later.join();
    CHECK(t.synchronize_for(10s));
    CHECK(hits.read() == std::vector<unsigned>(1000, 1));
  }
  SUBCASE("the remedy: free_after returns at once and frees behind the last tile") {
    unsigned* used = nullptr;
    CUDA_OK(cudaMalloc(&used, 1000 * sizeof(unsigned)));
    CUDA_OK(cudaMemset(used, 0, 1000 * sizeof(unsigned)));
    std::size_t before = 0;
    std::size_t after = 0;
    std::size_t total = 0;
    CUDA_OK(cudaMalloc(&victim, std::size_t{64} << 20U));
    CUDA_OK(cudaMemGetInfo(&before, &total));
    {
      auto request = serve.request();
      t.launch({.grid = 1000, .block = 32}, spin_cycles{5000, used});
      const auto begin = std::chrono::steady_clock::now();
      t.free_after(used);
      t.free_after(victim);
      CHECK(std::chrono::steady_clock::now() - begin < 100ms);
      std::this_thread::sleep_for(20ms);
    }
    REQUIRE(t.synchronize_for(10s));
    const auto begin = std::chrono::steady_clock::now();
    do {
      std::this_thread::sleep_for(1ms);
      CUDA_OK(cudaMemGetInfo(&after, &total));
    } while (after < before + (std::size_t{32} << 20U) &&
             std::chrono::steady_clock::now() - begin < 5s);
    CHECK(after >= before + (std::size_t{32} << 20U));
  }
}

namespace {
template <int N>
__global__ void never_loaded_before(unsigned* p) {
  *p = N;
}
}  // namespace

TEST_CASE(
    "first launch of a kernel while a stream waits for gated work: right, or a sentence; never a "
    "hang") {
  // Loading waits for all streams, one of which waits for work that cannot be launched until the
  // load is done. Whoever has the driver load eagerly never meets this.
  cede::scheduler gpu(cede::scheduler_options{.stuck_after = 200ms});
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  buffer<unsigned> hits(1000), seen(1);
  bool right = false;
  std::string said;
  try {
    {
      auto request = serve.request();
      t.launch({.grid = 1000, .block = 32}, spin_cycles{10000, hits.get()});
      s.wait(t.record());
      s.run([&](cudaStream_t raw) { never_loaded_before<7><<<1, 1, 0, raw>>>(seen.get()); });
    }
    right = s.synchronize_for(10s) && t.synchronize_for(10s);
  } catch (const cede::error& e) {
    said = e.what();
  }
  MESSAGE((right ? std::string("right") : said));
  const bool worded = said.find("CUDA_MODULE_LOADING=EAGER") != std::string::npos;
  CHECK((right || worded));
}

TEST_CASE(
    "ten thousand best-effort launches queued: a latency-critical launch still goes through") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  buffer<unsigned> value(1), answer(1);
  const int launches = raises(10000);
  for (int i = 0; i < launches; ++i) t.launch({.grid = 100, .block = 32}, touch{value.get()});
  for (int i = 0; i < 200; ++i) {
    s.launch({.grid = 1, .block = 32}, touch{answer.get()});
    REQUIRE(s.synchronize_for(5s));
  }
  REQUIRE(t.synchronize_for(60s));
  CHECK(value.read()[0] == static_cast<unsigned>(launches) * 100);
  CHECK(answer.read()[0] == 200);
}

TEST_CASE("suspend and resume two streams that wait on each other, at random") {
  cede::scheduler gpu;
  auto train = gpu.workload(train_options());
  cede::stream a = train.stream();
  cede::stream b = train.stream();
  buffer<unsigned> value(2);
  std::atomic<bool> stop{false};
  std::thread switcher([&] {
    std::mt19937 random(4);
    while (!stop.load()) {
      train.suspend();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      train.resume();
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
  });
  for (int i = 0; i < raises(300); ++i) {
    a.launch({.grid = 200, .block = 32}, touch{value.get()});
    b.wait(a.record());
    b.launch({.grid = 200, .block = 32}, touch{value.get() + 1});
    a.wait(b.record());
  }
  CHECK(a.synchronize_for(60s));
  CHECK(b.synchronize_for(60s));
  stop = true;
  switcher.join();
  CHECK(value.read() == std::vector<unsigned>(2, static_cast<unsigned>(raises(300)) * 200));
}

TEST_CASE(
    "one scheduler per device in a process; slices and whole launches give way between pieces") {
  cede::scheduler first;
  cede::scheduler second;
  auto serve = first.workload(serve_options());
  auto train = second.workload(train_options("sliced"));
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  CHECK(first.stats().workloads.size() == second.stats().workloads.size());
  buffer<unsigned> hits(5000), answer(1);
  for (int i = 0; i < 10; ++i)
    t.launch({.grid = 5000, .block = 64}, {.slices = 16}, spin_cycles{3000, hits.get()});
  t.launch({.grid = 5000, .block = 64}, {.whole = true}, spin_cycles{3000, hits.get()});
  for (int i = 0; i < 50; ++i) {
    s.launch({.grid = 1, .block = 32}, touch{answer.get()});
    REQUIRE(s.synchronize_for(5s));
  }
  REQUIRE(t.synchronize_for(20s));
  CHECK(hits.read() == std::vector<unsigned>(5000, 11));
}

TEST_CASE("misuse on the device: sentences, and the scheduler goes on") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  buffer<unsigned> value(1);
  CHECK_THROWS_AS(t.launch({.grid = 1, .block = 2048}, touch{value.get()}), cede::invalid_argument);
  CHECK_THROWS_AS(s.launch({.grid = 1, .block = 2048}, touch{value.get()}), cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 1, .block = 32, .shared = 1 << 20}, touch{value.get()}),
                  cede::invalid_argument);
  CHECK_THROWS_AS(s.launch({.grid = 1, .block = 32, .shared = 1 << 20}, touch{value.get()}),
                  cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = cede::extent(1, 70000), .block = 32}, touch{value.get()}),
                  cede::invalid_argument);
  CHECK_THROWS_AS(t.run([&](cudaStream_t) { t.synchronize(); }), cede::contract_error);
  CHECK_THROWS_AS(t.run([&](cudaStream_t) { throw std::runtime_error("mine"); }),
                  std::runtime_error);
  CHECK_THROWS_AS(s.run([&](cudaStream_t) { throw std::runtime_error("mine"); }),
                  std::runtime_error);
  CHECK_THROWS_AS(static_cast<void>(train.request()), cede::contract_error);
  cede::stream gone = std::move(t);
  CHECK_THROWS_AS(t.synchronize(), cede::contract_error);
  s.launch({.grid = 3, .block = 32}, touch{value.get()});
  gone.launch({.grid = 4, .block = 32}, touch{value.get()});
  CHECK(s.synchronize_for(5s));
  CHECK(gone.synchronize_for(5s));
  CHECK(value.read()[0] == 7);
}

namespace {

/// Adds one where the launch in front has, so that a tile that runs before its launch's turn shows.
/// Neighbours in the array belong to tiles of other launches' other ends.
struct in_order {
  unsigned* x;
  unsigned launch;
  CEDE_BODY void operator()(cede::block b) const {
    const unsigned tile = launch % 2 == 0 ? b.index().x : b.grid().x - 1 - b.index().x;
    unsigned& mine = x[tile * b.size() + b.thread_rank()];
    if (mine == launch) mine = launch + 1;
  }
};

}  // namespace

TEST_CASE("scheduler: launches that overlap keep their order, beside requests") {
  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train", .priority = cede::best_effort});
  auto s = serve.stream();
  auto t = train.stream();
  constexpr unsigned n = 1 << 20;
  buffer<unsigned> x(n), hits(64), out(64 * 128);
  const unsigned launches = sized(2000);
  for (unsigned i = 0; i < launches; ++i)
    t.launch({.grid = n / 256, .block = 256}, {.overlap = true}, in_order{x.get(), i});
  for (int i = 0; i < 100; ++i) {
    s.launch({.grid = 64, .block = 128}, count_tiles{hits.get(), out.get(), 10});
    REQUIRE(s.synchronize_for(patience()));
  }
  REQUIRE(t.synchronize_for(patience()));
  CHECK(x.read() == std::vector<unsigned>(n, launches));
}

TEST_CASE("scheduler: copies and fills in pieces keep order and place beside requests") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload(train_options());
  auto s = serve.stream();
  auto t = train.stream();
  const unsigned n = sized(1U << 24U) + 3;
  buffer<unsigned> there(n), again(n), hits(1);
  unsigned* host = nullptr;
  CUDA_OK(cudaHostAlloc(&host, 2 * sizeof(unsigned) * n, cudaHostAllocDefault));
  unsigned* back = host + n;
  for (unsigned i = 0; i < n; ++i) host[i] = mix(i);
  for (unsigned round = 0; round < 10; ++round) {
    t.fill(again.get(), 0xff, sizeof(unsigned) * n);
    t.copy(there.get(), host, sizeof(unsigned) * n);
    t.copy(again.get(), there.get(), sizeof(unsigned) * n);
    t.copy(back, again.get(), sizeof(unsigned) * n);
    for (int i = 0; i < 20; ++i) {
      s.launch({.grid = 4, .block = 32}, touch{hits.get()});
      REQUIRE(s.synchronize_for(patience()));
      std::this_thread::sleep_for(50us);
    }
    REQUIRE(t.synchronize_for(patience()));
    REQUIRE(std::equal(host, host + n, back));
    host[round] = ~host[round];
  }
  cudaFreeHost(host);
}
