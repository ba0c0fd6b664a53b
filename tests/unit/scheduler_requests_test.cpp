// SPDX-License-Identifier: Apache-2.0
// Requests: from the first launch to the last, and through the gaps between them, training stays
// out.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"

using namespace cede_test;

namespace {

struct beside_training {
  std::atomic<int> trained{0};
  std::vector<int> served = std::vector<int>(1);
  std::shared_ptr<cede::detail::device> device = cede::detail::make_host_device({.sms = 2});
  cede::scheduler cpu{device};
  cede::workload serve =
      cpu.workload({.name = "serve", .priority = cede::latency_critical, .max_hold = 1h});
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();

  struct note {
    std::atomic<int>* n;
    void operator()(cede::block) const { n->fetch_add(1); }
  };
  void launch_training(std::uint64_t tiles = 10) { t.launch({.grid = tiles}, note{&trained}); }
  /// True if no tile of the training runs for a while.
  bool training_stays_out(std::chrono::milliseconds span = 15ms) {
    const int before = trained;
    std::this_thread::sleep_for(span);
    return trained == before;
  }
};

/// Calls `before` once, before the next word of a stream is written.
class watched_writes : public forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  void write_value(cudaStream_t s, std::uint64_t* word, std::uint64_t value) override {
    if (auto call = std::exchange(before, nullptr)) call();
    forwarding_device::write_value(s, word, value);
  }
  std::function<void()> before;
};

}  // namespace

TEST_CASE_FIXTURE(beside_training,
                  "a request holds through its gaps, to the end of its last launch") {
  door d;
  auto request = serve.request();
  launch_training();
  CHECK(training_stays_out());  // nothing launched yet
  s.launch({.grid = 1}, count_runs{served.data()});
  s.synchronize();
  CHECK(training_stays_out());  // between launches
  s.launch({.grid = 1}, d.tile());
  request.close();
  REQUIRE(d.reached());
  CHECK(training_stays_out());  // closed, its last launch runs
  d.open();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 10);
}

TEST_CASE_FIXTURE(beside_training, "a launch without a request holds for as long as it runs") {
  door d;
  s.launch({.grid = 1}, d.tile());
  REQUIRE(d.reached());
  launch_training();
  CHECK(training_stays_out());
  d.open();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 10);
}

TEST_CASE_FIXTURE(beside_training,
                  "every stream of the workload, and of others, belongs to the request") {
  door d;
  cede::stream second = serve.stream();
  cede::workload other = cpu.workload(critical("other"));
  cede::stream third = other.stream();
  launch_training();
  REQUIRE(t.synchronize_for(patience));
  {
    auto request = serve.request();
    s.launch({.grid = 1}, count_runs{served.data()});
    second.launch({.grid = 1}, d.tile());
    third.launch({.grid = 1}, count_runs{served.data()});
  }
  third.synchronize();
  s.synchronize();
  launch_training();
  REQUIRE(d.reached());
  CHECK(training_stays_out());
  d.open();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 20);
}

TEST_CASE_FIXTURE(beside_training,
                  "requests nest and overlap: the last one to end lets training in") {
  auto first = serve.request();
  auto second = serve.request();
  launch_training();
  first.close();
  CHECK(training_stays_out());
  auto third = serve.request();
  second.close();
  CHECK(training_stays_out());
  third.close();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 10);
}

TEST_CASE_FIXTURE(beside_training, "a request is moved, closed twice and on another thread") {
  auto first = serve.request();
  cede::request second(std::move(first));
  first.close();  // nothing
  launch_training();
  CHECK(training_stays_out());
  std::thread([r = std::move(second), this]() mutable {
    s.launch({.grid = 1}, count_runs{served.data()});
    r.close();
    r.close();
  }).join();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 10);

  auto third = serve.request();
  launch_training();
  third = serve.request();  // the one it held ends, the new one goes on
  CHECK(training_stays_out());
  auto& alias = third;
  third = std::move(alias);
  CHECK(training_stays_out());
  third.close();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 20);
}

TEST_CASE_FIXTURE(beside_training,
                  "a handle dropped inside a request: its launches are waited for all the same") {
  door d;
  {
    auto request = serve.request();
    cede::stream gone = serve.stream();
    gone.launch({.grid = 1}, d.tile());
    gone = cede::stream();
    REQUIRE(d.reached());
  }
  launch_training();
  CHECK(training_stays_out());
  std::atomic<bool> waited{false};
  std::thread waiter([&] {
    serve.synchronize();  // of the workload, whose handle to the stream is gone
    waited = true;
  });
  std::this_thread::sleep_for(5ms);
  CHECK_FALSE(waited);
  d.open();
  waiter.join();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 10);
}

