// SPDX-License-Identifier: Apache-2.0
// The policies, decision by decision: every small state against properties, and scenes with a known
// answer. policy_virtual_time_test.cpp looks at long runs.
#include <cede/policy/strict_priority.hpp>
#include <cede/policy/ungated.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "support/count_allocations.hpp"
#include "support/policy_oracle.hpp"
#include "support/sanitized.hpp"

using cede::best_effort;
using cede::priority;
using cede::policy::nanoseconds;
using cede::policy::strict_priority;
using cede::policy::ungated;
using cede::policy::verb;
using cede::policy::verdict;
using cede::policy::view;
using cede::policy::workload_view;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds quantum = 2ms;
constexpr nanoseconds never = nanoseconds::max();

/// A small stage: workloads whose flags a test sets, and the answers in words, such as "raise 0".
struct stage {
  strict_priority policy;
  std::vector<workload_view> workloads;
  nanoseconds now{0};
  bool active = false;
  nanoseconds idle_since{0};
  verdict last;

  explicit stage(std::size_t n, nanoseconds q = quantum) : policy({.quantum = q}), workloads(n) {}

  workload_view& operator[](std::size_t i) { return workloads[i]; }

  /// Lets time pass: who runs uses it.
  void pass(nanoseconds span) {
    now += span;
    for (workload_view& w : workloads)
      if (w.in_flight && !w.raised) w.used += span;
  }

  std::string decide() {
    policy.decide({now, active, idle_since, workloads}, last);
    std::string words;
    for (const auto& a : last.actions) {
      if (!words.empty()) words += ", ";
      words += (a.what == verb::submit ? "submit " : "raise ") + std::to_string(a.workload);
    }
    return words;
  }

  /// The same, carried out: what is raised leaves at once and is ready again.
  std::string step() {
    std::string words = decide();
    for (const auto& a : last.actions) {
      workload_view& w = workloads[a.workload];
      w.in_flight = a.what == verb::submit;
      w.ready = a.what == verb::raise;
    }
    return words;
  }
};

}  // namespace

// ---- every small state
// ----------------------------------------------------------------------------

TEST_CASE("strict_priority: every state of three workloads, with every short past") {
  // Each workload: nothing / ready / in flight / both, raised or not, suspended, within its
  // hold-off.
  std::vector<workload_view> kinds;
  for (const bool ready : {false, true})
    for (const int flight : {0, 1, 2})
      for (const bool suspended : {false, true})
        for (const nanoseconds hold_off : {1ms, 50ms}) {
          workload_view w;
          w.ready = ready;
          w.in_flight = flight != 0;
          w.raised = flight == 2;
          w.suspended = suspended;
          w.hold_off = hold_off;
          kinds.push_back(w);
        }
  // Levels matter by their order only.
  std::vector<std::array<int, 3>> orders;
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 3; ++c)
        if (std::min({a, b, c}) == 0) orders.push_back({a, b, c});

  constexpr int step = cede_test::sanitized ? 6 : 1;
  std::size_t states = 0;
  verdict out;
  verdict again;
  for (const auto& order : orders)
    for (const std::array<double, 3> weights :
         {std::array{1.0, 1.0, 1.0}, std::array{1.0, 3.0, 0.5}})
      // The past: nobody ran, or one of the three has used a part of its turn, or all of it and
      // more.
      for (int past = 0; past < 7; past += step) {
        stage s(3);
        for (std::size_t i = 0; i < 3; ++i) {
          s[i].level = priority{order[i]};
          s[i].weight = weights[i];
        }
        if (past > 0) {
          workload_view& ran = s[static_cast<std::size_t>(past - 1) % 3];
          ran.ready = true;
          REQUIRE(s.step() == "submit " + std::to_string((past - 1) % 3));
          s.pass(past < 4 ? 1ms : 3ms);
          s.decide();
        }
        s.now = 20ms;
        for (const workload_view& a : kinds)
          for (const workload_view& b : kinds)
            for (const workload_view& c : kinds)
              for (const bool active : {false, true}) {
                std::array<workload_view, 3> now{a, b, c};
                for (std::size_t i = 0; i < 3; ++i) {
                  now[i].level = s[i].level;
                  now[i].weight = s[i].weight;
                  now[i].used = s[i].used;
                }
                const view v{s.now, active, 10ms, now};
                strict_priority one = s.policy;
                strict_priority two = s.policy;
                one.decide(v, out);
                two.decide(v, again);
                ++states;
                const std::string wrong = cede_test::broken_rule(v, out);
                if (!wrong.empty() || out.actions != again.actions || out.again != again.again) {
                  CAPTURE(past);
                  CAPTURE(cede_test::text_of(v));
                  CAPTURE(cede_test::text_of(out));
                  REQUIRE(wrong == "");
                  REQUIRE(out.actions == again.actions);
                  REQUIRE(out.again == again.again);
                }
              }
      }
  CHECK(states == 19U * 2 * (1 + 6 / step) * 24 * 24 * 24 * 2);
}

