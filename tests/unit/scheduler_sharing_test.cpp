// SPDX-License-Identifier: Apache-2.0
// Several best-effort workloads: levels, shares by weight, suspension.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/random.hpp"

using namespace cede_test;

namespace {

struct note {
  std::atomic<int>* n;
  void operator()(cede::block) const { n->fetch_add(1); }
};
struct slow_note {
  std::atomic<int>* n;
  void operator()(cede::block) const {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    n->fetch_add(1);
  }
};

}  // namespace

TEST_CASE("two workloads share the time by weight") {
  const captured_stderr err;  // the rest is cancelled
  std::atomic<int> heavy{0}, light{0};
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload a = cpu.workload({.name = "heavy", .weight = 3});
  cede::workload b = cpu.workload({.name = "light", .weight = 1});
  a.suspend();
  b.suspend();
  cede::stream s = a.stream();
  cede::stream t = b.stream();
  for (int i = 0; i < 4000; ++i) {
    s.launch({.grid = 10}, slow_note{&heavy});
    t.launch({.grid = 10}, slow_note{&light});
  }
  a.resume();
  b.resume();
  // Time on the device is what is shared, and what the statistics say of it.
  CHECK(eventually([&] { return heavy + light > 2500; }));
  const auto used_a = stats_of(cpu, "heavy").gpu_time;
  const auto used_b = stats_of(cpu, "light").gpu_time;
  const double share =
      static_cast<double>(used_a.count()) / static_cast<double>((used_a + used_b).count());
  CHECK(share > 0.6);
  CHECK(share < 0.87);
  a.suspend();
  b.suspend();
}

TEST_CASE("a workload of a higher level goes first and the lower one leaves for it") {
  std::atomic<int> low{0}, high{0};
  const captured_stderr err;
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload background = cpu.workload({.name = "background"});
  cede::workload middle = cpu.workload({.name = "middle", .priority = cede::priority{500}});
  cede::stream l = background.stream();
  cede::stream m = middle.stream();
  l.launch({.grid = 100'000'000}, note{&low});  // would take minutes
  REQUIRE(eventually([&] { return low > 0; }));
  for (int i = 1; i <= 5; ++i) {
    m.launch({.grid = 10}, note{&high});
    REQUIRE(m.synchronize_for(patience));
    CHECK(high == 10 * i);
    const int then = low;
    REQUIRE(eventually([&] { return low > then; }));  // and comes back
  }
  CHECK(stats_of(cpu, "background").yields >= 5);
  CHECK(stats_of(cpu, "middle").yields == 0);
  background.suspend();
}

TEST_CASE("levels in between: the order of levels is the order of work") {
  marks order;
  cede::scheduler cpu(cede::host_device{.sms = 1});
  std::vector<cede::workload> works;
  std::vector<cede::stream> streams;
  for (int level : {0, 1, 500, 999}) {
    works.push_back(cpu.workload(
        {.name = "level " + std::to_string(level), .priority = cede::priority{level}}));
    works.back().suspend();
    streams.push_back(works.back().stream());
    for (int i = 0; i < 5; ++i) streams.back().launch({.grid = 1}, {.whole = true}, order(level));
  }
  cede::workload serve = cpu.workload(critical());
  {
    auto request = serve.request();  // all become ready while none may start
    for (auto& w : works) w.resume();
    std::this_thread::sleep_for(5ms);
    CHECK(order.size() == 0);
  }
  for (auto& s : streams) REQUIRE(s.synchronize_for(patience));
  auto seen = order.all();
  CHECK(std::is_sorted(seen.rbegin(), seen.rend()));
  CHECK(seen.size() == 20);
}

TEST_CASE("a suspended workload does nothing; resumed, it goes on where it was") {
  std::atomic<int> n{0};
  std::vector<int> runs(3000);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  for (auto form : {cede::form::persistent, cede::form::gated}) {
    std::fill(runs.begin(), runs.end(), 0);
    t.launch({.grid = 3000}, {.form = form, .chunk = 100}, busy_runs{runs.data(), 1000});
    for (int i = 0; i < 10; ++i) {
      train.suspend();
      std::this_thread::sleep_for(500us);
      train.resume();
      std::this_thread::sleep_for(500us);
    }
    train.suspend();
    train.suspend();  // twice is once
    t.launch({.grid = 5}, note{&n});
    std::this_thread::sleep_for(5ms);
    CHECK(n == 0);
    train.resume();
    REQUIRE(t.synchronize_for(patience));
    CHECK(runs == ones(3000));
    CHECK(n == 5);
    n = 0;
  }
}

TEST_CASE("all streams of a workload are suspended as one, the others go on") {
  std::atomic<int> stopped{0}, others{0};
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload train = cpu.workload(effort());
  cede::workload other = cpu.workload(effort("other"));
  std::vector<cede::stream> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(train.stream());
  train.suspend();
  for (auto& s : streams) {
    for (const auto& o :
         {cede::launch_options{}, {.form = cede::form::gated}, {.slices = 2}, {.whole = true}}) {
      s.launch({.grid = 4}, o, note{&stopped});
    }
    s.defer([&](cudaStream_t) { ++stopped; });
  }
  cede::stream o = other.stream();
  for (int i = 0; i < 50; ++i) o.launch({.grid = 1}, note{&others});
  REQUIRE(o.synchronize_for(patience));
  CHECK(others == 50);
  CHECK(stopped == 0);
  train.resume();
  train.synchronize();
  CHECK(stopped == 5 * 17);
}

