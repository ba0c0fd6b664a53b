// SPDX-License-Identifier: Apache-2.0
// A program's own streams, events and memory beside the scheduler's: adopt, record, wait,
// free_after.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <cstdint>
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

TEST_CASE_FIXTURE(with_raw_streams, "a stream adopted again is the same stream") {
  cudaStream_t other = device->make_stream(stream_class::lane);
  for (auto* work : {&train, &serve}) {
    cudaStream_t mine = work == &train ? raw : other;
    cede::stream a = work->adopt(mine);
    cede::stream b = work->adopt(mine);
    CHECK(a.name() == b.name());
    for (int i = 0; i < 20; ++i) {
      up(a);
      up_raw(mine);
      up(b);
    }
    const cede::event all = b.record();
    a.wait(all);  // nothing: it is the same stream
    REQUIRE(a.synchronize_for(patience));
    CHECK(all.done());
  }
  check(120);
}

TEST_CASE_FIXTURE(with_raw_streams, "a stream belongs to one workload, for as long as it is used") {
  cede::workload more = cpu.workload(effort("more"));
  const std::vector<cede::workload*> all{&train, &more, &serve};
  for (auto* first : all) {
    cede::stream a = first->adopt(raw);
    up(a);
    for (auto* second : all) {
      if (second == first) continue;
      const auto message =
          message_of<cede::contract_error>([&] { static_cast<void>(second->adopt(raw)); });
      CHECK(contains(message, "'" + first->name() + "'"));
      CHECK(contains(message, "'" + second->name() + "'"));
      CHECK(contains(message, a.name()));
      CHECK(contains(message, "adopt another"));
    }
    up(a);  // as good as ever
    REQUIRE(a.synchronize_for(patience));
    a = cede::stream();
    // A gated stream stays until the dispatcher has seen its end.
    CHECK(eventually(
        [&] { return message_of<cede::contract_error>([&] { a = more.adopt(raw); }).empty(); }));
    up(a);
    REQUIRE(a.synchronize_for(patience));
    a = cede::stream();
    CHECK(eventually(
        [&] { return message_of<cede::contract_error>([&] { a = train.adopt(raw); }).empty(); }));
    a = cede::stream();
  }
  check(9);
}

TEST_CASE_FIXTURE(with_raw_streams, "a raw stream of cede's own is not adopted") {
  for (auto* stream : {&t, &s}) {
    cudaStream_t inner = nullptr;
    stream->run([&](cudaStream_t r) { inner = r; });
    for (auto* work : {&train, &serve}) {
      const auto message =
          message_of<cede::contract_error>([&] { static_cast<void>(work->adopt(inner)); });
      CHECK(contains(message, stream->name()));
      CHECK(contains(message, "run()"));
    }
    up(*stream);
    REQUIRE(stream->synchronize_for(patience));
    *stream = cede::stream();
    // Once its handles are gone it is nobody's, and still not the program's.
    CHECK(eventually([&] {
      return contains(
          message_of<cede::contract_error>([&] { static_cast<void>(train.adopt(inner)); }), "gone");
    }));
  }
  check(2);
}

TEST_CASE_FIXTURE(with_raw_streams, "threads that adopt one stream at once get one and the same") {
  for (int round = 0; round < 30; ++round) {
    std::vector<cede::stream> got(8);
    std::atomic<unsigned> refused{0};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < got.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          got[i] = (i % 2 == 0 ? train : serve).adopt(raw);
        } catch (const cede::contract_error&) {
          ++refused;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(refused == 4);  // one workload has it, whichever came first
    std::string name;
    for (auto& stream : got) {
      if (message_of([&] { static_cast<void>(stream.name()); }).empty()) {
        if (name.empty()) name = stream.name();
        CHECK(stream.name() == name);
      }
    }
  }
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "a stream that is none of the device is not adopted, and nobody else suffers") {
  const auto none = reinterpret_cast<cudaStream_t>(std::uintptr_t{0x1234567});
  for (auto options : {critical("one"), effort("two")}) {
    cede::workload work = cpu.workload(options);
    CHECK_THROWS_WITH_AS(static_cast<void>(work.adopt(none)),
                         doctest::Contains("adopt() of a stream that the device refuses"),
                         cede::contract_error);
    cede::stream own = work.stream();
    std::vector<int> runs(1);
    own.launch({.grid = 1}, count_runs{runs.data()});
    REQUIRE(own.synchronize_for(patience));
    CHECK(runs[0] == 1);
  }
}

