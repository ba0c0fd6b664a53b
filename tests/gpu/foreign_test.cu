// SPDX-License-Identifier: Apache-2.0
// A program's own streams and events beside the scheduler's, on a GPU: what a wait stands for, who
// a stream belongs to, and waits the scheduler cannot see. Every wait of a test is limited.
#include <support/gpu.hpp>

#include <vector>

using namespace test;
using namespace std::chrono_literals;

namespace {

__global__ void spin_then_add(unsigned* p, long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
  atomicAdd(p, 1U);
}

constexpr long long some_ms = 20'000'000;   // about 10 ms
constexpr long long long_ms = 600'000'000;  // about 300 ms

/// Counts itself, and whether it came too early.
struct consume {
  const unsigned* produced;
  unsigned least;
  unsigned* early;
  unsigned* ran;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() != 0) return;
    if (*produced < least) b.atomic_add(early, 1U);
    b.atomic_add(ran, 1U);
  }
};

cudaEvent_t new_event() {
  cudaEvent_t e = nullptr;
  CUDA_OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  return e;
}

cede::workload_options serve_options() {
  return {.name = "serve", .priority = cede::latency_critical};
}

}  // namespace

TEST_CASE("a wait is for the event as it was recorded then, whatever becomes of it") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload({.name = "train"});
  const raw_stream producer, other, mine, ours;
  buffer<unsigned> produced(1), early(1), ran(1), later(1);
  spin_then_add<<<1, 1, 0, other.s>>>(later.get(), 1);  // loads its code
  CUDA_OK(cudaStreamSynchronize(other.s));
  unsigned step = 0;
  for (cede::stream stream :
       {train.stream(), serve.stream(), train.adopt(mine.s), serve.adopt(ours.s)}) {
    for (const int fate : {0, 1, 2}) {
      CAPTURE(fate);
      cudaEvent_t e = new_event();
      spin_then_add<<<1, 1, 0, producer.s>>>(produced.get(), some_ms);
      CUDA_OK(cudaEventRecord(e, producer.s));
      stream.wait(e);
      if (fate == 1) CUDA_OK(cudaEventDestroy(e));
      if (fate == 2) {
        spin_then_add<<<1, 1, 0, other.s>>>(later.get(), long_ms);
        CUDA_OK(cudaEventRecord(e, other.s));
      }
      stream.launch({.grid = 1, .block = 32},
                    consume{produced.get(), ++step, early.get(), ran.get()});
      REQUIRE_MESSAGE(stream.synchronize_for(10s), gpu.explain());
      if (fate == 2) {
        // Not waited for. (On a machine that stalls for so long it may have ended.)
        WARN(cudaEventQuery(e) == cudaErrorNotReady);
        static_cast<void>(cudaGetLastError());
        CUDA_OK(cudaStreamSynchronize(other.s));
      }
      if (fate != 1) CUDA_OK(cudaEventDestroy(e));
    }
  }
  CHECK(early.read()[0] == 0);
  CHECK(ran.read()[0] == step);
}

TEST_CASE("a stream adopted again is the same stream, and belongs to one workload") {
  cede::scheduler gpu;
  auto serve = gpu.workload(serve_options());
  auto train = gpu.workload({.name = "train"});
  const raw_stream raw;
  cede::stream a = train.adopt(raw.s);
  cede::stream b = train.adopt(raw.s);
  CHECK(a.name() == b.name());
  CHECK_THROWS_AS(static_cast<void>(serve.adopt(raw.s)), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(train.adopt(cudaStreamPerThread)), cede::contract_error);
  cudaStream_t inner = nullptr;
  serve.stream().run([&](cudaStream_t r) { inner = r; });
  CHECK_THROWS_AS(static_cast<void>(train.adopt(inner)), cede::contract_error);
  buffer<unsigned> produced(1), early(1), ran(1);
  for (unsigned i = 0; i < 50; ++i) {
    spin_then_add<<<1, 1, 0, raw.s>>>(produced.get(), 1000);
    (i % 2 == 0 ? a : b)
        .launch({.grid = 1, .block = 32}, consume{produced.get(), i + 1, early.get(), ran.get()});
  }
  REQUIRE_MESSAGE(a.synchronize_for(10s), gpu.explain());
  CHECK(early.read()[0] == 0);
  CHECK(ran.read()[0] == 50);
}

TEST_CASE("critical work that waits for training by a raw call lets it in after max_hold") {
  cede::scheduler gpu;
  auto serve =
      gpu.workload({.name = "serve", .priority = cede::latency_critical, .max_hold = 100ms});
  auto train = gpu.workload({.name = "train"});
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  buffer<unsigned> produced(1), early(1), ran(1);
  cudaEvent_t e = new_event();
  for (unsigned i = 1; i <= 3; ++i) {
    train.suspend();
    t.launch({.grid = 1, .block = 32}, consume{produced.get(), 0, early.get(), produced.get()});
    t.record(e);
    s.run([&](cudaStream_t raw) { CUDA_OK(cudaStreamWaitEvent(raw, e, 0)); });
    s.launch({.grid = 1, .block = 32}, consume{produced.get(), i, early.get(), ran.get()});
    train.resume();
    REQUIRE_MESSAGE(s.synchronize_for(10s), gpu.explain());
  }
  CHECK(gpu.stats().lifts == 3);
  CHECK(early.read()[0] == 0);
  CHECK(ran.read()[0] == 3);
  CUDA_OK(cudaEventDestroy(e));
}
