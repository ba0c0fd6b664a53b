// SPDX-License-Identifier: Apache-2.0
// The policies in every small state, against rules any decision must keep. policy_scenes_test.cpp
// has scenes with a known answer, policy_virtual_time_test.cpp long runs.
#include <cede/policy/strict_priority.hpp>
#include <cede/policy/ungated.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/policy_oracle.hpp"
#include "support/policy_stage.hpp"
#include "support/sanitized.hpp"

using cede::priority;
using cede::policy::nanoseconds;
using cede::policy::strict_priority;
using cede::policy::ungated;
using cede::policy::verb;
using cede::policy::verdict;
using cede::policy::view;
using cede::policy::workload_view;
using cede_test::stage;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds never = nanoseconds::max();

}  // namespace

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