TEST_CASE("the rules the states are held against refuse wrong decisions") {
  // A check that cannot fail shows nothing: each wrong decision must break a rule.
  std::vector<workload_view> w(2);
  w[0].in_flight = true;
  w[1].ready = true;
  const auto broken = [&](bool active, std::vector<cede::policy::action> actions,
                          nanoseconds again = never) {
    return !cede_test::broken_rule({20ms, active, 10ms, w}, {std::move(actions), again}).empty();
  };
  CHECK_FALSE(broken(true, {{verb::raise, 0}}));
  CHECK(broken(true, {}));
  CHECK(broken(true, {{verb::raise, 0}, {verb::raise, 0}}));
  CHECK(broken(true, {{verb::raise, 0}, {verb::raise, 1}}));
  CHECK(broken(true, {{verb::raise, 0}, {verb::submit, 1}}));
  CHECK(broken(false, {{verb::submit, 1}}));                          // two at once
  CHECK(broken(false, {{verb::raise, 0}}));                           // for nobody
  CHECK(broken(false, {{verb::raise, 0}, {verb::submit, 0}}));        // nothing ready
  CHECK(broken(false, {{verb::raise, 0}, {verb::submit, 1}}, 20ms));  // ask again now: a busy loop
  CHECK_FALSE(broken(false, {{verb::raise, 0}, {verb::submit, 1}}));
  w[0].level = priority{1};
  CHECK(broken(false, {{verb::raise, 0}, {verb::submit, 1}}));  // the lower one goes first
  CHECK_FALSE(broken(false, {}));
  w[0].in_flight = false;
  CHECK(broken(false, {}));  // nobody runs
  w[1].hold_off = 15ms;
  CHECK(broken(false, {{verb::submit, 1}}));
  CHECK(broken(false, {}));        // forgets to ask again
  CHECK(broken(false, {}, 26ms));  // too late
  CHECK_FALSE(broken(false, {}, 25ms));
  w[1].suspended = true;
  w[1].in_flight = true;
  CHECK(broken(false, {}));
}

// ---- the latency-critical side
// --------------------------------------------------------------------

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

// ---- levels
// ---------------------------------------------------------------------------------------

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

// ---- turns
// ----------------------------------------------------------------------------------------

TEST_CASE("strict_priority: equals take turns of a quantum") {
  stage s(3);
  for (std::size_t i = 0; i < 3; ++i) s[i].ready = true;
  CHECK(s.step() == "submit 0");
  CHECK(s.last.again == quantum);
  s.pass(quantum - 1ns);
  CHECK(s.decide() == "");
  CHECK(s.last.again == quantum);
  s.pass(1ns);
  CHECK(s.step() == "raise 0, submit 1");
  CHECK(s.last.again == 2 * quantum);
  s.pass(quantum);
  CHECK(s.step() == "raise 1, submit 2");
  s.pass(quantum);
  CHECK(s.step() == "raise 2, submit 0");
}

