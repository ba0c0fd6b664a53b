// SPDX-License-Identifier: Apache-2.0
// Waiting on gated work from wherever it would be kept out: it must end, in the right order.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"

using namespace cede_test;

namespace {

struct two_workloads {
  std::vector<int> values = std::vector<int>(64);
  int wrong = 0;
  std::shared_ptr<cede::detail::device> device = cede::detail::make_host_device({.sms = 2});
  cede::scheduler cpu{device};
  // A request that is not closed by hand must not end by itself within a test.
  cede::workload serve =
      cpu.workload({.name = "serve", .priority = cede::latency_critical, .max_hold = 1h});
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  int step = 0;

  void up(cede::stream& on) { on.launch({.grid = 64}, step_up{values.data(), step++, &wrong}); }
  void check(int steps) {
    CHECK(wrong == 0);
    CHECK(step == steps);
    CHECK(values == std::vector<int>(64, steps));
  }
};

}  // namespace

TEST_CASE_FIXTURE(two_workloads, "inside a request a stream waits for training work") {
  for (int i = 0; i < 30; ++i) {
    {
      auto request = serve.request();
      up(t);
      s.wait(t.record());
      up(s);
    }
    REQUIRE(s.synchronize_for(patience));
    t.wait(s.record());
  }
  REQUIRE(t.synchronize_for(patience));
  check(60);
}

TEST_CASE_FIXTURE(two_workloads, "inside a request the host waits for training work") {
  auto request = serve.request();
  up(t);
  REQUIRE(t.synchronize_for(patience));
  up(s);
  REQUIRE(s.synchronize_for(patience));
  up(t);
  REQUIRE(t.record().synchronize_for(patience));
  up(t);
  train.synchronize();
  up(t);
  t.record().synchronize();
  up(t);
  t.run([&](cudaStream_t) { CHECK(values[0] == 6); });
  request.close();
  t.synchronize();
  check(6);
}

TEST_CASE_FIXTURE(two_workloads,
                  "waiting within a request gives way for as long as it takes and no longer") {
  auto request = serve.request();
  up(t);
  t.synchronize();
  std::vector<int> late(1);
  t.launch({.grid = 1}, count_runs{late.data()});
  std::this_thread::sleep_for(20ms);
  CHECK(late[0] == 0);  // the request holds again
  request.close();
  t.synchronize();
  CHECK(late[0] == 1);
}

TEST_CASE_FIXTURE(two_workloads, "nested requests of one thread all give way while it waits") {
  auto outer = serve.request();
  cede::workload other =
      cpu.workload({.name = "other", .priority = cede::latency_critical, .max_hold = 1h});
  auto inner = other.request();
  up(t);
  REQUIRE(t.synchronize_for(patience));
  {
    auto innermost = serve.request();
    up(t);
    s.wait(t.record());
    up(s);
  }
  REQUIRE(s.synchronize_for(patience));
  check(3);
}

TEST_CASE_FIXTURE(two_workloads, "a callable of a critical run waits for training work") {
  s.run([&](cudaStream_t) {
    up(t);
    REQUIRE(t.synchronize_for(patience));
  });
  {
    auto request = serve.request();
    s.run([&](cudaStream_t) {
      up(t);
      REQUIRE(t.synchronize_for(patience));
      cede::stream other = serve.stream();
      other.run([&](cudaStream_t) {
        up(t);
        REQUIRE(t.synchronize_for(patience));
      });
    });
  }
  check(3);
}

TEST_CASE_FIXTURE(two_workloads,
                  "a callable of a critical run makes a stream wait for training work") {
  cede::stream other = serve.stream();
  s.run([&](cudaStream_t) {
    up(t);
    other.wait(t.record());
    up(other);
    REQUIRE(other.synchronize_for(patience));
  });
  check(2);
}

TEST_CASE_FIXTURE(two_workloads, "a critical run holds the gate while its callable works") {
  std::vector<int> runs(1);
  s.run([&](cudaStream_t) {
    t.launch({.grid = 1}, count_runs{runs.data()});
    std::this_thread::sleep_for(20ms);
    CHECK(runs[0] == 0);
  });
  REQUIRE(t.synchronize_for(patience));
  // Also when it began inside a request that ended meanwhile, on another thread.
  auto request = std::make_unique<cede::request>(serve.request());
  s.run([&](cudaStream_t) {
    std::thread([&] { request.reset(); }).join();
    t.launch({.grid = 1}, count_runs{runs.data()});
    std::this_thread::sleep_for(20ms);
    CHECK(runs[0] == 1);
  });
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs[0] == 2);
}

