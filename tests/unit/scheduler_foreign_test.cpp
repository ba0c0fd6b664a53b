// SPDX-License-Identifier: Apache-2.0
// A program's own streams, events and memory beside the scheduler's: adopt, record, wait,
// free_after.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"

using namespace cede_test;
using cede::detail::stream_class;

namespace {

struct with_raw_streams {
  std::vector<int> values = std::vector<int>(64);
  int wrong = 0;
  int step = 0;
  std::shared_ptr<cede::detail::device> device = cede::detail::make_host_device({.sms = 2});
  cudaStream_t raw = device->make_stream(stream_class::lane);
  cudaEvent_t event = device->make_event();
  cede::scheduler cpu{device};
  cede::workload serve =
      cpu.workload({.name = "serve", .priority = cede::latency_critical, .max_hold = 1h});
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();

  void up(cede::stream& on) { on.launch({.grid = 64}, step_up{values.data(), step++, &wrong}); }
  /// The same by the program itself, on a raw stream.
  void up_raw(cudaStream_t on) {
    const step_up body{values.data(), step++, &wrong};
    cede::detail::submission what;
    what.kernel = &cede::detail::entry_of<step_up, cede::detail::this_compiler, true>();
    what.body = &body;
    what.geometry = {.grid = 64};
    what.count = 64;
    device->submit(on, what);
  }
  void check(int steps) {
    CHECK(wrong == 0);
    CHECK(step == steps);
    CHECK(values == std::vector<int>(64, steps));
  }
};

}  // namespace

TEST_CASE_FIXTURE(with_raw_streams, "an adopted stream keeps direct work and launches in order") {
  for (auto* work : {&train, &serve}) {
    cede::stream a = work->adopt(raw);
    for (int i = 0; i < 40; ++i) {
      up_raw(raw);
      up(a);
      if (i % 3 == 0) up(a);
      if (i % 5 == 0) up_raw(raw);
      if (i % 7 == 0) a.run([&](cudaStream_t inner) { up_raw(inner); });
    }
    up_raw(raw);
    device->synchronize(raw);
    CHECK(a.synchronize_for(patience));
  }
  check(step);
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "an adopted stream keeps its order through requests and preemptions") {
  steady_requests requests(serve, 100us);
  cede::stream a = train.adopt(raw);
  for (int i = 0; i < 60; ++i) {
    up_raw(raw);
    a.launch({.grid = 64}, {.form = i % 2 == 0 ? cede::form::gated : cede::form::persistent},
             step_up{values.data(), step++, &wrong});
    up(a);
  }
  device->synchronize(raw);
  check(180);
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "synchronising an adopted raw stream waits for work that is held back") {
  cede::stream a = train.adopt(raw);
  auto request = serve.request();
  up(a);
  up_raw(raw);
  CHECK_FALSE(device->query(raw));
  std::thread later([&] {
    std::this_thread::sleep_for(10ms);
    request.close();
  });
  device->synchronize(raw);
  check(2);
  later.join();
}

TEST_CASE_FIXTURE(
    with_raw_streams,
    "an adopted critical stream is the very stream, and held work in front of it is waited for") {
  cede::stream a = serve.adopt(raw);
  a.run([&](cudaStream_t inner) { CHECK(inner == raw); });
  train.suspend();
  up(t);
  a.wait(t.record());
  up_raw(raw);
  up(a);
  train.resume();
  device->synchronize(raw);
  check(3);
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "many operations on an adopted stream do not pile up in front of it") {
  cede::stream a = train.adopt(raw);
  std::atomic<bool> queued{false};
  train.suspend();
  std::thread producer([&] {
    for (int i = 0; i < 600; ++i) up(a);  // more than an adopted stream queues: the call waits
    queued = true;
  });
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(queued);
  train.resume();
  producer.join();
  device->synchronize(raw);
  check(600);
}

TEST_CASE_FIXTURE(with_raw_streams, "the default streams are refused") {
  auto* legacy = reinterpret_cast<cudaStream_t>(0x1);
  for (auto* work : {&train, &serve}) {
    CHECK_THROWS_AS(static_cast<void>(work->adopt(nullptr)), cede::contract_error);
    CHECK_THROWS_AS(static_cast<void>(work->adopt(legacy)), cede::contract_error);
  }
  for (auto* stream : {&t, &s}) {
    CHECK_THROWS_AS(stream->wait(static_cast<cudaStream_t>(nullptr)), cede::contract_error);
    CHECK_THROWS_AS(stream->wait(legacy), cede::contract_error);
    CHECK_THROWS_AS(stream->wait(static_cast<cudaEvent_t>(nullptr)), cede::contract_error);
    CHECK_THROWS_AS(stream->record(nullptr), cede::contract_error);
  }
  const auto message = message_of([&] { static_cast<void>(train.adopt(nullptr)); });
  CHECK(contains(message, "train"));
  CHECK(contains(message, "default stream"));
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "a user's event recorded on a gated stream stands for the last tile") {
  steady_requests requests(serve, 200us);
  for (int i = 0; i < 30; ++i) {
    up(t);
    up(t);
    t.record(event);
    device->wait_event(raw, event);
    up_raw(raw);
    t.wait(raw);
  }
  REQUIRE(t.synchronize_for(patience));
  device->synchronize(raw);
  check(90);
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "a user's event recorded on held-back work is not done before it") {
  train.suspend();
  up(t);
  t.record(event);
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(device->event_done(event));
  train.resume();
  CHECK(eventually([&] { return device->event_done(event); }));
  check(1);
  t.record(event);  // nothing pending: done at once
  CHECK(eventually([&] { return device->event_done(event); }));
}

