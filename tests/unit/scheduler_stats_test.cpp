// SPDX-License-Identifier: Apache-2.0
// What the scheduler counts and times of the latency-critical side, and what it says of both.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"

using namespace cede_test;

namespace {

using clock_type = std::chrono::steady_clock;

/// Makes the dispatcher look rarely; counts its looks.
class slow_looks : public cede::scheduling_policy {
 public:
  void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
    ++looks_;
    std::this_thread::sleep_for(30ms);
    usual_.decide(v, out);
  }
  /// Waits for a look that began after the call.
  void await_look() const {
    const int before = looks_;
    REQUIRE(eventually([&] { return looks_ >= before + 2; }));
  }

 private:
  cede::policy::strict_priority usual_;
  std::atomic<int> looks_{0};
};

/// A workload that has something queued and may not run it keeps the dispatcher looking.
struct beside_queued_work {
  std::shared_ptr<slow_looks> policy = std::make_shared<slow_looks>();
  std::vector<int> runs = std::vector<int>(4);
  cede::scheduler cpu{cede::host_device{.sms = 1}, {.policy = policy}};
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  beside_queued_work() {
    train.suspend();
    t.launch({.grid = 1}, count_runs{runs.data()});
  }
  ~beside_queued_work() { train.resume(); }
};

/// Serves requests of 4 ms each with pauses of the same length; returns how long it had one in
/// hand.
std::chrono::nanoseconds serve_some(cede::workload& serve, int n) {
  cede::stream s = serve.stream();
  std::vector<int> runs(1);
  std::chrono::nanoseconds in_hand{0};
  for (int i = 0; i < n; ++i) {
    const auto begin = clock_type::now();
    {
      auto request = serve.request();
      s.launch({.grid = 1}, count_runs{runs.data()});
      std::this_thread::sleep_for(4ms);
    }
    s.synchronize();
    in_hand += clock_type::now() - begin;
    std::this_thread::sleep_for(4ms);
  }
  return in_hand;
}

}  // namespace

TEST_CASE("busy: requests count from opening to answer though nothing else is queued") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  const auto in_hand = serve_some(serve, 5);
  const auto stats = cpu.stats();
  CHECK(stats.busy >= 5 * 4ms);
  CHECK(stats.busy <= in_hand);
  CHECK(stats.idle >= 5 * 4ms);
}

TEST_CASE_FIXTURE(beside_queued_work,
                  "busy: requests that come and go between two looks are not missed") {
  const auto in_hand = serve_some(serve, 10);
  const auto stats = cpu.stats();
  CHECK(stats.busy >= 10 * 4ms);
  CHECK(stats.busy <= in_hand);
}

TEST_CASE("busy: requests that overlap count once") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  const auto begin = clock_type::now();
  {
    auto first = serve.request();
    auto second = serve.request();
    std::this_thread::sleep_for(5ms);
    first.close();
    std::this_thread::sleep_for(5ms);
    CHECK(cpu.stats().busy >= 10ms);  // so far
  }
  const auto end = clock_type::now();
  const auto busy = cpu.stats().busy;
  CHECK(busy >= 10ms);
  CHECK(busy <= end - begin);
  CHECK(cpu.stats().busy == busy);
}

TEST_CASE_FIXTURE(beside_queued_work,
                  "busy: a launch outside a request counts from its raise to the look that finds "
                  "it done") {
  door d;
  s.launch({.grid = 1}, d.tile());
  const auto begin = clock_type::now();
  policy->await_look();
  const auto seen = clock_type::now();
  CHECK(cpu.stats().busy >= seen - begin);
  d.open();
  s.synchronize();
  policy->await_look();
  const auto busy = cpu.stats().busy;
  std::this_thread::sleep_for(5ms);
  CHECK(cpu.stats().busy == busy);
}

TEST_CASE("a request whose work is done when it closes is answered at that moment") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::stream s = serve.stream();
  std::vector<int> runs(1);
  const auto begin = clock_type::now();
  {
    auto request = serve.request();
    s.launch({.grid = 1}, count_runs{runs.data()});
    s.synchronize();
  }
  const auto end = clock_type::now();
  std::this_thread::sleep_for(5ms);
  const auto stats = stats_of(cpu, "serve");
  REQUIRE(stats.requests == 1);
  CHECK(stats.service.max() <= end - begin);
}

TEST_CASE("latency-critical launches are counted; only requests are answered") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::stream s = serve.stream();
  std::vector<int> runs(3);
  for (int i = 0; i < 20; ++i) s.launch({.grid = 3}, count_runs{runs.data()});
  s.synchronize();
  auto stats = stats_of(cpu, "serve");
  CHECK(stats.launches == 20);
  CHECK(stats.submissions == 20);
  CHECK(stats.tiles == 60);
  CHECK(stats.requests == 0);
  CHECK(contains(cpu.explain(), "'serve' launched 20 times; no request() was answered"));
  {
    auto request = serve.request();
    s.launch({.grid = 3}, count_runs{runs.data()});
  }
  s.synchronize();
  stats = stats_of(cpu, "serve");
  CHECK(stats.launches == 21);
  CHECK(stats.requests == 1);
  CHECK(contains(cpu.explain(), "'serve' launched 21 times; it answered 1 request within "));
}

TEST_CASE("explain says once of what happened once, and promises nothing about the longest tile") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  std::vector<int> runs(1);
  door d;
  const auto wait = d.tile();
  t.launch({.grid = 2000}, [wait](cede::block b) {
    wait(b);
    std::this_thread::sleep_for(100us);
  });
  REQUIRE(d.reached());
  s.launch({.grid = 1}, count_runs{runs.data()});
  std::this_thread::sleep_for(5ms);
  d.open();
  t.synchronize();
  const std::string text = cpu.explain();
  CAPTURE(text);
  CHECK(contains(text, "raised the gates once."));
  CHECK(
      contains(text, "finished 1 of 1 launch in 2 submissions; it gave way once, leaving within"));
  CHECK(contains(text, " of the raise (as seen by the host)"));
  CHECK(contains(text, ": a raise may have to wait that long"));
}

TEST_CASE("explain: of fewer than a hundred the longest stands for nearly all") {
  cede::histogram h;
  h.add(1ms, 98);
  h.add(9ms);
  CHECK(cede::detail::nearly_longest(h) == 9ms);
  h.add(1ms);
  CHECK(cede::detail::nearly_longest(h) < 2ms);
}