TEST_CASE_FIXTURE(two_workloads,
                  "a critical stream waits for another one that waits for training work") {
  cede::stream second = serve.stream();
  cede::stream third = serve.stream();
  for (int i = 0; i < 20; ++i) {
    auto request = serve.request();
    up(t);
    s.wait(t.record());
    up(s);
    second.wait(s.record());
    up(second);
    third.wait(second.record());
    up(third);
    request.close();
    REQUIRE(third.synchronize_for(patience));
    t.wait(third.record());
  }
  REQUIRE(t.synchronize_for(patience));
  check(80);
}

TEST_CASE_FIXTURE(
    two_workloads,
    "a request waits on the host for a critical stream that waits for training work") {
  train.suspend();  // so that the other thread's wait is certainly in place first
  up(t);
  std::thread([&] {
    s.wait(t.record());
    up(s);
  }).join();
  auto request = serve.request();
  train.resume();
  REQUIRE(s.synchronize_for(patience));
  request.close();
  check(2);
}

TEST_CASE_FIXTURE(
    two_workloads,
    "a critical stream that waits for training work does not keep it out, whatever is put behind") {
  train.suspend();
  up(t);
  s.wait(t.record());
  for (int i = 0; i < 5; ++i) up(s);
  std::vector<int> copied(64);
  s.copy(copied.data(), values.data(), sizeof(int) * 64);
  cede::event end = s.record();
  train.resume();
  REQUIRE(end.synchronize_for(patience));
  CHECK(copied == std::vector<int>(64, 6));
  check(6);
}

TEST_CASE_FIXTURE(two_workloads, "waiting for oneself throws") {
  t.run([&](cudaStream_t) {
    CHECK_THROWS_AS(t.synchronize(), cede::contract_error);
    CHECK_THROWS_AS(static_cast<void>(t.synchronize_for(1ms)), cede::contract_error);
    CHECK_THROWS_AS(t.record().synchronize(), cede::contract_error);
    CHECK_THROWS_AS(t.run([](cudaStream_t) {}), cede::contract_error);
    CHECK_THROWS_AS(train.synchronize(), cede::contract_error);
    CHECK(contains(message_of([&] { t.synchronize(); }), "train/0"));
    up(t);  // queueing behind it is fine
  });
  std::atomic<bool> threw{false};
  t.defer([&](cudaStream_t) {
    threw = !message_of<cede::contract_error>([&] { t.synchronize(); }).empty();
  });
  REQUIRE(t.synchronize_for(patience));
  CHECK(threw);
  check(1);
}

TEST_CASE_FIXTURE(
    two_workloads,
    "a deferred callable that waits for what another has deferred behind it is told") {
  cede::stream other = train.stream();
  std::string message;
  t.defer([&](cudaStream_t) {
    other.defer([](cudaStream_t) {});
    message = message_of<cede::contract_error>([&] { other.synchronize(); });
  });
  REQUIRE(t.synchronize_for(patience));
  CHECK(contains(message, "defer"));
  REQUIRE(other.synchronize_for(patience));
}

TEST_CASE_FIXTURE(two_workloads, "waiting for oneself by way of other streams throws") {
  cede::stream other = train.stream();
  cede::stream third = train.stream();
  t.run([&](cudaStream_t) {
    cede::event before = s.record();
    other.wait(t.record());
    third.wait(other.record());
    up(third);
    s.wait(third.record());
    up(s);
    CHECK(contains(message_of<cede::contract_error>([&] { third.synchronize(); }),
                   "stream train/2: it waits for stream train/0"));
    CHECK_THROWS_AS(static_cast<void>(other.synchronize_for(1h)), cede::contract_error);
    CHECK_THROWS_AS(third.record().synchronize(), cede::contract_error);
    CHECK_THROWS_AS(third.run([](cudaStream_t) { FAIL("it was refused"); }), cede::contract_error);
    CHECK_THROWS_AS(s.synchronize(), cede::contract_error);
    CHECK_THROWS_AS(serve.synchronize(), cede::contract_error);
    CHECK(before.synchronize_for(patience));  // what came before the wait does not wait
  });
  REQUIRE(third.synchronize_for(patience));
  REQUIRE(s.synchronize_for(patience));
  check(2);
}

