// SPDX-License-Identifier: Apache-2.0
// Handles come and go, and the scheduler may go first.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"

using namespace cede_test;

namespace {

/// Counts the streams and words asked for.
class counting_device : public forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  cudaStream_t make_stream(cede::detail::stream_class c) override {
    ++streams;
    return forwarding_device::make_stream(c);
  }
  void destroy_stream(cudaStream_t s) noexcept override {
    --streams;
    forwarding_device::destroy_stream(s);
  }
  void* words(std::size_t bytes, bool shared) override {
    ++words_made;
    return forwarding_device::words(bytes, shared);
  }
  cudaEvent_t make_event() override {
    ++events;
    return forwarding_device::make_event();
  }
  void destroy_event(cudaEvent_t e) noexcept override {
    --events;
    forwarding_device::destroy_event(e);
  }
  std::atomic<int> streams{0};
  std::atomic<int> words_made{0};
  std::atomic<int> events{0};
};

}  // namespace

TEST_CASE("handles that stand for nothing say so") {
  cede::stream none;
  CHECK_THROWS_AS(none.synchronize(), cede::contract_error);
  CHECK_THROWS_AS(none.launch({.grid = 1}, count_runs{nullptr}), cede::contract_error);
  CHECK_THROWS_AS(none.run([](cudaStream_t) {}), cede::contract_error);
  CHECK_THROWS_AS(none.defer([](cudaStream_t) {}), cede::contract_error);
  CHECK_THROWS_AS(none.copy(nullptr, nullptr, 0), cede::contract_error);
  CHECK_THROWS_AS(none.fill(nullptr, 0, 0), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(none.record()), cede::contract_error);
  CHECK_THROWS_AS(none.wait(cede::event{}), cede::contract_error);
  CHECK_THROWS_AS(none.free_after(&none), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(none.name()), cede::contract_error);
  CHECK(contains(message_of([&] { none.synchronize(); }), "synchronize()"));

  cede::event nothing;
  CHECK(nothing.done());
  nothing.synchronize();
  CHECK(nothing.synchronize_for(0ns));
}

TEST_CASE("options of a scheduler that make no sense are refused in words") {
  const cede::host_device one{.sms = 1};
  CHECK_THROWS_AS(cede::scheduler(one, {.max_queued = 1}), cede::invalid_argument);
  for (auto never : {0ms, -1ms, std::chrono::milliseconds::min()}) {
    CHECK_THROWS_AS(cede::scheduler(one, {.stuck_after = never}), cede::invalid_argument);
  }
  CHECK(contains(message_of([&] { cede::scheduler(one, {.stuck_after = -1ms}); }),
                 "stuck_after is -1 ms"));
  CHECK(contains(message_of<cede::invalid_argument>(
                     [&] { cede::scheduler(one, {.timeline = true, .timeline_events = 0}); }),
                 "timeline_events is 0"));
}

TEST_CASE("a limit for what is stuck may be as long as time itself") {
  struct slow_device : forwarding_device {
    using forwarding_device::forwarding_device;
    void submit(cudaStream_t s, const cede::detail::submission& what) override {
      std::this_thread::sleep_for(300ms);  // the guard looks more often
      forwarding_device::submit(s, what);
    }
  };
  captured_stderr err;
  std::vector<int> runs(10);
  cede::scheduler cpu(std::make_shared<slow_device>(cede::detail::make_host_device({.sms = 1})),
                      {.stuck_after = std::chrono::milliseconds::max()});
  cede::stream t = cpu.workload(effort()).stream();
  t.launch({.grid = 10}, count_runs{runs.data()});
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs == ones(10));
  CHECK(err.text().empty());
}

TEST_CASE("a policy belongs to one scheduler at a time") {
  auto policy = std::make_shared<cede::policy::strict_priority>();
  const cede::host_device one{.sms = 1};
  std::vector<int> runs(1);
  cede::stream left;
  {
    cede::scheduler cpu(one, {.policy = policy});
    left = cpu.workload(effort()).stream();
    CHECK(contains(
        message_of<cede::contract_error>([&] { cede::scheduler(one, {.policy = policy}); }),
        "another scheduler uses"));
    auto copy = std::make_shared<cede::policy::strict_priority>(*policy);
    cede::scheduler other(one, {.policy = copy});
  }
  // One that could not be made does not keep it, nor do handles of one that is gone.
  const cede::host_device refuses{.sms = 1, .fault = [](std::string_view operation, std::uint64_t) {
                                    return operation == "words" ? 2 : 0;
                                  }};
  CHECK_THROWS_AS(cede::scheduler(refuses, {.policy = policy}), cede::device_error);
  cede::scheduler next(one, {.policy = policy});
  cede::stream t = next.workload(effort()).stream();
  t.launch({.grid = 1}, count_runs{runs.data()});
  REQUIRE(t.synchronize_for(patience));
}