TEST_CASE_FIXTURE(with_raw_streams, "the default streams are refused") {
  auto* legacy = reinterpret_cast<cudaStream_t>(0x1);
  for (auto* work : {&train, &serve}) {
    CHECK_THROWS_AS(static_cast<void>(work->adopt(nullptr)), cede::contract_error);
    CHECK_THROWS_AS(static_cast<void>(work->adopt(legacy)), cede::contract_error);
    CHECK(contains(message_of<cede::contract_error>([&] {
                     static_cast<void>(work->adopt(reinterpret_cast<cudaStream_t>(0x2)));
                   }),
                   "cudaStreamPerThread"));
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

TEST_CASE_FIXTURE(with_raw_streams,
                  "a wait is for the event as it was recorded then, whatever becomes of it") {
  cudaStream_t others = device->make_stream(stream_class::lane);
  cudaStream_t mine = device->make_stream(stream_class::lane);
  auto shut = [&](cudaStream_t on, door& d) {  // a launch that ends when the door opens
    const auto tile = d.tile();
    cede::detail::submission what;
    what.kernel = &cede::detail::entry_of<door::body, cede::detail::this_compiler, true>();
    what.body = &tile;
    what.count = 1;
    device->submit(on, what);
  };
  std::vector<cede::stream> streams{t, s};
  SUBCASE("streams of cede's") {}
  SUBCASE("adopted by training") { streams = {train.adopt(mine)}; }
  SUBCASE("adopted by the service") { streams = {serve.adopt(mine)}; }
  for (cede::stream& stream : streams) {
    for (const int fate : {0, 1, 2, 3}) {
      CAPTURE(fate);
      door first, later;
      cudaEvent_t e = device->make_event();
      shut(raw, first);
      device->record_event(raw, e);
      if (fate == 3) {
        stream.wait(raw);
      } else {
        stream.wait(e);
      }
      if (fate == 1) device->destroy_event(e);
      if (fate == 2) shut(others, later);
      if (fate == 2) device->record_event(others, e);
      if (fate == 3) device->wait_event(raw, e), shut(raw, later);
      up(stream);
      REQUIRE(first.reached());
      CHECK_FALSE(stream.synchronize_for(5ms));
      CHECK(values[0] == step - 1);
      first.open();
      REQUIRE(stream.synchronize_for(patience));
      CHECK(values[0] == step);
      later.open();
      device->synchronize(others);
      device->synchronize(raw);
    }
  }
  check(static_cast<int>(4 * streams.size()));
}

TEST_CASE(
    "a critical stream counts again once what it waited for is done, whatever the event was "
    "recorded for later") {
  auto device = cede::detail::make_host_device({.sms = 4});  // a door holds an SM
  cudaEvent_t event = device->make_event();
  cudaStream_t raw = device->make_stream(stream_class::lane);
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  std::vector<int> trained(1);
  door first, later, served;
  t.run([&](cudaStream_t) {});  // the dispatcher has been at work
  auto shut = [&](door& d) {    // behind the scheduler's back: not counted
    const auto tile = d.tile();
    cede::detail::submission what;
    what.kernel = &cede::detail::entry_of<door::body, cede::detail::this_compiler, true>();
    what.body = &tile;
    what.count = 1;
    device->submit(raw, what);
  };
  shut(first);
  device->record_event(raw, event);
  s.wait(event);
  shut(later);
  device->record_event(raw, event);
  s.launch({.grid = 1}, served.tile());
  CHECK(contains(cpu.explain(), "side idle"));
  first.open();
  REQUIRE(served.reached());
  REQUIRE(later.reached());
  CHECK(eventually([&] { return contains(cpu.explain(), "work active"); }));
  t.launch({.grid = 1}, count_runs{trained.data()});
  CHECK_FALSE(t.synchronize_for(10ms));
  served.open();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained[0] == 1);
}

TEST_CASE_FIXTURE(with_raw_streams, "an event that was never recorded is not waited for") {
  for (auto* stream : {&t, &s}) {
    stream->wait(event);
    up(*stream);
    REQUIRE(stream->synchronize_for(patience));
  }
  check(2);
}

TEST_CASE_FIXTURE(with_raw_streams,
                  "an event that is no more is refused in the call, and nothing else is harmed") {
  cudaEvent_t gone = device->make_event();
  device->destroy_event(gone);
  for (auto* stream : {&t, &s}) {
    CHECK_THROWS_AS(stream->wait(gone), cede::contract_error);
    up(*stream);
    REQUIRE(stream->synchronize_for(patience));
  }
  check(2);
}

TEST_CASE_FIXTURE(with_raw_streams, "many waits, by many threads, for events recorded again") {
  // One event for all: each thread records it and has a stream of each kind wait; what it recorded
  // stands for its own raw work.
  std::vector<std::thread> threads;
  std::atomic<unsigned> early{0};
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&, n] {
      cudaStream_t producer = device->make_stream(stream_class::lane);
      cudaEvent_t e = device->make_event();
      cede::stream mine = n % 2 == 0 ? train.stream() : serve.stream();
      std::atomic<int> produced{0};
      struct produce {
        std::atomic<int>* n;
        void operator()(cede::block) const {
          std::this_thread::sleep_for(std::chrono::microseconds(200));
          n->fetch_add(1);
        }
      };
      struct consume {
        std::atomic<int>* n;
        int least;
        std::atomic<unsigned>* early;
        void operator()(cede::block) const {
          if (n->load() < least) early->fetch_add(1);
        }
      };
      for (int i = 1; i <= 60; ++i) {
        const produce body{&produced};
        cede::detail::submission what;
        what.kernel = &cede::detail::entry_of<produce, cede::detail::this_compiler, true>();
        what.body = &body;
        what.count = 1;
        device->submit(producer, what);
        device->record_event(producer, e);
        mine.wait(e);
        mine.launch({.grid = 1}, consume{&produced, i, &early});
        if (i % 7 == 0) {
          device->destroy_event(e);
          e = device->make_event();
        }
      }
      CHECK(mine.synchronize_for(patience));
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(early == 0);
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
