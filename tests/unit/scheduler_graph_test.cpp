// SPDX-License-Identifier: Apache-2.0
// Recorded graphs: the same nodes in the same order on every kind of stream, cut at foreign nodes,
// as one request; refused whole or not at all; what a device made of one outlives its launches.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <support/forwarding_device.hpp>

#include "scheduler_fixture.hpp"

using namespace cede_test;

namespace {

constexpr unsigned tiles = 16;

cede::shape grid() { return {.grid = tiles, .block = 1}; }

/// Says that a step was taken, if all values are as the steps before it left them.
struct steps {
  std::vector<int> values = std::vector<int>(tiles);
  std::vector<int> copied = std::vector<int>(tiles);
  std::vector<unsigned char> filled = std::vector<unsigned char>(64);
  int wrong = 0;
  std::atomic<int> calls{0};
};

/// 0 → 1 → 2, copied, a foreign node that looks, 2 → 3 → 0, filled.
cede::graph round_trip(steps& s) {
  cede::graph g;
  g.launch(grid(), step_up{s.values.data(), 0, &s.wrong})
      .launch(grid(), step_up{s.values.data(), 1, &s.wrong})
      .copy(s.copied.data(), s.values.data(), tiles * sizeof(int))
      .run([&s](cudaStream_t) { ++s.calls; })
      .launch(grid(), step_up{s.values.data(), 2, &s.wrong})
      .fill(s.values.data(), 0, tiles * sizeof(int))
      .fill(s.filled.data(), 7, s.filled.size());
  return g;
}

/// A device that makes graphs as CUDA's does: by name, executed later.
class device_with_graphs final : public forwarding_device {
 public:
  using forwarding_device::forwarding_device;

  cudaGraphExec_t make_graph(std::span<const cede::detail::graph_item> items) override {
    auto g = std::make_unique<recorded>();
    for (const auto& i : items) {
      entry e{i, {}, {}};
      if (i.launch != nullptr) {
        e.launch = *i.launch;
        const auto* body = static_cast<const std::byte*>(i.launch->body);
        e.body.assign(body, body + i.launch->kernel->bytes);
      }
      g->entries.push_back(std::move(e));
    }
    const std::scoped_lock lock(mutex_);
    auto* name = reinterpret_cast<cudaGraphExec_t>(g.get());
    alive_.insert(name);
    all_.push_back(std::move(g));
    ++made;
    return name;
  }
  void destroy_graph(cudaGraphExec_t g) noexcept override {
    const std::scoped_lock lock(mutex_);
    if (alive_.erase(g) == 0) ++wrong;
    ++destroyed;
  }
  void launch_graph(cudaStream_t s, cudaGraphExec_t g) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!alive_.contains(g)) ++wrong;
    }
    ++launched;
    for (entry& e : reinterpret_cast<recorded*>(g)->entries) {
      if (e.item.launch != nullptr) {
        e.launch.body = e.body.data();
        submit(s, e.launch);
      } else if (e.item.from != nullptr) {
        copy(s, e.item.to, e.item.from, e.item.bytes);
      } else {
        fill(s, e.item.to, e.item.byte, e.item.bytes);
      }
    }
  }

  std::atomic<int> made{0}, destroyed{0}, launched{0}, wrong{0};

 private:
  struct entry {
    cede::detail::graph_item item;
    cede::detail::submission launch;
    std::vector<std::byte> body;
  };
  struct recorded {
    std::vector<entry> entries;
  };
  std::mutex mutex_;
  std::set<cudaGraphExec_t> alive_;
  std::vector<std::unique_ptr<recorded>> all_;
};

template <class Error, class F>
std::string said(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a graph runs its nodes in order, on every kind of stream, as often as it is launched") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  auto serve = cpu.workload(critical());
  auto train = cpu.workload(effort());
  cede::stream s;
  SUBCASE("latency-critical") { s = serve.stream(); }
  SUBCASE("best-effort") { s = train.stream(); }
  steps seen;
  {
    const cede::graph g = round_trip(seen);
    CHECK(g.size() == 7);
    for (int i = 0; i < 50; ++i) s.launch(g);
  }  // the nodes queued are copies
  s.synchronize();
  CHECK(seen.wrong == 0);
  CHECK(seen.calls == 50);
  CHECK(std::ranges::count(seen.copied, 2) == tiles);
  CHECK(std::ranges::count(seen.values, 0) == tiles);
  CHECK(std::ranges::count(seen.filled, 7) == 64);
}

TEST_CASE("a best-effort graph gives way and loses nothing, whatever becomes of its object") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  auto serve = cpu.workload(critical());
  auto train = cpu.workload(effort());
  auto s = train.stream();
  auto answers = serve.stream();
  std::vector<int> runs(64);
  std::vector<int> served(1);
  cede::graph g;
  for (int i = 0; i < 3; ++i) g.launch({.grid = 64, .block = 1}, busy_runs{runs.data(), 20000});
  for (int i = 0; i < 5; ++i) s.launch(g);
  g = {};
  for (int i = 0; i < 40; ++i) {
    const auto request = serve.request();
    answers.launch({.grid = 1, .block = 1}, count_runs{served.data()});
    answers.synchronize();
  }
  s.synchronize();
  CHECK(std::ranges::count(runs, 15) == 64);
  CHECK(served[0] == 40);
}