TEST_CASE("moved-from handles say so, the others work") {
  std::vector<int> runs(1);
  cede::scheduler first(cede::host_device{.sms = 1});
  cede::scheduler cpu(std::move(first));
  CHECK_THROWS_AS(static_cast<void>(first.stats()), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(first.workload(effort())), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(first.explain()), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(first.device()), cede::contract_error);
  cede::workload a = cpu.workload(effort());
  cede::workload b(std::move(a));
  CHECK_THROWS_AS(static_cast<void>(a.stream()), cede::contract_error);
  CHECK_THROWS_AS(a.suspend(), cede::contract_error);
  CHECK_THROWS_AS(a.resume(), cede::contract_error);
  CHECK_THROWS_AS(a.synchronize(), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(a.name()), cede::contract_error);
  CHECK_THROWS_AS(static_cast<void>(a.request()), cede::contract_error);
  cede::stream s = b.stream();
  cede::stream t(std::move(s));
  CHECK_THROWS_AS(s.synchronize(), cede::contract_error);
  t.launch({.grid = 1}, count_runs{runs.data()});
  cede::event e = t.record();
  cede::event f(std::move(e));
  CHECK(e.done());  // NOLINT(bugprone-use-after-move): it stands for nothing now
  f.synchronize();
  CHECK(runs[0] == 1);
  s = t;
  s.launch({.grid = 1}, count_runs{runs.data()});
  t.synchronize();  // copies are the same stream
  CHECK(runs[0] == 2);
}

TEST_CASE("work goes on when the last handle of its stream, workload and scheduler copy is gone") {
  std::vector<int> runs(100);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::event end;
  {
    cede::scheduler copy = cpu;
    cede::workload train = copy.workload(effort());
    train.suspend();
    cede::stream t = train.stream();
    for (int i = 0; i < 20; ++i) t.launch({.grid = 100}, count_runs{runs.data()});
    end = t.record();
    train.resume();
  }
  CHECK(end.synchronize_for(patience));
  CHECK(runs == std::vector<int>(100, 20));
}

TEST_CASE("one latency-critical stream too many is refused in words and leaves nothing behind") {
  auto device = std::make_shared<counting_device>(cede::detail::make_host_device({.sms = 1}));
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  std::vector<cede::stream> all;
  for (int i = 0; i < 4095; ++i) all.push_back(serve.stream());  // the workload is the first
  const int streams = device->streams;
  const int words = device->words_made;
  for (int i = 0; i < 2; ++i) {
    const std::string message =
        message_of<cede::invalid_argument>([&] { static_cast<void>(serve.stream()); });
    CHECK(contains(message, "at most 4096 latency-critical workloads and streams"));
    CHECK(contains(message, "last handle"));
  }
  CHECK_THROWS_AS(static_cast<void>(cpu.workload(critical("more"))), cede::invalid_argument);
  CHECK(device->streams == streams);
  CHECK(device->words_made == words);
  all.pop_back();
  static_cast<void>(serve.stream());
}