TEST_CASE("latency-critical workloads cannot be suspended") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical("front"));
  CHECK(contains(message_of<cede::contract_error>([&] { serve.suspend(); }), "front"));
  CHECK_THROWS_AS(serve.resume(), cede::contract_error);
}

TEST_CASE(
    "random suspensions, with streams of both workloads that wait for one another: never a "
    "deadlock") {
  cede_test::random random(5);
  std::vector<int> values(20);
  int wrong = 0;
  int step = 0;
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload a = cpu.workload(effort("a"));
  cede::workload b = cpu.workload({.name = "b", .priority = cede::priority{3}});
  std::vector<cede::stream> streams{a.stream(), a.stream(), b.stream(), b.stream(), serve.stream()};
  std::atomic<bool> stop{false};
  std::thread suspender([&] {
    cede_test::random r(6);
    while (!stop) {
      cede::workload& w = r.chance(0.5) ? a : b;
      w.suspend();
      std::this_thread::sleep_for(std::chrono::microseconds(r.below(500)));
      w.resume();
      std::this_thread::sleep_for(std::chrono::microseconds(r.below(300)));
    }
  });
  cede::event last;
  for (int i = 0; i < 800; ++i) {
    cede::stream& s = streams[random.below(streams.size())];
    s.wait(last);
    s.launch({.grid = 20},
             {.form = random.chance(0.5) ? cede::form::persistent : cede::form::gated},
             step_up{values.data(), step++, &wrong});
    last = s.record();
    if (random.chance(0.05)) REQUIRE(last.synchronize_for(patience));
  }
  const bool ended = last.synchronize_for(patience);
  stop = true;
  suspender.join();
  REQUIRE(ended);
  for (auto& s : streams) REQUIRE(s.synchronize_for(patience));
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(20, step));
}

TEST_CASE("a producer is slowed down to a small queue, and nothing is lost") {
  std::vector<int> values(10);
  int wrong = 0;
  for (std::size_t most : {2U, 3U, 17U}) {
    std::fill(values.begin(), values.end(), 0);
    cede::scheduler cpu(cede::host_device{.sms = 1}, {.max_queued = most});
    cede::workload train = cpu.workload(effort());
    cede::stream t = train.stream();
    for (int i = 0; i < 300; ++i) {
      t.launch({.grid = 10}, step_up{values.data(), i, &wrong});
      if (i % 10 == 0) t.wait(t.record());  // of itself: nothing
      if (i % 50 == 0) t.run([](cudaStream_t) {});
    }
    REQUIRE(t.synchronize_for(patience));
    CHECK(wrong == 0);
    CHECK(values == std::vector<int>(10, 300));
  }
}

TEST_CASE("a full queue of a suspended workload waits aloud for somebody to resume it") {
  captured_stderr err;
  std::atomic<int> n{0};
  cede::scheduler cpu(cede::host_device{.sms = 1}, {.max_queued = 2});
  cede::workload train = cpu.workload(effort("asleep"));
  cede::stream t = train.stream();
  train.suspend();
  std::thread later([&] {
    CHECK(eventually([&] { return err.says("asleep/0"); }));
    train.resume();
  });
  for (int i = 0; i < 4; ++i) t.launch({.grid = 1}, note{&n});
  later.join();
  REQUIRE(t.synchronize_for(patience));
  CHECK(n == 4);
  CHECK(err.says("suspended"));
}

TEST_CASE("time on the device, waiting and yields are counted for each workload") {
  std::atomic<int> n{0};
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::workload other = cpu.workload(effort("other"));
  cede::stream t = train.stream();
  for (int i = 0; i < 10; ++i) t.launch({.grid = 10}, slow_note{&n});
  t.synchronize();
  auto stats = stats_of(cpu, "train");
  CHECK(stats.gpu_time >= 10 * 10 * 200us);
  CHECK(stats.longest_tile >= 200us);
  CHECK(stats.waits.total() < stats.gpu_time);
  CHECK(stats_of(cpu, "other").gpu_time == 0ns);
  {
    auto request = serve.request();
    t.launch({.grid = 1}, note{&n});
    std::this_thread::sleep_for(20ms);
  }
  t.synchronize();
  const auto waited = stats_of(cpu, "train").waits.total() - stats.waits.total();
  CHECK(waited >= 10ms);
  const auto waits = stats_of(cpu, "train").waits;
  CHECK(waits.of(cede::wait_cause::critical) >= 10ms);
  CHECK(waits.longest_mostly() == cede::wait_cause::critical);
  CHECK(waits.longest_total() >= 10ms);
  CHECK(contains(cpu.explain(), "for latency-critical work to end"));
  CHECK(cpu.stats().harvested >= 10ms);
  CHECK(cpu.stats().busy >= 10ms);
  t.run([](cudaStream_t) { std::this_thread::sleep_for(3ms); });
  t.synchronize();
  CHECK(stats_of(cpu, "train").opaque_time >= 3ms);
}
