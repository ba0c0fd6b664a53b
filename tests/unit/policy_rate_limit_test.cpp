// SPDX-License-Identifier: Apache-2.0
// Rate limits: the bucket over all short histories and long random ones in virtual time, then a
// limited workload on the host device.
#include <cede/policy/rate_limit.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "unit/scheduler_fixture.hpp"

using cede::policy::rate_limit;
using cede::policy::token_bucket;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;
using namespace cede_test;

namespace {
struct count_tiles {
  std::atomic<int>* n;
  void operator()(cede::block b) const {
    if (b.thread_rank() == 0) n->fetch_add(1);
  }
};

/// Submits what is ready, limited or not.
struct overeager final : cede::scheduling_policy {
  std::atomic<int> limited_looks{0};
  void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      if (v.workloads[i].limited) ++limited_looks;
      out.actions.push_back({cede::policy::verb::submit, i});
    }
  }
};
}  // namespace

TEST_CASE("rate limit: none by default") {
  token_bucket b;
  token_bucket one{rate_limit{}};
  for (int i = 0; i < 100; ++i) {
    CHECK(b.look(1s * i, 1s * i));
    CHECK(one.look(1s * i, 1s * i));
  }
}

TEST_CASE("rate limit: out when empty, back when half full, debts paid first") {
  token_bucket b{{.share = 0.5, .burst = 100ns}};
  CHECK(b.look(1h, 50ns));  // what was before the first look does not count
  CHECK(b.look(1h + 100ns, 150ns));
  CHECK(b.left() == 50ns);
  CHECK_FALSE(b.look(1h + 200ns, 250ns));
  CHECK_FALSE(b.look(1h + 298ns, 250ns));
  CHECK(b.look(1h + 300ns, 250ns));
  CHECK(b.look(1h + 10s, 250ns));
  CHECK(b.left() == 100ns);  // absence earns a burst, no more
  CHECK_FALSE(b.look(1h + 10s, 1250ns));
  CHECK(b.left() == -900ns);
  CHECK_FALSE(b.look(1h + 10s + 1898ns, 1250ns));
  CHECK(b.look(1h + 10s + 1900ns, 1250ns));
  CHECK(b.look(1h, 0ns));  // what goes back changes nothing
  CHECK(b.left() == 50ns);
}

TEST_CASE("rate limit: every short history obeys the definition") {
  // Dyadic shares and whole steps: exact in floating point.
  for (const double share : {0.25, 0.5, 0.75}) {
    for (std::uint32_t history = 0; history < 1U << 14U; ++history) {
      token_bucket b{{.share = share, .burst = 16ns}};
      nanoseconds now{0};
      nanoseconds used{0};
      double tokens = 16;
      bool out = false;
      bool right = b.look(now, used);
      for (unsigned i = 0; i < 7; ++i) {
        const std::uint32_t step = (history >> (2 * i)) & 3U;  // longer or shorter, runs or not
        const nanoseconds dt{(step & 1U) != 0 ? 32 : 8};
        const bool ran = (step & 2U) != 0;
        now += dt;
        if (ran) used += dt;
        const auto length = static_cast<double>(dt.count());
        tokens = std::min(16.0, tokens + share * length - (ran ? length : 0));
        out = tokens <= 0 || (out && tokens < 8);
        right = right && b.look(now, used) == !out;
      }
      REQUIRE(right);
    }
  }
}

TEST_CASE("rate limit: within any time no more than the share, a burst and an overrun") {
  std::mt19937_64 rng(7);
  for (int run = 0; run < 50; ++run) {
    const double share = 0.05 + 0.9 * static_cast<double>(run) / 50;
    const nanoseconds burst{1000 + static_cast<std::int64_t>(rng() % 100'000)};
    const nanoseconds longest{500};
    token_bucket b{{.share = share, .burst = burst}};
    nanoseconds now{0};
    nanoseconds used{0};
    double least = 0;    // of used - share * now, so far
    double largest = 0;  // excess over any time
    bool may = b.look(now, used);
    for (int i = 0; i < 20'000; ++i) {
      const nanoseconds dt{1 + static_cast<std::int64_t>(rng() % 500)};
      now += dt;
      if (may) used += dt;
      may = b.look(now, used);
      const double line =
          static_cast<double>(used.count()) - share * static_cast<double>(now.count());
      least = std::min(least, line);
      largest = std::max(largest, line - least);
    }
    CHECK(largest <= static_cast<double>((burst + longest).count()) + 1);
    // Nothing is withheld either: always there, it gets its share.
    CHECK(static_cast<double>(used.count()) >= share * static_cast<double>(now.count()) - 1);
  }
}

TEST_CASE("rate limit: misuse is refused in words") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double share : {0.0, -1.0, 1.5, nan}) {
    auto o = effort();
    o.limit.share = share;
    CHECK_THROWS_WITH_AS(static_cast<void>(cpu.workload(o)), doctest::Contains("limit.share is"),
                         cede::invalid_argument);
  }
  auto o = effort();
  o.limit = {.share = 0.5, .burst = 0ns};
  CHECK_THROWS_WITH_AS(static_cast<void>(cpu.workload(o)), doctest::Contains("limit.burst 0 ns"),
                       cede::invalid_argument);
  o = critical();
  o.limit.share = 0.5;
  CHECK_THROWS_WITH_AS(static_cast<void>(cpu.workload(o)), doctest::Contains("never held back"),
                       cede::invalid_argument);
}

TEST_CASE("rate limit: a limited workload waits for it, whatever the policy, and ends its work") {
  for (const bool own : {false, true}) {
    std::atomic<int> n{0};
    auto eager = own ? std::make_shared<overeager>() : nullptr;
    cede::scheduler cpu(cede::host_device{.sms = 1}, {.policy = eager});
    auto o = effort();
    o.limit = {.share = 0.5, .burst = 1us};  // less than any launch takes
    cede::stream t = cpu.workload(o).stream();
    for (int i = 0; i < 50; ++i) t.launch({.grid = 20}, count_tiles{&n});
    REQUIRE(t.synchronize_for(patience));
    CHECK(n == 1000);
    const auto stats = cpu.stats();
    CHECK(stats.workloads.at(0).waits.of(cede::wait_cause::rate_limit) > 0ns);
    if (own) CHECK(eager->limited_looks > 0);
  }
}

TEST_CASE("rate limit: ending the scheduler does not wait for it") {
  std::atomic<int> n{0};
  {
    cede::scheduler cpu(cede::host_device{.sms = 1});
    auto o = effort();
    o.limit = {.share = 1e-9, .burst = 1ns};  // its next turn comes in minutes
    cede::stream t = cpu.workload(o).stream();
    for (int i = 0; i < 50; ++i) t.launch({.grid = 20}, count_tiles{&n});
  }
  CHECK(n == 1000);
}