TEST_CASE_FIXTURE(beside_training,
                  "many threads with requests of their own: each is held to its end") {
  std::atomic<bool> stop{false};
  std::atomic<unsigned> broken{0};
  std::atomic<unsigned> requests{0};
  std::thread training([&] {
    while (!stop) {
      launch_training(50);
      REQUIRE(t.synchronize_for(patience));
    }
  });
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n) {
    threads.emplace_back([&] {
      cede::stream mine = serve.stream();
      std::vector<int> runs(1);
      for (int i = 0; i < 50; ++i) {
        auto request = serve.request();
        mine.launch({.grid = 1}, count_runs{runs.data()});
        mine.synchronize();
        // Training that was running has left once the launch's raise is answered; none may start
        // now.
        std::this_thread::sleep_for(100us);
        const int before = trained;
        std::this_thread::sleep_for(100us);
        mine.launch({.grid = 1}, count_runs{runs.data()});
        mine.synchronize();
        if (trained - before > 2) ++broken;  // two SMs may have been in the middle of a tile
        request.close();
        ++requests;
      }
      CHECK(runs[0] == 100);
    });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  training.join();
  CHECK(requests == 200);
  CHECK(broken == 0);
  CHECK(eventually([&] { return stats_of(cpu, "serve").requests == 200; }));
}

TEST_CASE("a request left open is closed aloud, and training goes on") {
  captured_stderr err;
  std::vector<int> runs(4);
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve =
      cpu.workload({.name = "forgetful", .priority = cede::latency_critical, .max_hold = 20ms});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  auto request = serve.request();
  s.launch({.grid = 4}, count_runs{runs.data()});
  t.launch({.grid = 4}, count_runs{runs.data()});
  CHECK(eventually(
      [&] { return t.record().done(); }));  // looking is no waiting: the request does not give way
  CHECK(runs == std::vector<int>(4, 2));
  CHECK(err.says("forgetful"));
  CHECK(err.says("max_hold of 20 ms"));
  s.launch({.grid = 4}, count_runs{runs.data()});  // counts for itself now
  request.close();                                 // nothing
  s.synchronize();
  auto next = serve.request();  // the workload is as good as new
  t.launch({.grid = 4}, count_runs{runs.data()});
  std::this_thread::sleep_for(5ms);
  CHECK(runs[0] == 3);
  next.close();
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs[0] == 4);
}

TEST_CASE("a request that keeps nobody out is not closed, however long it is open") {
  captured_stderr err;
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve =
      cpu.workload({.name = "serve", .priority = cede::latency_critical, .max_hold = 1ms});
  auto request = serve.request();
  std::this_thread::sleep_for(30ms);
  request.close();
  CHECK(err.text().empty());
}

TEST_CASE("service and response times count from opening and arrival to the last launch's end") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::stream s = serve.stream();
  for (int i = 0; i < 5; ++i) {
    door d;
    auto request = serve.request({.arrived = std::chrono::steady_clock::now() - 1h});
    s.launch({.grid = 1}, d.tile());
    std::this_thread::sleep_for(3ms);
    d.open();
    request.close();
    s.synchronize();
  }
  const auto stats = stats_of(cpu, "serve");
  CHECK(stats.requests == 5);
  CHECK(stats.service.count() == 5);
  CHECK(stats.service.min() >= 3ms);
  CHECK(stats.service.max() < 1h);
  CHECK(stats.response.min() >= 1h + 3ms);
}

TEST_CASE(
    "requests are counted when the program waits in other ways than stream::synchronize, or not at "
    "all") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::stream s = serve.stream();
  std::vector<int> runs(1);
  for (int i = 0; i < 10000; ++i) {
    auto request = serve.request();
    if (i % 100 == 0) s.launch({.grid = 1}, count_runs{runs.data()});
  }
  s.record().synchronize();
  CHECK(stats_of(cpu, "serve").requests == 10000);
  CHECK(runs[0] == 100);
}

TEST_CASE("requests belong to latency-critical workloads") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload train = cpu.workload(effort());
  const auto message =
      message_of<cede::contract_error>([&] { static_cast<void>(train.request()); });
  CHECK(contains(message, "train"));
  CHECK(contains(message, "latency-critical"));
}

