// SPDX-License-Identifier: Apache-2.0
// A device that fails, at any operation: every waiter is told soon, nothing hangs, the scheduler
// can go.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
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

constexpr int code = 77;

/// Fails the `nth` operation of one kind after `arm` was called.
struct fault_plan {
  std::string_view operation;
  std::uint64_t nth = 1;
  std::atomic<bool> armed{false};
  std::atomic<std::uint64_t> seen{0};

  std::function<int(std::string_view, std::uint64_t)> function() {
    return [this](std::string_view what, std::uint64_t) {
      if (!armed || what != operation) return 0;
      return ++seen == nth ? code : 0;
    };
  }
};

struct note {
  std::atomic<int>* n;
  void operator()(cede::block) const { n->fetch_add(1); }
};

/// Everything that can wait for gated or critical work, each on a thread of its own.
class all_waiters {
 public:
  all_waiters(cede::workload serve, cede::workload train, std::atomic<int>& n)
      : serve_(std::move(serve)), train_(std::move(train)), n_(n) {}
  ~all_waiters() { join(); }

  void start() {
    cede::stream t = train_.stream();
    cede::stream full = train_.stream();
    cede::stream s = serve_.stream();
    add([this, t]() mutable {
      for (;;) {
        t.launch({.grid = 50}, note{&n_});
        t.synchronize();
      }
    });
    add([this, t]() mutable {
      for (;;) {
        t.launch({.grid = 5}, {.form = cede::form::sliced, .slices = 2}, note{&n_});
        while (!t.synchronize_for(50ms)) {
        }
      }
    });
    add([this, t]() mutable {
      for (;;) {
        t.fill(&sink_, 0, sizeof sink_);
        t.copy(&other_sink_, &sink_, sizeof sink_);
        t.record().synchronize();
      }
    });
    add([this, t]() mutable {
      for (;;) t.run([](cudaStream_t) {});
    });
    add([this, t]() mutable {
      for (;;) {
        std::atomic<bool> called{false};
        t.defer([](cudaStream_t) {});
        train_.synchronize();
      }
    });
    add([this, full]() mutable {
      for (;;) full.launch({.grid = 1}, {.form = cede::form::gated}, note{&n_});  // waits for room
    });
    add([this, s, t]() mutable {
      for (;;) {
        auto request = serve_.request();
        s.launch({.grid = 1}, note{&n_});
        s.wait(t.record());
        s.launch({.grid = 1}, note{&n_});
        request.close();
        s.synchronize();
      }
    });
    add([this, s, t]() mutable {
      for (;;) {
        s.fill(&third_sink_, 0, sizeof sink_);
        t.wait(s.record());
        t.synchronize();
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  /// True once each of them has been told; how many were told what the device failed with.
  bool all_told() {
    return eventually([&] { return told_ == static_cast<int>(threads_.size()); });
  }
  [[nodiscard]] int with_code() const { return with_code_; }
  [[nodiscard]] int total() const { return static_cast<int>(threads_.size()); }
  [[nodiscard]] int told() const { return told_; }
  void join() {
    for (auto& t : threads_) {
      if (t.joinable()) t.join();
    }
  }

 private:
  template <class F>
  void add(F f) {
    threads_.emplace_back([this, f]() mutable {
      try {
        f();
      } catch (const cede::device_error& e) {
        if (e.code() == code) ++with_code_;
      } catch (
          const cede::error&) {  // NOLINT(bugprone-empty-catch): counted as told, without the code
      }
      ++told_;
    });
  }
  cede::workload serve_;
  cede::workload train_;
  std::atomic<int>& n_;
  std::int64_t sink_ = 0, other_sink_ = 0, third_sink_ = 0;
  std::atomic<int> told_{0};
  std::atomic<int> with_code_{0};
  std::vector<std::thread> threads_;
};

/// A body whose workers need memory.
struct keeps {
  struct state {
    char all[1000];
  };
  static constexpr bool independent = true;
  void operator()(cede::block) const {}
};

}  // namespace

TEST_CASE("whatever operation the device fails at, every waiter is told, and the scheduler ends") {
  for (std::string_view operation :
       {"kernel", "tile", "copy", "fill", "write_value", "wait_value"}) {
    for (std::uint64_t nth : {1U, 7U}) {
      CAPTURE(operation);
      CAPTURE(nth);
      captured_stderr err;
      fault_plan plan{operation, nth};
      std::atomic<int> n{0};
      {
        cede::scheduler cpu(cede::host_device{.sms = 2, .fault = plan.function()},
                            {.max_queued = 16});
        cede::workload serve = cpu.workload(critical());
        cede::workload train = cpu.workload(effort());
        all_waiters waiters(serve, train, n);
        waiters.start();
        std::this_thread::sleep_for(3ms);
        plan.armed = true;
        REQUIRE(eventually([&] { return plan.seen >= nth; }));
        const auto begin = std::chrono::steady_clock::now();
        REQUIRE(waiters.all_told());
        CHECK(std::chrono::steady_clock::now() - begin <
              5s);  // far less than that where nothing is loaded
        waiters.join();
        CHECK(waiters.with_code() == waiters.total());
        // Whoever comes later is told as well.
        CHECK_THROWS_AS(static_cast<void>(train.stream()), cede::device_error);
        CHECK_THROWS_AS(static_cast<void>(serve.request()), cede::device_error);
        CHECK_THROWS_AS(train.suspend(), cede::device_error);
        CHECK_FALSE(cpu.explain().empty());  // looking is still allowed
      }
      const int then = n;
      std::this_thread::sleep_for(1ms);
      CHECK(n == then);  // nothing runs once the scheduler is gone
    }
  }
}

TEST_CASE("a body that throws fails the device for every waiter, with words") {
  captured_stderr err;
  struct thrower {
    void operator()(cede::block) const { throw std::runtime_error("out of bounds"); }
  };
  for (bool in_serve : {false, true}) {
    std::atomic<int> n{0};
    cede::scheduler cpu(cede::host_device{.sms = 2}, {.max_queued = 8});
    cede::workload serve = cpu.workload(critical());
    cede::workload train = cpu.workload(effort());
    all_waiters waiters(serve, train, n);
    waiters.start();
    cede::stream s = serve.stream();
    cede::stream t = train.stream();
    std::string message;
    try {
      (in_serve ? s : t).launch({.grid = 1}, thrower{});
      (in_serve ? s : t).synchronize();
    } catch (const cede::device_error& e) {
      message = e.what();
    }
    CHECK(contains(message, "thrower"));
    CHECK(contains(message, "out of bounds"));
    CHECK(waiters.all_told());
  }
}

TEST_CASE("a submission that the device refuses fails the scheduler, not the device") {
  captured_stderr err;
  fault_plan plan{"submit", 3};
  std::atomic<int> n{0};
  auto device = cede::detail::make_host_device({.sms = 2, .fault = plan.function()});
  cudaStream_t raw = device->make_stream(cede::detail::stream_class::lane);
  cudaEvent_t event = device->make_event();
  cede::scheduler cpu(device, {.max_queued = 16});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  cede::stream a = train.adopt(raw);
  std::atomic<int> told{0};
  auto until_told = [&](auto call) {
    return std::thread([&told, call]() mutable {
      try {
        for (;;) call();
      } catch (const cede::device_error& e) {
        if (e.code() == code) ++told;
      }
    });
  };
  std::thread first = until_told([&, t]() mutable {
    t.launch({.grid = 20}, note{&n});
    t.record(event);
    t.synchronize();
  });
  std::thread second = until_told([&, a]() mutable { a.launch({.grid = 3}, note{&n}); });
  plan.armed = true;
  first.join();
  second.join();
  CHECK(told == 2);
  // The program's own streams and events do not wait for what will not come.
  device->synchronize(raw);
  CHECK(eventually([&] { return device->event_done(event); }));
  device->check();
}

TEST_CASE(
    "what a callable dropped by a failure owns may call the scheduler, and be its last handle") {
  struct model {
    cede::scheduler scheduler;
    cede::stream stream;
    std::atomic<int>* told;
    ~model() {
      try {
        stream.synchronize();
      } catch (const cede::device_error&) {
        ++*told;
      }
    }
  };
  fault_plan plan{"tile", 1};
  std::atomic<int> n{0}, told{0};
  auto device = cede::detail::make_host_device({.sms = 1, .fault = plan.function()});
  {
    cede::scheduler cpu(device);
    cede::workload asleep = cpu.workload(effort("asleep"));
    cede::stream t = asleep.stream();
    cede::stream other = cpu.workload(effort("other")).stream();
    asleep.suspend();
    auto owned = std::make_shared<model>(cpu, other, &told);
    t.defer([owned](cudaStream_t) {});
    owned.reset();
    plan.armed = true;
    other.launch({.grid = 1}, note{&n});
  }
  CHECK(eventually([&] { return told == 1; }));
  CHECK(eventually([&] { return device.use_count() == 1; }));
}

TEST_CASE("a policy that asks to be asked again in the past is asked at once") {
  struct hasty final : cede::scheduling_policy {
    void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
      out.again = std::chrono::nanoseconds::min();
      for (std::size_t i = 0; i < v.workloads.size(); ++i)
        out.actions.push_back({cede::policy::verb::submit, i});
    }
  };
  cede::scheduler cpu(cede::host_device{.sms = 1}, {.policy = std::make_shared<hasty>()});
  cede::stream t = cpu.workload(effort()).stream();
  std::atomic<int> n{0};
  for (int i = 0; i < 20; ++i) t.launch({.grid = 5}, note{&n});
  REQUIRE(t.synchronize_for(patience));
  CHECK(n == 100);
}

TEST_CASE("a launch whose form is none is refused, and nobody else suffers") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::stream t = cpu.workload(effort()).stream();
  std::atomic<int> n{0};
  CHECK_THROWS_WITH_AS(t.launch({.grid = 1}, {.form = static_cast<cede::form>(99)}, note{&n}),
                       doctest::Contains("launch_options.form is 99"), cede::invalid_argument);
  t.launch({.grid = 1}, note{&n});
  REQUIRE(t.synchronize_for(patience));
  CHECK(n == 1);
}

TEST_CASE("a state that the device has no room for is refused in words") {
  struct small_device : forwarding_device {
    using forwarding_device::forwarding_device;
    void* memory(std::size_t) override {
      throw cede::out_of_memory("the device is full", 2, "memory");
    }
  };
  auto device = std::make_shared<small_device>(cede::detail::make_host_device({.sms = 2}));
  cede::scheduler cpu(device);
  cede::stream t = cpu.workload(effort()).stream();
  std::string message;
  try {
    t.launch({.grid = 10}, keeps{});
  } catch (const cede::out_of_memory& e) {
    message = e.what();
    CHECK(e.code() == 2);
  }
  for (auto* words :
       {"keeps", "`state` of 2 workers, 1000 bytes each", "workers_per_sm", "the device is full"}) {
    CHECK(contains(message, words));
  }
  std::atomic<int> n{0};
  t.launch({.grid = 1}, note{&n});
  REQUIRE(t.synchronize_for(patience));
}

TEST_CASE("a policy that names a workload there is none of fails its scheduler, in words") {
  struct astray final : cede::scheduling_policy {
    void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
      out.actions.push_back({cede::policy::verb::submit, v.workloads.size() + 1000000});
    }
  };
  cede::scheduler cpu(cede::host_device{.sms = 1}, {.policy = std::make_shared<astray>()});
  cede::stream t = cpu.workload(effort()).stream();
  std::atomic<int> n{0};
  const std::string message = message_of<cede::contract_error>([&] {
    t.launch({.grid = 1}, note{&n});
    t.synchronize();
  });
  CHECK(contains(message, "policy named workload 1000001"));
  CHECK(n == 0);
}

