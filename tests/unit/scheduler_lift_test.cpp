// SPDX-License-Identifier: Apache-2.0
// Latency-critical work that waits for gated work behind the scheduler's back lets it in after
// max_hold, aloud; latency-critical work that moves never does. The decision itself is in
// policy_lift_test.cpp.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"

using namespace cede_test;
using cede::detail::stream_class;

namespace {

cede::workload_options impatient(std::chrono::nanoseconds max_hold) {
  return {.name = "serve", .priority = cede::latency_critical, .max_hold = max_hold};
}

/// A service whose streams can be made to wait for training by calls the scheduler does not see.
struct stuck_service {
  captured_stderr err;
  std::vector<int> trained = std::vector<int>(4);
  std::vector<int> served = std::vector<int>(1);
  std::shared_ptr<cede::detail::device> device = cede::detail::make_host_device({.sms = 2});
  cudaEvent_t event = device->make_event();
  cede::scheduler cpu{device};
  cede::workload serve = cpu.workload(impatient(40ms));
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();

  /// Queues training that cannot have begun, with `event` behind it.
  void queue_training() {
    train.suspend();
    t.launch({.grid = 4}, count_runs{trained.data()});
    t.record(event);
  }
  void wait_raw(cudaStream_t raw) { device->wait_event(raw, event); }
  void launch() { s.launch({.grid = 1}, count_runs{served.data()}); }
  /// So many lifts at least: a machine that stalls for max_hold makes what moves look still.
  void check(int launches, std::uint64_t lifts) {
    CHECK(trained == std::vector<int>(4, launches));
    CHECK(cpu.stats().lifts >= lifts);
    CHECK(err.says("max_hold of 40 ms"));
    CHECK(contains(cpu.explain(), "stood still"));
  }
};

}  // namespace

TEST_CASE_FIXTURE(stuck_service, "a stream that waits for training by a raw call lets it in") {
  for (int i = 1; i <= 3; ++i) {
    queue_training();
    s.run([&](cudaStream_t raw) { wait_raw(raw); });
    launch();
    train.resume();
    REQUIRE(s.synchronize_for(patience));
    check(i, static_cast<std::uint64_t>(i));
    CHECK(served[0] == i);
  }
  CHECK(err.says("stream serve/0"));
  CHECK(err.says("cede::stream::wait"));
}

TEST_CASE_FIXTURE(stuck_service, "so does one inside a request, and an adopted one") {
  cudaStream_t raw = device->make_stream(stream_class::lane);
  cede::stream a = serve.adopt(raw);
  queue_training();
  wait_raw(raw);
  {
    auto request = serve.request();
    a.launch({.grid = 1}, count_runs{served.data()});
    train.resume();
    SUBCASE("closed at once") {}
    SUBCASE("left open until it is closed by max_hold") { REQUIRE(a.synchronize_for(patience)); }
  }
  REQUIRE(a.synchronize_for(patience));
  CHECK(served[0] == 1);
  CHECK(trained == std::vector<int>(4, 1));
  CHECK(err.says("max_hold of 40 ms"));
}

TEST_CASE_FIXTURE(stuck_service, "so does a callable of run that waits on the host") {
  queue_training();
  s.run([&](cudaStream_t) {
    train.resume();  // not before: it would begin at once
    REQUIRE(eventually([&] { return device->event_done(event); }));
  });
  check(1, 1);
  CHECK(err.says("callable of run()"));
}

TEST_CASE_FIXTURE(stuck_service, "launches that keep coming behind it do not keep training out") {
  cede::workload shy = cpu.workload({.name = "shy", .hold_off = 20ms});
  t = shy.stream();
  t.launch({.grid = 4}, count_runs{trained.data()});
  // Suspended first, so that the event stands for work that has not begun.
  shy.suspend();
  t.launch({.grid = 4}, count_runs{trained.data()});
  t.record(event);
  s.run([&](cudaStream_t raw) { wait_raw(raw); });
  shy.resume();
  int launches = 0;
  CHECK(eventually([&] {
    launch();
    ++launches;
    return device->event_done(event);
  }));
  REQUIRE(s.synchronize_for(patience));
  CHECK(served[0] == launches);
  CHECK(trained == std::vector<int>(4, 2));
  CHECK(cpu.stats().lifts >= 1);
}

TEST_CASE_FIXTURE(stuck_service, "a neighbour that comes and goes does not keep training out") {
  steady_requests neighbour(cpu.workload(critical("neighbour")), 300us);
  queue_training();
  s.run([&](cudaStream_t raw) { wait_raw(raw); });
  train.resume();
  REQUIRE(s.synchronize_for(patience));
  const unsigned before = neighbour.served();
  CHECK(eventually([&] { return neighbour.served() > before + 10; }));
  check(1, 1);
}