TEST_CASE("thousands of streams come and go without growth on the device") {
  auto device = std::make_shared<counting_device>(cede::detail::make_host_device({.sms = 2}));
  cudaEvent_t event = device->make_event();
  std::vector<int> runs(8);
  int launches = 0;
  {
    cede::scheduler cpu(device);
    cede::workload serve = cpu.workload(critical());
    cede::workload train = cpu.workload(effort());
    auto round = [&] {
      cede::stream s = serve.stream();
      cede::stream t = train.stream();
      s.launch({.grid = 8}, count_runs{runs.data()});
      for (auto form : {cede::form::persistent, cede::form::gated, cede::form::sliced}) {
        t.launch({.grid = 8}, {.form = form}, count_runs{runs.data()});
      }
      t.record(event);
      t.wait(s.record());
      launches += 4;
      REQUIRE(t.synchronize_for(patience));
      REQUIRE(s.synchronize_for(patience));
    };
    for (int i = 0; i < 20; ++i) round();
    const int streams = device->streams;
    const int words = device->words_made;
    const int events = device->events;
    for (int i = 0; i < 1000; ++i) round();
    // A handful may be in use at once: a stream goes back a moment after its last operation.
    CHECK(device->streams <= streams + 8);
    CHECK(device->words_made <= words + 48);
    CHECK(device->events <= events + 8);
  }
  CHECK(runs == std::vector<int>(8, launches));
  CHECK(device->streams == 0);
  CHECK(device->events == 1);
}

TEST_CASE("a lane is used again by the next stream, with what went before it long done") {
  std::vector<int> values(30);
  int wrong = 0;
  auto device = std::make_shared<counting_device>(cede::detail::make_host_device({.sms = 2}));
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  steady_requests requests(serve, 100us);
  // One to five launches each, so that slots and counters go on from everywhere.
  int step = 0;
  for (int i = 0; i < 200; ++i) {
    cede::stream t = train.stream();
    for (int k = 0; k <= i % 5; ++k) {
      t.launch({.grid = 30},
               {.form = (i + k) % 2 == 0 ? cede::form::persistent : cede::form::gated},
               step_up{values.data(), step++, &wrong});
    }
    REQUIRE(t.synchronize_for(patience));
  }
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(30, step));
}

TEST_CASE("an adopted critical stream dropped with work on it does not disturb the next stream") {
  auto device = cede::detail::make_host_device({.sms = 2});
  cudaStream_t raw = device->make_stream(cede::detail::stream_class::lane);
  std::vector<int> runs(1), trained(1);
  for (int i = 0; i < 20; ++i) {
    door d;
    cede::scheduler cpu(device);
    cede::workload serve = cpu.workload(critical());
    cede::workload train = cpu.workload(effort());
    {
      cede::stream a = serve.adopt(raw);
      a.launch({.grid = 1}, d.tile());
    }
    cede::stream next = serve.stream();
    next.launch({.grid = 1}, count_runs{runs.data()});
    next.launch({.grid = 1}, count_runs{runs.data()});
    next.synchronize();
    d.open();
    // Were the adopted stream's word written over the later ones, critical work would seem active
    // for good.
    cede::stream t = train.stream();
    t.launch({.grid = 1}, count_runs{trained.data()});
    REQUIRE(t.synchronize_for(patience));
  }
  CHECK(trained[0] == 20);
}

TEST_CASE("a scheduler that goes finishes what is queued, on every kind of stream") {
  auto device = cede::detail::make_host_device({.sms = 2});
  cudaStream_t raw = device->make_stream(cede::detail::stream_class::lane);
  std::vector<int> values(50), served(4);
  std::vector<char> copied(1 << 20), from(1 << 20, 7);
  int wrong = 0;
  bool ran = false;
  std::optional<cede::scheduler> cpu(device);
  cede::workload serve = cpu->workload(critical());
  cede::workload train = cpu->workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  cede::stream a = train.adopt(raw);
  for (int i = 0; i < 40; ++i) t.launch({.grid = 50}, step_up{values.data(), i, &wrong});
  a.launch({.grid = 4}, count_runs{served.data()});
  t.copy(copied.data(), from.data(), copied.size());
  t.defer([&](cudaStream_t) { ran = true; });
  t.free_after(std::malloc(100));
  s.wait(t.record());
  s.launch({.grid = 4}, count_runs{served.data()});
  cede::event end = t.record();
  cpu.reset();
  CHECK(end.done());
  end.synchronize();
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(50, 40));
  CHECK(served == std::vector<int>(4, 2));
  CHECK(copied == from);
  CHECK(ran);
  CHECK(device->query(raw));
}

TEST_CASE("critical work is waited for before the scheduler is gone") {
  std::atomic<int> tiles{0};
  struct slow {
    std::atomic<int>* n;
    void operator()(cede::block) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      n->fetch_add(1);
    }
  };
  {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    cede::workload serve = cpu.workload(critical());
    serve.stream().launch({.grid = 3}, slow{&tiles});  // no handle is left either
  }
  CHECK(tiles == 3);
}