TEST_CASE("strict_priority: the holder submits more while its turn lasts, others wait") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  CHECK(s.step() == "submit 0");
  s[0].ready = true;  // two deep
  CHECK(s.decide() == "submit 0");
  s.pass(quantum);
  CHECK(s.decide() == "raise 0, submit 1");
}

TEST_CASE("strict_priority: the next one does not wait for the drain, nor come twice") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s.step();
  s.pass(quantum);
  CHECK(s.decide() == "raise 0, submit 1");
  s[0].raised = true;  // still leaving
  s[1].in_flight = true;
  s[1].ready = false;
  CHECK(s.decide() == "");
}

TEST_CASE("strict_priority: a lone workload yields to nobody") {
  stage s(3);
  s[0].ready = true;
  s[1].suspended = s[1].ready = true;
  CHECK(s.step() == "submit 0");
  CHECK(s.last.again == never);
  s.pass(1h);
  s[0].ready = true;
  CHECK(s.decide() == "submit 0");
  CHECK(s.last.again == never);
}

TEST_CASE("strict_priority: who ran alone for long hands over at once") {
  stage s(2);
  s[0].ready = true;
  s.step();
  s.pass(10s);
  s[1].ready = true;
  CHECK(s.step() == "raise 0, submit 1");
  // And gets it back a turn later: its ten seconds alone are no debt.
  s.pass(quantum);
  CHECK(s.step() == "raise 1, submit 0");
}

TEST_CASE("strict_priority: time in flight counts although `used` comes late") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  CHECK(s.step() == "submit 0");
  s.now += quantum;  // used stays 0
  CHECK(s.step() == "raise 0, submit 1");
  s[0].used = 5ms;  // what it really had
  s.now += quantum;
  CHECK(s.decide() == "");  // 5 ms against 2 ms: another turn
  CHECK(s.last.again == s.now + quantum);
}

TEST_CASE("strict_priority: weights give turns in proportion") {
  stage s(2);
  s[1].weight = 3;
  s[0].ready = s[1].ready = true;
  std::string turns;
  s.step();
  for (int i = 0; i < 40; ++i) {
    turns += s[0].in_flight ? '0' : '1';
    s.pass(quantum);
    s.step();
  }
  CHECK(std::count(turns.begin(), turns.end(), '1') == 30);
  CHECK(turns.find("00") == std::string::npos);
}

TEST_CASE("strict_priority: absence earns nothing") {
  for (const bool suspended : {false, true}) {
    CAPTURE(suspended);
    stage s(2);
    s[0].ready = s[1].ready = true;
    s.step();
    s.pass(quantum);
    s.step();
    s.pass(quantum);
    s.step();
    // 1 goes away for a second, 0 runs.
    s[1].ready = suspended;
    s[1].suspended = suspended;
    s.decide();
    s.pass(1s);
    s.decide();
    s[1].ready = true;
    s[1].suspended = false;
    REQUIRE(s.step() == "raise 0, submit 1");
    nanoseconds before = s[1].used;
    for (int i = 0; i < 10; ++i) {
      s.pass(quantum);
      s.step();
    }
    CHECK(s[1].used - before == 5 * quantum);
  }
}

TEST_CASE("strict_priority: a newcomer starts level with the others") {
  stage s(2);
  s[0].ready = true;
  s.step();
  s.pass(1s);
  s.decide();
  s.workloads.emplace_back();
  s[2].ready = true;
  REQUIRE(s.step() == "raise 0, submit 2");
  for (int i = 0; i < 10; ++i) {
    s.pass(quantum);
    s.step();
  }
  CHECK(s[2].used == 5 * quantum);
}

TEST_CASE("strict_priority: who comes when all are away does not inherit a lead") {
  stage s(2);
  s[0].ready = true;
  s.step();
  s.pass(10s);
  s[0].in_flight = false;
  s.decide();  // all away
  s[1].ready = true;
  REQUIRE(s.step() == "submit 1");
  s.pass(quantum);
  s[0].ready = true;
  CHECK(s.step() == "raise 1, submit 0");
}

