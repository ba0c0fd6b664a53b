// SPDX-License-Identifier: Apache-2.0
// Scenes of the strict-priority policy with a known answer, and its costs and misuse.
#include <cede/policy/strict_priority.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/count_allocations.hpp"
#include "support/policy_stage.hpp"

using cede::priority;
using cede::policy::nanoseconds;
using cede::policy::strict_priority;
using cede::policy::verb;
using cede::policy::workload_view;
using cede_test::stage;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds quantum = stage::default_quantum;
constexpr nanoseconds never = nanoseconds::max();

}  // namespace

// The latency-critical side.

TEST_CASE("strict_priority: activity raises all that runs, once, and lets nobody in") {
  stage s(3);
  s[0].in_flight = s[1].in_flight = s[2].ready = true;
  s[1].raised = true;
  s.active = true;
  CHECK(s.decide() == "raise 0");
  CHECK(s.last.again == never);
  s[0].raised = true;
  CHECK(s.decide() == "");
}

TEST_CASE(
    "strict_priority: after activity a workload stays out to the nanosecond of its hold-off") {
  stage s(1);
  s[0].ready = true;
  s[0].hold_off = 100us;
  s.idle_since = 5ms;
  s.now = 5ms;
  CHECK(s.decide() == "");
  CHECK(s.last.again == 5100us);
  s.now = 5100us - 1ns;
  CHECK(s.decide() == "");
  CHECK(s.last.again == 5100us);
  s.now = 5100us;
  CHECK(s.decide() == "submit 0");
  CHECK(s.last.again == never);
}

TEST_CASE("strict_priority: each workload has its own hold-off, and the earliest is asked for") {
  stage s(3);
  for (std::size_t i = 0; i < 3; ++i) s[i].ready = true;
  s[0].hold_off = 300us;
  s[1].hold_off = 100us;
  s[2].hold_off = 200us;
  CHECK(s.decide() == "");
  CHECK(s.last.again == 100us);
  s.now = 100us;
  CHECK(s.step() == "submit 1");
  CHECK(s.last.again == 200us);
}

TEST_CASE("strict_priority: a hold-off without end, and an idle side since ever") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s[0].hold_off = nanoseconds::max();
  s[1].suspended = true;
  s.now = 1h;
  CHECK(s.decide() == "");
  s.idle_since = nanoseconds::min();
  CHECK(s.decide() == "submit 0");  // idle for longer than a duration can say
}

TEST_CASE("strict_priority: what is in flight during a hold-off may finish") {
  stage s(1);
  s[0].in_flight = s[0].ready = true;
  s[0].hold_off = 1ms;
  CHECK(s.decide() == "");
  s.now = 1ms;
  CHECK(s.decide() == "submit 0");
}

// Levels.

TEST_CASE("strict_priority: the higher level sends the lower one out and goes first") {
  stage s(2);
  s[1].level = priority{500};
  s[0].ready = true;
  CHECK(s.step() == "submit 0");
  s[1].ready = true;
  CHECK(s.step() == "raise 0, submit 1");
  s.pass(1s);
  CHECK(s.decide() == "");
  CHECK(s.last.again == never);
  s[1].in_flight = false;
  CHECK(s.decide() == "submit 0");
}

TEST_CASE("strict_priority: a higher workload that is leaving still keeps lower ones out") {
  stage s(2);
  s[1].level = priority{1};
  s[1].in_flight = s[1].raised = true;
  s[0].ready = true;
  CHECK(s.decide() == "");
}

TEST_CASE("strict_priority: a higher workload that is held off lends the machine") {
  stage s(2);
  s[1].level = priority{1};
  s[1].ready = s[0].ready = true;
  s[1].hold_off = 1ms;
  CHECK(s.step() == "submit 0");
  CHECK(s.last.again == 1ms);
  s.pass(1ms);
  CHECK(s.step() == "raise 0, submit 1");
}