TEST_CASE_FIXTURE(two_workloads,
                  "a deferred callable that waits for another one is told, however it waits") {
  cede::scheduler small(device, {.max_queued = 3});
  cede::workload learn = small.workload(effort("learn"));
  cede::stream a = learn.stream(), b = learn.stream(), c = learn.stream(), d = learn.stream();
  std::atomic<bool> queued{false};
  std::string through_another, by_run, by_full_queue;
  a.defer([&](cudaStream_t) {
    while (!queued) std::this_thread::sleep_for(1ms);
    through_another = message_of<cede::contract_error>([&] { b.synchronize(); });
    by_run = message_of<cede::contract_error>([&] { c.run([](cudaStream_t) {}); });
    by_full_queue = message_of<cede::contract_error>([&] {
      for (int i = 0; i < 5; ++i) d.launch({.grid = 1}, step_up{values.data(), i, &wrong});
    });
  });
  c.defer([](cudaStream_t) {});
  d.defer([](cudaStream_t) {});
  b.wait(c.record());
  queued = true;
  REQUIRE(a.synchronize_for(patience));
  CHECK(contains(through_another, "on stream learn/2"));
  CHECK(contains(by_run, "defer"));
  CHECK(contains(by_full_queue, "its queue is full"));
  for (auto* stream : {&b, &c, &d}) REQUIRE(stream->synchronize_for(patience));
  CHECK(values[0] == 2);  // the queue held that many behind the deferred callable
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(two_workloads, "waits for a suspended workload wait aloud") {
  struct {
    const char* words;
    std::function<void()> wait;
  } const waits[] = {
      {"stream train/0, whose workload 'train' is suspended", [&] { t.synchronize(); }},
      {"stream train/0, whose workload 'train' is suspended", [&] { t.run([](cudaStream_t) {}); }},
      {"stream serve/0, which waits for stream train/0, whose workload 'train'",
       [&] {
         s.wait(t.record());
         up(s);
         s.synchronize();
       }},
  };
  for (const auto& one : waits) {
    captured_stderr err;
    train.suspend();
    up(t);
    std::thread later([&] {
      CHECK(eventually([&] { return err.says(one.words); }));
      train.resume();
    });
    one.wait();
    later.join();
  }
  check(4);
}

TEST_CASE_FIXTURE(two_workloads,
                  "a callable of a gated run waits for work of its own and of lower priority") {
  cede::workload middle = cpu.workload({.name = "middle", .priority = cede::priority{500}});
  cede::stream m = middle.stream();
  cede::stream m2 = middle.stream();
  m.run([&](cudaStream_t) {
    up(t);
    REQUIRE(t.synchronize_for(patience));
    up(m2);
    REQUIRE(m2.synchronize_for(patience));
    t.run([&](cudaStream_t) { CHECK(values[0] == 2); });
    up(t);
    REQUIRE(t.record().synchronize_for(patience));
  });
  std::atomic<bool> done{false};
  m.defer([&](cudaStream_t) {
    up(t);
    done = t.synchronize_for(patience);
  });
  REQUIRE(m.synchronize_for(patience));
  CHECK(done);
  check(4);
}

TEST_CASE_FIXTURE(two_workloads, "a full queue inside a request gives way until there is room") {
  cede::scheduler small(device, {.max_queued = 2});
  cede::workload answer =
      small.workload({.name = "answer", .priority = cede::latency_critical, .max_hold = 1h});
  cede::workload learn = small.workload(effort("learn"));
  cede::stream l = learn.stream();
  auto request = answer.request();
  for (int i = 0; i < 50; ++i) up(l);
  request.close();
  REQUIRE(l.synchronize_for(patience));
  check(50);
}

TEST_CASE_FIXTURE(two_workloads, "a full queue inside its own run is an error") {
  cede::scheduler small(device, {.max_queued = 3});
  cede::workload learn = small.workload(effort("learn"));
  cede::stream l = learn.stream();
  std::string message;
  l.run([&](cudaStream_t) {
    message = message_of<cede::contract_error>([&] {
      for (int i = 0; i < 10; ++i) up(l);
    });
  });
  CHECK(contains(message, "queue is full"));
  REQUIRE(l.synchronize_for(patience));
  CHECK(wrong == 0);
}

TEST_CASE_FIXTURE(two_workloads,
                  "an event that never comes: limits are kept, short, absurd and past") {
  train.suspend();
  up(t);
  cede::event e = t.record();
  s.wait(e);
  up(s);
  CHECK_FALSE(t.synchronize_for(5ms));
  CHECK_FALSE(e.synchronize_for(0ns));
  CHECK_FALSE(e.synchronize_for(-5s));
  CHECK_FALSE(s.synchronize_for(5ms));
  CHECK_FALSE(s.synchronize_for(-1h));
  std::thread later([&] {
    std::this_thread::sleep_for(10ms);
    train.resume();
  });
  CHECK(e.synchronize_for(std::chrono::nanoseconds::max()));
  CHECK(s.synchronize_for(std::chrono::nanoseconds::max()));
  CHECK(t.synchronize_for(std::chrono::hours(24 * 365 * 200)));
  later.join();
  check(2);
}
