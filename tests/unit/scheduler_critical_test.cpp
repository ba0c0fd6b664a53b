// SPDX-License-Identifier: Apache-2.0
// The latency-critical path: at once, on the caller's thread, past everything that is queued.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/forwarding_device.hpp"

using namespace cede_test;

namespace {

/// Notes from which threads submissions come and what they are.
class watched_device : public forwarding_device {
 public:
  using forwarding_device::forwarding_device;
  void submit(cudaStream_t s, const cede::detail::submission& what) override {
    {
      const std::scoped_lock lock(mutex_);
      threads_.insert(std::this_thread::get_id());
      ++count_;
      forms_.insert(what.how);
    }
    forwarding_device::submit(s, what);
  }
  int count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }
  std::set<std::thread::id> threads() {
    const std::scoped_lock lock(mutex_);
    return threads_;
  }
  std::set<cede::form> forms() {
    const std::scoped_lock lock(mutex_);
    return forms_;
  }

 private:
  std::mutex mutex_;
  std::set<std::thread::id> threads_;
  std::set<cede::form> forms_;
  int count_ = 0;
};

}  // namespace

TEST_CASE(
    "a critical launch is on the device before launch returns, by the thread that called it") {
  auto device = std::make_shared<watched_device>(cede::detail::make_host_device({.sms = 1}));
  door d;
  std::vector<int> runs(1);
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::stream s = serve.stream();
  s.launch({.grid = 1}, d.tile());
  CHECK(device->count() == 1);
  for (int i = 2; i < 10; ++i) {
    s.launch({.grid = 1}, count_runs{runs.data()});
    CHECK(device->count() == i);
  }
  CHECK(device->threads() == std::set<std::thread::id>{std::this_thread::get_id()});
  CHECK(device->forms() == std::set<cede::form>{cede::form::whole});
  d.open();
  s.synchronize();
  CHECK(runs[0] == 8);
}

TEST_CASE("a critical launch passes thousands of queued best-effort launches") {
  std::vector<int> trained(4), served(1);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  train.suspend();
  for (int i = 0; i < 3000; ++i) t.launch({.grid = 4}, busy_runs{trained.data(), 500});
  train.resume();
  for (int i = 1; i <= 20; ++i) {
    s.launch({.grid = 1}, count_runs{served.data()});
    s.synchronize();
    CHECK(served[0] == i);
  }
  CHECK_FALSE(t.record().done());  // far from it
  REQUIRE(t.synchronize_for(patience));
  CHECK(trained == std::vector<int>(4, 3000));
}

TEST_CASE("a running best-effort launch leaves for a critical one, though it would run for hours") {
  const captured_stderr err;  // what is left of the launch is cancelled at the end
  std::vector<int> served(2);
  std::atomic<int> tiles{0};
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  struct count_tiles {
    std::atomic<int>* n;
    void operator()(cede::block) const {
      n->fetch_add(1);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  };
  t.launch({.grid = 100'000'000}, {.form = cede::form::persistent}, count_tiles{&tiles});
  for (int i = 1; i <= 10; ++i) {
    const int before = tiles;
    REQUIRE(eventually([&] { return tiles > before; }));
    s.launch({.grid = 2}, count_runs{served.data()});
    REQUIRE(s.synchronize_for(patience));
    CHECK(served[0] == i);
  }
  CHECK(eventually([&] { return stats_of(cpu, "train").yields >= 1; }));
  train.suspend();
}

TEST_CASE("one SM: a critical launch gets it back from a launch of many tiles, every time") {
  std::vector<int> trained(2000), served(1);
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  for (auto form : {cede::form::persistent, cede::form::gated}) {
    t.launch({.grid = 2000}, {.form = form, .chunk = 100}, busy_runs{trained.data(), 5000});
    int i = 0;
    while (!t.record().done() && i < 1000) {
      s.launch({.grid = 1}, count_runs{served.data()});
      s.synchronize();
      ++i;
    }
    CHECK(i > 0);
    REQUIRE(t.synchronize_for(patience));
  }
  CHECK(trained == std::vector<int>(2000, 2));
}

TEST_CASE(
    "critical work needs no thread of the scheduler's: it runs while the dispatcher is stuck") {
  /// Every submission of the dispatcher waits for a door.
  class stuck_device : public forwarding_device {
   public:
    using forwarding_device::forwarding_device;
    void submit(cudaStream_t s, const cede::detail::submission& what) override {
      if (what.how != cede::form::whole) {
        ++stuck;
        while (!open) std::this_thread::sleep_for(100us);
      }
      forwarding_device::submit(s, what);
    }
    std::atomic<int> stuck{0};
    std::atomic<bool> open{false};
  };
  auto device = std::make_shared<stuck_device>(cede::detail::make_host_device({.sms = 1}));
  std::vector<int> runs(2);
  cede::scheduler cpu(device, {.stuck_after = 1h});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  t.launch({.grid = 1}, count_runs{&runs[0]});
  REQUIRE(eventually([&] { return device->stuck > 0; }));
  for (int i = 0; i < 50; ++i) {
    auto request = serve.request();
    s.launch({.grid = 1}, count_runs{&runs[1]});
    s.fill(runs.data(), 0, 0);
    s.run([](cudaStream_t) {});
    request.close();
    REQUIRE(s.synchronize_for(patience));
  }
  CHECK(runs[1] == 50);
  CHECK(runs[0] == 0);
  t.launch({.grid = 1}, count_runs{&runs[0]});  // nor does queueing wait for it
  CHECK_FALSE(t.synchronize_for(1ms));
  device->open = true;
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs[0] == 2);
}