TEST_CASE("a hold-off keeps its workload out after a request, and after one nobody saw") {
  std::vector<int> runs(1), served(1);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload shy = cpu.workload({.name = "shy", .hold_off = 60ms});
  cede::stream s = serve.stream();
  cede::stream t = shy.stream();
  SUBCASE("nothing queued while the request was served: the dispatcher slept") {
    s.launch({.grid = 1}, count_runs{served.data()});
    s.synchronize();
    const auto end = std::chrono::steady_clock::now();
    t.launch({.grid = 1}, count_runs{runs.data()});
    t.synchronize();
    CHECK(std::chrono::steady_clock::now() - end >= 50ms);
  }
  SUBCASE("queued during the request") {
    auto request = serve.request();
    t.launch({.grid = 1}, count_runs{runs.data()});
    std::this_thread::sleep_for(2ms);
    const auto end = std::chrono::steady_clock::now();
    request.close();
    t.synchronize();
    CHECK(std::chrono::steady_clock::now() - end >= 60ms);
  }
  SUBCASE("requests shorter than a look of the dispatcher's") {
    cede::workload shyer = cpu.workload({.name = "shyer", .hold_off = 300ms});
    t = shyer.stream();
    auto request = serve.request();
    t.launch({.grid = 1}, count_runs{runs.data()});
    request.close();
    auto last = std::chrono::steady_clock::now();
    const cede::event trained = t.record();
    for (int i = 0; i < 30 && !trained.done();
         ++i) {  // a stalled machine may let it in before the last one
      last = std::chrono::steady_clock::now();
      serve.request().close();
      if (trained.done()) break;
      std::this_thread::sleep_for(1ms);
    }
    const bool kept_out = !trained.done();
    t.synchronize();
    if (kept_out) CHECK(std::chrono::steady_clock::now() - last >= 300ms);
  }
  CHECK(runs[0] == 1);
  // Without critical work there is nothing to hold off for.
  const auto begin = std::chrono::steady_clock::now();
  cede::scheduler alone(cede::host_device{.sms = 1});
  cede::workload patient = alone.workload({.name = "patient", .hold_off = 24h});
  cede::stream p = patient.stream();
  p.launch({.grid = 1}, count_runs{runs.data()});
  REQUIRE(p.synchronize_for(patience));
  CHECK(std::chrono::steady_clock::now() - begin < patience);
}

TEST_CASE_FIXTURE(beside_training,
                  "times of arrival: absurd ones are refused, one to come is now") {
  using time_point = std::chrono::steady_clock::time_point;
  CHECK_THROWS_WITH_AS(static_cast<void>(serve.request({.arrived = time_point::min()})),
                       doctest::Contains("arrived lies before"), cede::invalid_argument);
  {
    auto request = serve.request({.arrived = time_point::max()});
    s.launch({.grid = 1}, count_runs{served.data()});
  }
  REQUIRE(s.synchronize_for(patience));
  const auto stats = stats_of(cpu, "serve");
  CHECK(stats.requests == 1);
  CHECK(stats.response.max() >= 0ns);
  CHECK(stats.response.max() <= patience);
  launch_training();  // the one that was refused holds nothing
  REQUIRE(t.synchronize_for(patience));
}

TEST_CASE("a request closed by another thread while its opener begins to wait ends once") {
  auto watched = std::make_shared<watched_writes>(cede::detail::make_host_device({.sms = 2}));
  cede::scheduler cpu(watched);
  cede::workload first = cpu.workload(critical("first"));
  cede::workload second = cpu.workload(critical("second"));
  cede::workload train = cpu.workload(effort());
  cede::stream s = first.stream(), s2 = second.stream(), t = train.stream();
  std::atomic<int> trained{0}, served{0};
  train.suspend();
  t.launch({.grid = 1}, beside_training::note{&trained});
  auto request = first.request();
  auto other = second.request();
  s.launch({.grid = 1}, beside_training::note{&served});
  // The opener lets go of one request after the other: it is at the first when the second is
  // closed.
  watched->before = [&] { std::thread([&] { other.close(); }).join(); };
  CHECK_FALSE(t.synchronize_for(1ms));
  CHECK_FALSE(watched->before);
  train.resume();
  request.close();
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == 1);

  // Had its hold been given back twice, requests of the workload would keep nobody out from now on,
  // and launches without a request would count as part of one.
  {
    auto later = second.request();
    t.launch({.grid = 1}, beside_training::note{&trained});
    std::this_thread::sleep_for(30ms);
    CHECK(trained == 1);
  }
  REQUIRE(t.synchronize_for(patience));
  door d;
  s2.launch({.grid = 1}, d.tile());
  REQUIRE(d.reached());
  t.launch({.grid = 1}, beside_training::note{&trained});
  std::this_thread::sleep_for(30ms);
  CHECK(trained == 2);
  d.open();
  REQUIRE(s2.synchronize_for(patience));
  REQUIRE(t.synchronize_for(patience));
}