TEST_CASE("strict_priority: nobody asks again for a lower level's hold-off") {
  stage s(2);
  s[1].level = priority{1};
  s[1].in_flight = true;
  s[0].ready = true;
  s[0].hold_off = 1ms;
  CHECK(s.decide() == "");
  CHECK(s.last.again == never);
}

TEST_CASE("strict_priority: negative levels are levels") {
  stage s(2);
  s[0].level = priority{-5};
  s[1].level = priority{-4};
  s[0].ready = s[1].ready = true;
  CHECK(s.decide() == "submit 1");
}

// Suspension.

TEST_CASE("strict_priority: a suspended workload leaves and stays out") {
  stage s(2);
  s[0].ready = s[0].in_flight = s[0].suspended = true;
  CHECK(s.decide() == "raise 0");
  s[0].raised = true;
  CHECK(s.decide() == "");
  CHECK(s.last.again == never);
  s[1].ready = true;
  s[1].level = priority{-1};
  CHECK(s.decide() == "submit 1");  // however high the suspended one is
}

TEST_CASE("strict_priority: a suspended workload's hold-off wakes nobody") {
  stage s(1);
  s[0].ready = s[0].suspended = true;
  s[0].hold_off = 1ms;
  CHECK(s.decide() == "");
  CHECK(s.last.again == never);
}

// Costs and misuse.

TEST_CASE("strict_priority: a quantum must be larger than 0") {
  CHECK_THROWS_AS(strict_priority({.quantum = 0ns}), cede::invalid_argument);
  CHECK_THROWS_WITH_AS(strict_priority({.quantum = -1us}),
                       "strict_priority: the quantum is -1000 ns; a turn must last longer than 0",
                       cede::invalid_argument);
  CHECK(strict_priority({.quantum = 1ns}).gives_way());
  CHECK(strict_priority().gives_way());
}

TEST_CASE("strict_priority: nobody starves beside weights that are not weights") {
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), 1e300}) {
    CAPTURE(bad);
    stage s(3);
    for (std::size_t i = 0; i < 3; ++i) s[i].ready = true;
    s[1].weight = bad;
    s.step();
    for (int i = 0; i < 100; ++i) {
      s.pass(quantum);
      s.step();
      REQUIRE(std::count_if(s.workloads.begin(), s.workloads.end(),
                            [](const workload_view& w) { return w.in_flight; }) == 1);
    }
    CHECK(s[0].used + s[1].used + s[2].used == 100 * quantum);
    if (!(bad > 1)) CHECK(s[0].used >= 40 * quantum);
  }
}

TEST_CASE("strict_priority: a clock that runs backwards and a shrinking view do no harm") {
  stage s(3);
  for (std::size_t i = 0; i < 3; ++i) s[i].ready = true;
  s.now = 10ms;
  CHECK(s.step() == "submit 0");
  s.now = 5ms;
  CHECK(s.decide() == "");
  s.workloads.erase(s.workloads.begin());
  CHECK(s.decide() == "submit 0");
  s.workloads.clear();
  CHECK(s.decide() == "");
  CHECK(s.last.again == never);
}

TEST_CASE("strict_priority: a steady state allocates nothing") {
  stage s(4);
  for (std::size_t i = 0; i < 4; ++i) {
    s[i].ready = true;
    s[i].level = priority{static_cast<int>(i % 2)};
  }
  const auto turn_over = [&] {
    for (int i = 0; i < 200; ++i) {
      s.pass(quantum);
      s.active = i % 3 == 0;
      s.idle_since = s.now;
      s[1].suspended = i % 5 == 0;
      s[3].ready = s[3].in_flight = false;
      s.policy.decide({s.now, s.active, s.idle_since, s.workloads}, s.last);
      for (const auto& a : s.last.actions) {
        s[a.workload].in_flight = a.what == verb::submit;
        s[a.workload].ready = a.what == verb::raise;
      }
    }
  };
  turn_over();
  const auto before = cede_test::allocations();
  turn_over();
  CHECK(cede_test::allocations() == before);
}