TEST_CASE("the last handle of a stream goes inside its own run; the next stream is waited for") {
  for (const bool deferred : {false, true}) {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    for (auto options : {critical(), effort()}) {
      CAPTURE(options.name);
      cede::workload work = cpu.workload(options);
      cede::stream s = work.stream();
      auto let_go = [&](cudaStream_t) { s = cede::stream{}; };
      if (!deferred) {
        s.run(let_go);
      } else if (options.priority == cede::latency_critical) {
        s.defer(let_go);
      } else {
        continue;  // on another thread, which must not touch a handle of this one
      }
      cede::stream next = work.stream();
      door d;
      next.launch({.grid = 1}, d.tile());
      CHECK_FALSE(next.synchronize_for(10ms));
      d.open();
      CHECK(next.synchronize_for(patience));
    }
  }
}

TEST_CASE("streams, workloads and requests used after their scheduler say that it is gone") {
  std::vector<int> runs(1);
  std::optional<cede::scheduler> cpu(std::in_place, cede::host_device{.sms = 1});
  cede::workload serve = cpu->workload(critical());
  cede::workload train = cpu->workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  for (auto* stream : {&s, &t}) stream->launch({.grid = 1}, count_runs{runs.data()});
  cede::event e = s.record();
  cpu.reset();
  CHECK(runs[0] == 2);
  for (auto* stream : {&s, &t}) {
    CAPTURE(stream->name());
    CHECK_THROWS_AS(stream->launch({.grid = 1}, count_runs{runs.data()}), cede::contract_error);
    CHECK_THROWS_AS(stream->run([](cudaStream_t) {}), cede::contract_error);
    CHECK_THROWS_AS(stream->defer([](cudaStream_t) {}), cede::contract_error);
    CHECK_THROWS_AS(stream->fill(runs.data(), 0, 4), cede::contract_error);
    CHECK_THROWS_AS(stream->copy(runs.data(), runs.data(), 4), cede::contract_error);
    CHECK(contains(message_of([&] { stream->fill(runs.data(), 0, 4); }), "scheduler is gone"));
    int* memory = static_cast<int*>(std::malloc(sizeof(int)));
    CHECK_THROWS_AS(stream->free_after(memory), cede::contract_error);
    std::free(memory);      // it is still the caller's
    stream->synchronize();  // everything is done
    CHECK(stream->synchronize_for(0ns));
    CHECK(stream->record().done());
  }
  CHECK(e.done());
  for (auto* work : {&serve, &train}) {
    CHECK_THROWS_AS(static_cast<void>(work->stream()), cede::contract_error);
    work->synchronize();
  }
  CHECK_THROWS_AS(static_cast<void>(serve.request()), cede::contract_error);
  CHECK_THROWS_AS(train.suspend(), cede::contract_error);
  CHECK_THROWS_AS(train.resume(), cede::contract_error);
  CHECK(runs[0] == 2);
}

TEST_CASE(
    "a scheduler that goes cancels the work of suspended workloads, aloud, and tells who waits for "
    "it") {
  captured_stderr err;
  auto device = cede::detail::make_host_device({.sms = 2});
  cudaStream_t raw = device->make_stream(cede::detail::stream_class::lane);
  cudaEvent_t event = device->make_event();
  std::atomic<int> ran{0};
  struct note {
    std::atomic<int>* n;
    void operator()(cede::block) const { n->fetch_add(1); }
  };
  std::optional<cede::scheduler> cpu(device);
  cede::workload serve = cpu->workload(critical());
  cede::workload train = cpu->workload(effort("asleep"));
  cede::workload other = cpu->workload(effort("awake"));
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  cede::stream a = train.adopt(raw);
  cede::stream o = other.stream();
  train.suspend();
  t.launch({.grid = 1}, note{&ran});
  t.copy(&event, &event, 0);
  t.launch({.grid = 1}, {.form = cede::form::sliced}, note{&ran});
  t.defer([&](cudaStream_t) { ++ran; });
  t.record(event);
  t.free_after(std::malloc(10));
  a.launch({.grid = 1}, note{&ran});
  cede::event end = t.record();
  o.wait(end);
  o.launch({.grid = 1}, note{&ran});  // waits for what will not be: cancelled as well
  s.wait(a.record());
  std::atomic<int> told{0};
  std::vector<std::thread> waiters;
  waiters.emplace_back(
      [&] { told += !message_of<cede::cancelled>([&] { end.synchronize(); }).empty(); });
  waiters.emplace_back(
      [&] { told += !message_of<cede::cancelled>([&] { o.synchronize(); }).empty(); });
  waiters.emplace_back(
      [&] { told += !message_of<cede::cancelled>([&] { t.run([](cudaStream_t) {}); }).empty(); });
  waiters.emplace_back([&] {
    told += !message_of<cede::cancelled>([&] { static_cast<void>(t.synchronize_for(1h)); }).empty();
  });
  std::this_thread::sleep_for(10ms);
  cpu.reset();
  for (auto& w : waiters) w.join();
  CHECK(told == 4);
  CHECK(ran == 0);
  CHECK(err.says("asleep/0"));
  CHECK(err.says("awake/0"));
  CHECK(err.says("cancelled"));
  CHECK_FALSE(end.done());
  CHECK_THROWS_AS(end.synchronize(), cede::cancelled);
  // Nothing on the device waits any longer.
  device->synchronize(raw);
  CHECK(eventually([&] { return device->event_done(event); }));
}