TEST_CASE("an event that the device refuses is the misfortune of that call alone") {
  for (int i = 0; i < 3; ++i) {  // a scheduler each: events once made are used again
    fault_plan plan{"make_event", 1};
    std::atomic<int> n{0};
    auto device = cede::detail::make_host_device({.sms = 2, .fault = plan.function()});
    cudaStream_t raw = device->make_stream(cede::detail::stream_class::lane);
    cede::scheduler cpu(device);
    cede::workload train = cpu.workload(effort());
    cede::workload serve = cpu.workload(critical());
    cede::stream t = train.stream();
    cede::stream s = serve.stream();
    cede::stream a = train.adopt(raw);
    plan.armed = true;
    CHECK_THROWS_AS((i == 0   ? a.launch({.grid = 3}, note{&n})
                     : i == 1 ? t.wait(raw)
                              : s.wait(raw)),
                    cede::device_error);
    plan.armed = false;
    a.launch({.grid = 3}, note{&n});
    t.wait(raw);
    t.launch({.grid = 3}, note{&n});
    s.wait(raw);
    s.launch({.grid = 3}, note{&n});
    REQUIRE(a.synchronize_for(patience));
    REQUIRE(t.synchronize_for(patience));
    REQUIRE(s.synchronize_for(patience));
    CHECK(n == 9);
  }
}