TEST_CASE_FIXTURE(stuck_service, "what has moved again keeps training out again") {
  door d;
  queue_training();
  s.run([&](cudaStream_t raw) { wait_raw(raw); });
  s.launch({.grid = 1}, d.tile());
  train.resume();
  REQUIRE(d.reached());  // it was let go: the training it waited for is done
  check(1, 1);
  t.launch({.grid = 4}, count_runs{trained.data()});
  std::this_thread::sleep_for(5ms);
  const bool kept_out = std::atomic_ref(trained[0]).load() == 1;
  if (cpu.stats().lifts == 1) CHECK(kept_out);  // a machine that stalls may lift it again
  d.open();
  REQUIRE(t.synchronize_for(patience));
}

TEST_CASE_FIXTURE(stuck_service, "nothing is lifted for work that is suspended, or for nobody") {
  queue_training();
  s.run([&](cudaStream_t raw) { wait_raw(raw); });
  std::this_thread::sleep_for(120ms);
  CHECK(trained == std::vector<int>(4, 0));
  CHECK(cpu.stats().lifts == 0);
  CHECK(err.text().empty());
  train.resume();
  REQUIRE(s.synchronize_for(patience));
  check(1, 1);
}

TEST_CASE("a scheduler can end while critical work waits for training by a raw call") {
  captured_stderr err;
  std::vector<int> trained(4), served(1);
  auto device = cede::detail::make_host_device({.sms = 2});
  cudaEvent_t event = device->make_event();
  {
    cede::scheduler cpu(device);
    cede::workload serve = cpu.workload(impatient(30ms));
    cede::workload train = cpu.workload(effort());
    cede::stream s = serve.stream();
    cede::stream t = train.stream();
    train.suspend();
    t.launch({.grid = 4}, count_runs{trained.data()});
    t.record(event);
    s.run([&](cudaStream_t raw) { device->wait_event(raw, event); });
    s.launch({.grid = 1}, count_runs{served.data()});
    train.resume();
  }
  CHECK(trained == std::vector<int>(4, 1));
  CHECK(served[0] == 1);
  CHECK(err.says("max_hold of 30 ms"));
}

TEST_CASE("critical work that never stops moving keeps training out for as long as it likes") {
  captured_stderr err;
  std::vector<int> trained(4);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  const auto max_hold = 1s;  // far longer than a loaded machine takes from launch to launch
  cede::workload serve = cpu.workload(impatient(max_hold));
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  /// Ends only once its successors are queued: the stream is never idle in between.
  struct relay {
    const std::atomic<int>* queued;
    int mine;
    void operator()(cede::block) const {
      while (queued->load() < mine + 3) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  };
  std::atomic<int> queued{0};
  s.launch({.grid = 1}, relay{&queued, 0});
  t.launch({.grid = 4}, count_runs{trained.data()});
  const auto end = std::chrono::steady_clock::now() + 3 * max_hold;
  auto last = std::chrono::steady_clock::now();
  auto longest = 0ns;
  while (last < end) {
    const int mine = ++queued;
    s.launch({.grid = 1}, relay{&queued, mine});
    std::this_thread::sleep_for(2ms);
    longest = std::max<std::chrono::nanoseconds>(longest, std::chrono::steady_clock::now() - last);
    last = std::chrono::steady_clock::now();
  }
  if (longest < max_hold / 4) {  // else the machine stood still, and so did the work
    CHECK(std::atomic_ref(trained[0]).load() == 0);
    CHECK(cpu.stats().lifts == 0);
    CHECK(err.text().empty());
  }
  queued += 10;
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == std::vector<int>(4, 1));
}

TEST_CASE("the first launch on a new scheduler keeps training out like any other") {
  std::vector<int> trained(4);
  for (int i = 0; i < 50; ++i) {
    door d;
    cede::scheduler cpu(cede::host_device{.sms = 2});
    cede::workload serve = cpu.workload(impatient(1h));
    cede::workload train = cpu.workload(effort());
    cede::stream s = serve.stream();
    cede::stream t = train.stream();
    s.launch({.grid = 1}, d.tile());
    t.launch({.grid = 4}, count_runs{trained.data()});
    REQUIRE(d.reached());
    std::this_thread::sleep_for(2ms);
    CHECK(std::atomic_ref(trained[0]).load() == i);
    CHECK(cpu.stats().lifts == 0);
    d.open();
    REQUIRE(t.synchronize_for(patience));
  }
}