TEST_CASE("the epoch a launch carries is over if critical work came after it was sampled") {
  /// Launches critical work in the middle of the dispatcher's submission.
  class intruding_device : public forwarding_device {
   public:
    using forwarding_device::forwarding_device;
    void submit(cudaStream_t s, const cede::detail::submission& what) override {
      if (what.how == cede::form::persistent && intrude) intrude();
      if (what.how == cede::form::persistent && what.words.host_gate != nullptr) {
        const auto now = cede::protocol::sample<cede::detail::atomics>(*what.words.host_gate);
        if (cede::protocol::passed(now, what.terms.epoch)) ++over;
      }
      forwarding_device::submit(s, what);
    }
    std::function<void()> intrude;
    std::atomic<int> over{0};
  };
  auto device = std::make_shared<intruding_device>(cede::detail::make_host_device({.sms = 1}));
  std::vector<int> runs(30), served(1);
  door d;
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  int intrusions = 0;
  device->intrude = [&] {
    if (intrusions++ < 20) s.launch({.grid = 1}, count_runs{served.data()});
  };
  for (int i = 0; i < 30; ++i)
    t.launch({.grid = 1}, count_runs{&runs[static_cast<std::size_t>(i)]});
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs == ones(30));
  CHECK(device->over >= 20);  // each of those left at once
  s.synchronize();
  CHECK(served[0] == 20);
}

TEST_CASE("nothing is submitted while critical work is active, whatever the policy says") {
  /// Always lets everybody submit; launches critical work when the scheduler asks whether it gives
  /// way, which is between the sample of the epoch and the look at the other side.
  class eager_policy : public cede::scheduling_policy {
   public:
    void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
      for (std::size_t i = 0; i < v.workloads.size(); ++i) {
        if (v.workloads[i].ready) out.actions.push_back({cede::policy::verb::submit, i});
      }
    }
    [[nodiscard]] bool gives_way() const override {
      if (between && std::this_thread::get_id() != test_thread) between();
      return true;
    }
    std::function<void()> between;
    std::thread::id test_thread = std::this_thread::get_id();
  };
  auto device = std::make_shared<watched_device>(cede::detail::make_host_device({.sms = 2}));
  auto policy = std::make_shared<eager_policy>();
  std::vector<int> runs(4);
  auto d = std::make_unique<door>();
  cede::scheduler cpu(device, {.policy = policy});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  std::atomic<bool> came{false};
  std::atomic<bool> on{false};
  policy->between = [&] {
    if (!on || came.exchange(true)) return;
    s.launch({.grid = 1}, d->tile());
  };
  on = true;
  t.launch({.grid = 4}, count_runs{runs.data()});
  REQUIRE(eventually([&] { return came.load(); }));
  REQUIRE(d->reached());
  std::this_thread::sleep_for(20ms);
  CHECK(device->count() == 1);  // the critical one
  CHECK(runs == std::vector<int>(4, 0));
  d->open();
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs == ones(4));
  on = false;
}

TEST_CASE("a critical launch that the device refuses leaves the gate open") {
  class refusing_device : public forwarding_device {
   public:
    using forwarding_device::forwarding_device;
    void submit(cudaStream_t s, const cede::detail::submission& what) override {
      if (what.how == cede::form::whole && refuse) throw cede::device_error("refused", 1, "submit");
      forwarding_device::submit(s, what);
    }
    std::atomic<bool> refuse{false};
  };
  auto device = std::make_shared<refusing_device>(cede::detail::make_host_device({.sms = 1}));
  std::vector<int> runs(1);
  cede::scheduler cpu(device);
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  device->refuse = true;
  CHECK_THROWS_AS(s.launch({.grid = 1}, count_runs{runs.data()}), cede::device_error);
  {
    auto request = serve.request();
    CHECK_THROWS_AS(s.launch({.grid = 1}, count_runs{runs.data()}), cede::device_error);
  }
  t.launch({.grid = 1}, count_runs{runs.data()});
  REQUIRE(t.synchronize_for(patience));
  device->refuse = false;
  s.launch({.grid = 1}, count_runs{runs.data()});
  REQUIRE(s.synchronize_for(patience));
  CHECK(runs[0] == 2);
}