TEST_CASE("calls refused while the scheduler is set up throw from there and leave it whole") {
  fault_plan plan{"words", 1};
  std::atomic<int> n{0};
  cede::scheduler cpu(cede::host_device{.sms = 1, .fault = plan.function()});
  plan.armed = true;
  CHECK_THROWS_AS(static_cast<void>(cpu.workload(effort("first"))), cede::out_of_memory);
  plan.armed = false;
  cede::workload train = cpu.workload(effort());
  cede::workload serve = cpu.workload(critical());
  for (std::string_view operation : {"words", "make_stream"}) {
    for (std::uint64_t nth = 1; nth <= 5; ++nth) {
      for (auto* work : {&train, &serve}) {
        plan.operation = operation;
        plan.nth = nth;
        plan.seen = 0;
        plan.armed = true;
        std::vector<cede::stream> streams;
        try {
          for (int i = 0; i < 6; ++i) streams.push_back(work->stream());
        } catch (const cede::device_error& e) {
          CHECK(e.code() == code);
        }
        plan.armed = false;
        for (auto& s : streams) {
          s.launch({.grid = 1}, note{&n});
          REQUIRE(s.synchronize_for(patience));
        }
      }
    }
  }
  fault_plan early{"words", 1};
  early.armed = true;
  CHECK_THROWS_AS((cede::scheduler(cede::host_device{.sms = 1, .fault = early.function()})),
                  cede::out_of_memory);
}