TEST_CASE("an empty graph is nothing, one moved from is empty, and a graph can grow") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  auto s = cpu.workload(critical()).stream();
  std::vector<int> runs(4);
  cede::graph g;
  s.launch(g);
  g.copy(nullptr, nullptr, 0).fill(nullptr, 1, 0);
  CHECK(g.empty());
  g.launch({.grid = 4, .block = 1}, count_runs{runs.data()});
  s.launch(g);
  g.launch({.grid = 4, .block = 1}, count_runs{runs.data()});
  s.launch(g);
  cede::graph other = std::move(g);
  CHECK(other.size() == 2);
  s.launch(cede::graph{});
  s.synchronize();
  CHECK(std::ranges::count(runs, 3) == 4);
}

TEST_CASE("a graph is refused before any of its nodes is queued") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  auto serve = cpu.workload(critical());
  auto train = cpu.workload(effort());
  std::vector<int> runs(4);
  cede::graph g;
  g.launch({.grid = 4, .block = 1}, count_runs{runs.data()})
      .launch({.grid = 4, .block = 1 << 20}, count_runs{runs.data()});
  for (cede::stream s : {serve.stream(), train.stream()}) {
    const std::string why = said<cede::invalid_argument>([&] { s.launch(g); });
    CHECK(contains(why, "count_runs"));
    s.synchronize();
  }
  CHECK(std::ranges::count(runs, 0) == 4);
}

TEST_CASE("misuse of graphs is said in a sentence") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  auto serve = cpu.workload(critical());
  auto train = cpu.workload(effort());
  cede::graph g;
  int x = 0;
  CHECK(contains(said<cede::invalid_argument>([&] { g.copy(&x, nullptr, 4); }), "null pointer"));
  CHECK(contains(said<cede::invalid_argument>([&] { g.copy(nullptr, &x, 4); }), "null pointer"));
  CHECK(contains(said<cede::invalid_argument>([&] { g.fill(nullptr, 1, 4); }), "null pointer"));
  const cudaGraphExec_t none = nullptr;
  CHECK(contains(said<cede::contract_error>([&] { g.launch(none); }), "instantiate it first"));
  CHECK(g.empty());
  auto* foreign = reinterpret_cast<cudaGraphExec_t>(&x);
  g.launch({.grid = 1, .block = 1}, count_runs{&x}).launch(foreign);
  for (cede::stream s : {serve.stream(), train.stream()}) {
    CHECK(contains(said<cede::contract_error>([&] { s.launch(none); }), "instantiate it first"));
    CHECK(contains(said<cede::not_supported>([&] { s.launch(foreign); }), "record a cede::graph"));
    CHECK(contains(said<cede::not_supported>([&] { s.launch(g); }), "record a cede::graph"));
    s.synchronize();
  }
  CHECK(x == 0);
  cede::stream nobody;
  CHECK_THROWS_AS(nobody.launch(g), cede::contract_error);
}

TEST_CASE("a callable of a graph may use its stream, and what it throws ends the launch there") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  auto s = cpu.workload(critical()).stream();
  std::vector<int> runs(4);
  cede::graph g;
  bool fails = false;
  g.launch({.grid = 4, .block = 1}, count_runs{runs.data()})
      .run([&](cudaStream_t) {
        s.launch({.grid = 4, .block = 1}, count_runs{runs.data()});
        if (fails) throw std::runtime_error("no");
      })
      .launch({.grid = 4, .block = 1}, count_runs{runs.data()});
  s.launch(g);
  fails = true;
  CHECK_THROWS_AS(s.launch(g), std::runtime_error);
  s.synchronize();
  CHECK(std::ranges::count(runs, 5) == 4);
  CHECK(cpu.stats().workloads.size() == 1);
}

TEST_CASE("where the device makes graphs, a latency-critical one is one launch between cuts") {
  auto device = std::make_shared<device_with_graphs>(
      cede::detail::make_host_device(cede::host_device{.sms = 2}));
  cede::scheduler cpu(device);
  auto serve = cpu.workload(critical());
  auto s = serve.stream();
  steps seen;
  auto g = std::make_unique<cede::graph>(round_trip(seen));
  for (int i = 0; i < 10; ++i) {
    const bool in_request = i % 2 == 1;
    if (in_request) {
      const auto request = serve.request();
      s.launch(*g);
    } else {
      s.launch(*g);
    }
  }
  CHECK(device->made == 2);  // one on each side of the callable
  CHECK(device->launched == 20);
  SUBCASE("and goes once nothing executes it") {
    s.synchronize();
    g = nullptr;
    CHECK(device->destroyed == 2);
  }
  SUBCASE("also when it is dropped at once, and the stream with it") {
    const cede::event end = s.record();
    s = {};
    g = nullptr;
    end.synchronize();
    // The next graph finds what can go.
    cede::graph next;
    next.launch(grid(), step_up{seen.values.data(), 0, &seen.wrong})
        .fill(seen.values.data(), 0, tiles * sizeof(int));
    auto again = serve.stream();
    again.launch(next);
    again.synchronize();
    CHECK(device->destroyed == 2);
    CHECK(device->made == 3);
  }
  SUBCASE("one of a single node is not made at all") {
    cede::graph single;
    single.fill(seen.filled.data(), 7, 64);
    s.launch(single);
    CHECK(device->made == 2);
  }
  serve.synchronize();
  CHECK(seen.wrong == 0);
  CHECK(device->wrong == 0);
  CHECK(seen.calls == 10);
  CHECK(std::ranges::count(seen.copied, 2) == tiles);
}