TEST_CASE("a scheduler that goes ends a suspended launch half-way") {
  captured_stderr err;
  std::atomic<int> tiles{0};
  struct note {
    std::atomic<int>* n;
    void operator()(cede::block) const { n->fetch_add(1); }
  };
  {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    cede::workload train = cpu.workload(effort());
    cede::stream t = train.stream();
    t.launch({.grid = 2'000'000'000}, {.form = cede::form::persistent}, note{&tiles});
    REQUIRE(eventually([&] { return tiles > 0; }));
    train.suspend();
  }
  const int then = tiles;
  CHECK(then < 2'000'000'000);
  std::this_thread::sleep_for(5ms);
  CHECK(tiles == then);
  CHECK(err.says("1 operations were cancelled"));
}

TEST_CASE("a scheduler that goes closes open requests, aloud") {
  captured_stderr err;
  std::vector<int> runs(1);
  std::optional<cede::scheduler> cpu(std::in_place, cede::host_device{.sms = 1});
  cede::workload serve = cpu->workload(critical("still open"));
  cede::workload train = cpu->workload(effort());
  cede::stream t = train.stream();
  auto first = serve.request();
  auto second = serve.request();
  t.launch({.grid = 1}, count_runs{runs.data()});
  cpu.reset();
  CHECK(runs[0] == 1);
  CHECK(err.says("still open"));
  first.close();
}

TEST_CASE("a producer that waits for room is told when the scheduler goes") {
  captured_stderr err;
  std::vector<int> runs(1);
  std::optional<cede::scheduler> cpu(std::in_place, cede::host_device{.sms = 1},
                                     cede::scheduler_options{.max_queued = 2});
  cede::workload train = cpu->workload(effort());
  cede::stream t = train.stream();
  train.suspend();
  std::atomic<int> queued{0};
  std::thread producer([&] {
    const auto message = message_of<cede::contract_error>([&] {
      for (int i = 0; i < 10; ++i) {
        t.launch({.grid = 1}, count_runs{runs.data()});
        ++queued;
      }
    });
    CHECK(contains(message, "scheduler is gone"));
  });
  REQUIRE(eventually([&] { return queued == 2; }));
  std::this_thread::sleep_for(5ms);
  cpu.reset();
  producer.join();
  CHECK(queued == 2);
  CHECK(runs[0] == 0);
}

TEST_CASE("a run in progress is waited for when the scheduler goes") {
  std::optional<cede::scheduler> cpu(std::in_place, cede::host_device{.sms = 1});
  for (auto options : {effort(), critical()}) {
    if (!cpu) cpu.emplace(cede::host_device{.sms = 1});
    cede::workload work = cpu->workload(options);
    cede::stream s = work.stream();
    std::atomic<bool> inside{false};
    std::atomic<bool> ended{false};
    std::thread runner([&] {
      s.run([&](cudaStream_t) {
        inside = true;
        std::this_thread::sleep_for(10ms);
        ended = true;
      });
    });
    REQUIRE(eventually([&] { return inside.load(); }));
    cpu.reset();
    CHECK(ended);
    runner.join();
  }
}

TEST_CASE("the last handle of a scheduler goes inside its own run: it ends when that returns") {
  for (auto options : {effort(), critical()}) {
    CAPTURE(options.name);
    std::vector<int> runs(1);
    auto device = std::make_shared<counting_device>(cede::detail::make_host_device({.sms = 1}));
    std::optional<cede::scheduler> cpu(std::in_place, device);
    {
      cede::stream s = cpu->workload(options).stream();
      cede::stream inner = cpu->workload(options).stream();
      cede::stream t = cpu->workload(effort("other")).stream();
      s.run([&](cudaStream_t) {
        inner.run([&](cudaStream_t) { cpu.reset(); });
        t.launch({.grid = 1}, busy_runs{runs.data(), 1000});  // it has not ended yet
      });
      CHECK(runs[0] == 1);
      CHECK_THROWS_AS(t.launch({.grid = 1}, count_runs{runs.data()}), cede::contract_error);
    }
    CHECK(device->streams == 0);
  }
}

TEST_CASE("the last handle of a scheduler goes with a deferred callable, or inside it") {
  std::vector<int> runs(50);
  auto device = std::make_shared<counting_device>(cede::detail::make_host_device({.sms = 1}));
  for (const bool inside : {false, true}) {
    CAPTURE(inside);
    {
      auto cpu = std::make_unique<cede::scheduler>(device);
      cede::stream t = cpu->workload(effort()).stream();
      t.launch({.grid = 50}, busy_runs{runs.data(), 1000});
      if (inside) {
        t.defer([owned = std::make_shared<std::unique_ptr<cede::scheduler>>(std::move(cpu))](
                    cudaStream_t) { owned->reset(); });
      } else {
        t.defer([keep = *cpu](cudaStream_t) {});
        cpu.reset();
      }
      CHECK(t.synchronize_for(patience));
    }
    CHECK(eventually([&] { return device->streams == 0; }));
  }
  CHECK(runs == std::vector<int>(50, 2));
}

TEST_CASE("a callable that runs while its scheduler goes may still give memory back") {
  std::atomic<int> threw{-1};
  {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    cede::stream t = cpu.workload(effort()).stream();
    std::atomic<bool> started{false};
    t.defer([&, t](cudaStream_t) mutable {
      started = true;
      std::this_thread::sleep_for(20ms);
      threw = message_of([&] { t.free_after(std::malloc(1000)); }).empty() ? 0 : 1;
    });
    REQUIRE(eventually([&] { return started.load(); }));
  }
  CHECK(threw == 0);
}

TEST_CASE("what a cancelled callable owns may call the scheduler as it is destroyed") {
  struct model {
    cede::stream stream;
    std::atomic<int>* gone;
    ~model() {
      stream.synchronize();
      gone->fetch_add(1);
    }
  };
  captured_stderr err;
  std::atomic<int> gone{0};
  std::vector<int> runs(1);
  {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    cede::workload asleep = cpu.workload(effort("asleep"));
    cede::stream t = asleep.stream();
    cede::stream other = cpu.workload(effort("other")).stream();
    asleep.suspend();
    auto owned = std::make_shared<model>(other, &gone);
    t.defer([owned](cudaStream_t) { FAIL("it was cancelled"); });
    owned.reset();
    other.launch({.grid = 1}, busy_runs{runs.data(), 100000});
  }
  CHECK(gone == 1);
  CHECK(runs[0] == 1);
  CHECK(err.says("cancelled"));
}

TEST_CASE("schedulers come and go, idle, busy and many at once") {
  std::vector<int> runs(16);
  for (int i = 0; i < 60; ++i) {
    std::vector<cede::scheduler> some;
    for (int k = 0; k < i % 4 + 1; ++k) some.emplace_back(cede::host_device{.sms = 1});
    if (i % 3 == 0) continue;
    for (auto& cpu : some) {
      cede::workload train = cpu.workload(effort());
      cede::stream t = train.stream();
      t.launch({.grid = 16}, count_runs{runs.data()});
      if (i % 3 == 1) t.synchronize();
    }
  }
  int expected = 0;
  for (int i = 0; i < 60; ++i) expected += i % 3 == 0 ? 0 : i % 4 + 1;
  CHECK(runs == std::vector<int>(16, expected));
}
