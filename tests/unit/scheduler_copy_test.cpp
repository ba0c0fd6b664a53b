// SPDX-License-Identifier: Apache-2.0
// Best-effort copies and fills go in pieces and give way between them; whoever waits for one sees
// all of it.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "scheduler_fixture.hpp"

using namespace cede_test;

namespace {

constexpr std::size_t MiB = std::size_t{1} << 20U;

/// Lets gated work go on a number of times, then keeps it out until told otherwise.
class doorkeeper final : public cede::scheduling_policy {
 public:
  void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
    out.actions.clear();
    out.again = std::chrono::milliseconds(1) + v.now;
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      if (!v.workloads[i].ready || v.workloads[i].suspended) continue;
      if (left_.load() == 0) {
        refused_.fetch_add(1);
        continue;
      }
      left_.fetch_sub(1);
      out.actions.push_back({cede::policy::verb::submit, i});
    }
  }
  void allow(int times) { left_ = times; }
  [[nodiscard]] int refused() const { return refused_.load(); }

 private:
  std::atomic<int> left_{0};
  std::atomic<int> refused_{0};
};

std::vector<std::uint32_t> numbered(std::size_t n) {
  std::vector<std::uint32_t> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<std::uint32_t>(i * 2654435761U);
  return v;
}

}  // namespace

TEST_CASE("a long copy or fill can be kept out half done, and goes on where it stopped") {
  auto keeper = std::make_shared<doorkeeper>();
  cede::scheduler cpu(cede::host_device{.sms = 2}, {.policy = keeper});
  // So short a turnaround that every piece but the first is the least.
  cede::workload train = cpu.workload({.name = "train", .turnaround = 1us});
  cede::stream t = train.stream();
  const auto from = numbered(8 * MiB);
  std::vector<std::uint32_t> to(from.size());
  const bool fills = [] {
    bool chosen = false;
    SUBCASE("copy") {}
    SUBCASE("fill") { chosen = true; }
    return chosen;
  }();
  if (fills) {
    t.fill(to.data(), 0xff, to.size() * 4);
  } else {
    t.copy(to.data(), from.data(), to.size() * 4);
  }
  const cede::event done = t.record();
  keeper->allow(3);
  const int before = keeper->refused();
  // Refused with nothing more in flight: what was admitted is done.
  REQUIRE(eventually([&] { return keeper->refused() > before + 20; }));
  CHECK_FALSE(done.done());
  CHECK(contains(cpu.explain(), fills ? "fill, " : "copy, "));
  keeper->allow(1 << 20);
  REQUIRE(t.synchronize_for(patience));
  CHECK(done.done());
  if (fills) {
    CHECK(std::all_of(to.begin(), to.end(), [](auto v) { return v == 0xffffffffU; }));
  } else {
    CHECK(to == from);
  }
}

TEST_CASE("copies in pieces keep their place between launches, under requests that come and go") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload train = cpu.workload({.name = "train", .turnaround = 20us});
  steady_requests serve(cpu.workload(critical()), 300us);
  cede::stream t = train.stream();
  constexpr std::size_t n = 2 * MiB + 3;
  auto from = numbered(n);
  std::vector<std::uint32_t> middle(n), to(n);
  struct add_one {
    std::uint32_t* values;
    std::size_t n;
    void operator()(cede::block b) const {
      for (std::size_t i = b.index().x; i < n; i += b.grid().x) ++values[i];
    }
  };
  for (int round = 0; round < 5; ++round) {
    t.copy(middle.data(), from.data(), n * 4);
    t.launch({.grid = 7}, add_one{middle.data(), n});
    t.copy(to.data(), middle.data(), n * 4);
    t.launch({.grid = 7}, add_one{to.data(), n});
    t.copy(from.data(), to.data(), n * 4);
  }
  REQUIRE(t.synchronize_for(patience));
  auto expected = numbered(n);
  for (auto& v : expected) v += 10;
  CHECK(from == expected);
}

TEST_CASE("a copy of nothing is an operation like any other") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::stream t = cpu.workload(effort()).stream();
  t.copy(nullptr, nullptr, 0);
  t.fill(nullptr, 1, 0);
  REQUIRE(t.synchronize_for(patience));
}

TEST_CASE("a workload suspended in the middle of a copy can end") {
  auto keeper = std::make_shared<doorkeeper>();
  const auto from = numbered(4 * MiB);
  std::vector<std::uint32_t> to(from.size());
  captured_stderr err;
  {
    cede::scheduler cpu(cede::host_device{.sms = 1}, {.policy = keeper});
    cede::workload train = cpu.workload({.name = "train", .turnaround = 1us});
    cede::stream t = train.stream();
    t.copy(to.data(), from.data(), to.size() * 4);
    keeper->allow(2);
    REQUIRE(eventually([&] { return keeper->refused() > 20; }));
    train.suspend();
  }
  CHECK(err.says("suspended"));
  CHECK(to.back() == 0);
}