TEST_CASE_FIXTURE(with_raw_streams, "a critical stream records a user's event behind its work") {
  door d;
  s.launch({.grid = 1}, d.tile());
  s.record(event);
  REQUIRE(d.reached());
  CHECK_FALSE(device->event_done(event));
  d.open();
  CHECK(eventually([&] { return device->event_done(event); }));
  s.synchronize();
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "streams of both kinds wait for the program's own events and streams") {
  for (auto* stream : {&t, &s}) {
    for (int i = 0; i < 20; ++i) {
      up_raw(raw);
      if (i % 2 == 0) {
        device->record_event(raw, event);
        stream->wait(event);
      } else {
        stream->wait(raw);
      }
      up(*stream);
      REQUIRE(stream->synchronize_for(patience));
    }
  }
  check(80);
}

TEST_CASE_FIXTURE(
    with_raw_streams,
    "a critical stream that waits for the program's stream lets training go on meanwhile") {
  // The program's stream waits for training: were the critical stream counted, none of the three
  // would move.
  auto request = serve.request();
  up(t);
  t.record(event);
  device->wait_event(raw, event);
  up_raw(raw);
  s.wait(raw);
  up(s);
  request.close();
  REQUIRE(s.synchronize_for(patience));
  check(3);
}

TEST_CASE("free_after frees behind the last use and not before") {
  auto device = cede::detail::make_host_device({.sms = 2});
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  // The address sanitizer sees a use after the free; without it the sums would be wrong now and
  // then.
  steady_requests requests(serve, 300us);
  for (auto* work : {&train, &serve}) {
    cede::stream s = work->stream();
    std::vector<int> sums(50);
    for (int i = 0; i < 50; ++i) {
      auto* memory = static_cast<int*>(std::malloc(64 * sizeof(int)));
      s.fill(memory, 0, 64 * sizeof(int));
      s.launch({.grid = 64}, count_runs{memory});
      struct add_up {
        const int* from;
        int* to;
        CEDE_BODY void operator()(cede::block b) const { b.atomic_add(to, from[b.index().x]); }
      };
      s.launch({.grid = 64}, add_up{memory, &sums[static_cast<std::size_t>(i)]});
      s.free_after(memory);
    }
    s.free_after(nullptr);
    REQUIRE(s.synchronize_for(patience));
    CHECK(sums == std::vector<int>(50, 64));
  }
}

namespace {

/// Counts what the device was told to free; all else goes to a host device.
class counting_release : public cede_test::forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  void release(void* memory) override {
    released.fetch_add(1);
    forwarding_device::release(memory);
  }
  std::atomic<int> released{0};
};

}  // namespace

TEST_CASE("free_after does not stop what the free would have to wait for") {
  auto device = std::make_shared<counting_release>(cede::detail::make_host_device({.sms = 2}));
  cudaStream_t raw = device->make_stream(stream_class::lane);
  cudaEvent_t event = device->make_event();
  std::vector<int> runs(8);
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  cede::stream a = train.adopt(raw);
  int launches = 0;
  auto go = [&](cede::stream& on) {
    on.launch({.grid = 8}, count_runs{runs.data()});
    ++launches;
  };
  SUBCASE("an adopted stream with more queued behind") {
    go(a);
    a.free_after(std::malloc(8));
    go(a);
    go(a);
    device->synchronize(raw);
  }
  SUBCASE("a user's event waits for what is queued behind") {
    go(t);
    t.free_after(std::malloc(8));
    go(t);
    t.record(event);
    go(t);
  }
  SUBCASE("a critical stream waits for what is queued behind") {
    train.suspend();
    go(t);
    t.free_after(std::malloc(8));
    go(t);
    s.wait(t.record());
    go(s);
    train.resume();
    REQUIRE(s.synchronize_for(patience));
  }
  SUBCASE("a callable that waits for other work") {
    cede::stream other = train.stream();
    t.run([&](cudaStream_t) {
      other.free_after(std::malloc(8));
      go(other);
      REQUIRE(other.synchronize_for(patience));
    });
  }
  SUBCASE("steady work on two streams") {
    cede::stream other = train.stream();
    for (int i = 0; i < 100; ++i) {
      go(t);
      go(other);
      t.free_after(std::malloc(8));
    }
    REQUIRE(other.synchronize_for(patience));
  }
  REQUIRE(t.synchronize_for(patience));
  train.synchronize();
  CHECK(eventually([&] { return device->released >= 1; }));
  CHECK(runs == std::vector<int>(8, launches));
}

TEST_CASE("memory is freed while training goes on without a pause") {
  auto device = std::make_shared<counting_release>(cede::detail::make_host_device({.sms = 2}));
  std::vector<int> runs(16);
  cede::scheduler cpu(device);
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  int launches = 0;
  // Always two in flight: without being held up for it, there is never a moment for the free.
  CHECK(eventually([&] {
    t.launch({.grid = 16}, busy_runs{runs.data(), 2000});
    if (launches++ == 20) t.free_after(std::malloc(100));
    return device->released == 1;
  }));
  t.synchronize();
  CHECK(runs == std::vector<int>(16, launches));
}