TEST_CASE(
    "tiles that still run when the device fails are waited for before the scheduler is gone") {
  captured_stderr err;
  fault_plan plan{"fill", 1};
  auto memory = std::make_unique<std::atomic<int>>(0);
  std::atomic<int> started{0};
  struct slow {
    std::atomic<int>* started;
    std::atomic<int>* memory;
    void operator()(cede::block) const {
      started->fetch_add(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      memory->fetch_add(1);  // used after the free, if the scheduler did not wait
    }
  };
  {
    cede::scheduler cpu(cede::host_device{.sms = 2, .fault = plan.function()});
    cede::workload train = cpu.workload(effort());
    cede::workload serve = cpu.workload(critical());
    cede::stream t = train.stream();
    cede::stream s = serve.stream();
    t.launch({.grid = 2}, slow{&started, memory.get()});
    REQUIRE(eventually([&] { return started > 0; }));
    plan.armed = true;
    int sink = 0;
    try {
      s.fill(&sink, 0, 4);
      s.synchronize();
    } catch (const cede::device_error&) {  // NOLINT(bugprone-empty-catch): meant to
    }
  }
  memory.reset();
}

TEST_CASE("memory given to free_after is not lost when the device fails") {
  // The leak check of the address sanitizer is the judge.
  captured_stderr err;
  fault_plan plan{"kernel", 2};
  std::atomic<int> n{0};
  cede::scheduler cpu(cede::host_device{.sms = 1, .fault = plan.function()});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  plan.armed = true;
  try {
    for (int i = 0; i < 100; ++i) {
      t.launch({.grid = 1}, note{&n});
      void* memory = std::malloc(64);
      try {
        t.free_after(memory);
      } catch (...) {
        std::free(memory);
        throw;
      }
    }
    t.synchronize();
  } catch (const cede::device_error& e) {
    CHECK(e.code() == code);
  }
  CHECK(plan.seen >= 2);
}

TEST_CASE("several threads find the device failed at the same moment") {
  captured_stderr err;
  for (int round = 0; round < 20; ++round) {
    fault_plan plan{"write_value", static_cast<std::uint64_t>(round % 5 + 1)};
    std::atomic<int> n{0};
    std::atomic<int> told{0};
    cede::scheduler cpu(cede::host_device{.sms = 2, .fault = plan.function()});
    cede::workload serve = cpu.workload(critical());
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        try {
          cede::stream s = serve.stream();
          for (;;) {
            auto request = serve.request();
            s.launch({.grid = 1}, note{&n});
            request.close();
            s.synchronize();
          }
        } catch (const cede::device_error& e) {
          if (e.code() == code) ++told;
        }
      });
    }
    plan.armed = true;
    for (auto& t : threads) t.join();
    CHECK(told == 6);
  }
}