TEST_CASE("strict_priority: a short absence lends the turn, and the holder gets it back") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  REQUIRE(s.step() == "submit 0");
  s.pass(1ms);
  s[0].in_flight = false;  // its program synchronises
  CHECK(s.step() == "submit 1");
  s.pass(50us);
  s[0].ready = true;
  CHECK(s.step() == "raise 1, submit 0");
  CHECK(s.decide() == "");
  CHECK(s.last.again == s.now + quantum - 1ms);
  s.pass(1ms);
  CHECK(s.step() == "raise 0, submit 1");  // now the turn is used up
}

TEST_CASE("strict_priority: a turn lapses when its holder stays away for a quantum") {
  stage s(3);
  for (std::size_t i = 0; i < 3; ++i) s[i].ready = true;
  REQUIRE(s.step() == "submit 0");
  s[0].in_flight = false;
  REQUIRE(s.step() == "submit 1");
  CHECK(s.last.again == quantum);
  s.pass(quantum);
  REQUIRE(s.step() == "raise 1, submit 2");  // 2 has had nothing yet
  s[0].ready = true;
  CHECK(s.decide() == "");
}

TEST_CASE("strict_priority: who is away for a quantum may still be owed one, not for longer") {
  for (const nanoseconds away : {quantum, quantum + 1ns}) {
    CAPTURE(away.count());
    stage s(2);
    s[0].ready = s[1].ready = true;
    REQUIRE(s.step() == "submit 0");
    s.pass(quantum);
    REQUIRE(s.step() == "raise 0, submit 1");
    s[1].in_flight = false;  // 1 has had nothing of its turn
    REQUIRE(s.step() == "submit 0");
    s.pass(away);
    s.decide();
    s[1].ready = true;
    s.step();
    // 1 is a turn and more behind: what it is owed shows in the turns it now has before 0.
    nanoseconds had = s[1].used;
    while (s[1].in_flight || s[1].used == had) {
      s.pass(quantum);
      s.step();
      REQUIRE(s.now < 1s);
    }
    CHECK(s[1].used - had == (away == quantum ? 2 : 1) * quantum);
  }
}

TEST_CASE("strict_priority: the turn survives the latency-critical side") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s.step();
  s.pass(1ms);
  s.active = true;
  REQUIRE(s.step() == "raise 0");
  s.pass(10ms);
  s.active = false;
  s.idle_since = s.now;
  CHECK(s.step() == "submit 0");
  CHECK(s.last.again == s.now + 1ms);
}

TEST_CASE("strict_priority: two in flight of one level become one") {
  stage s(2);
  s[0].in_flight = s[1].in_flight = true;
  CHECK(s.decide() == "raise 1");
}

// ---- suspension
// -----------------------------------------------------------------------------------

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

// ---- costs and misuse
// -----------------------------------------------------------------------------

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

// ---- the baseline
// ---------------------------------------------------------------------------------

TEST_CASE("ungated: lets everything in and never raises, in every state") {
  ungated policy;
  CHECK_FALSE(policy.gives_way());
  verdict out;
  for (unsigned bits = 0; bits < 1U << 10U; ++bits) {
    std::array<workload_view, 2> w;
    for (std::size_t i = 0; i < 2; ++i) {
      const unsigned b = bits >> (4 * i);
      w[i].ready = (b & 1U) != 0;
      w[i].in_flight = (b & 2U) != 0;
      w[i].raised = (b & 4U) != 0;
      w[i].suspended = (b & 8U) != 0;
    }
    w[0].hold_off = (bits & 256U) != 0 ? 1h : 0h;
    w[1].level = priority{5};
    policy.decide({1ms, (bits & 512U) != 0, 0ms, w}, out);
    std::vector<cede::policy::action> expected;
    for (std::size_t i = 0; i < 2; ++i)
      if (w[i].ready && !w[i].suspended) expected.push_back({verb::submit, i});
    REQUIRE(out.actions == expected);
    REQUIRE(out.again == never);
  }
}
