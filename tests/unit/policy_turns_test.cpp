// SPDX-License-Identifier: Apache-2.0
// Turns among workloads of one level: scenes with a known answer.
#include <cede/policy/strict_priority.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/policy_stage.hpp"

using cede::policy::nanoseconds;
using cede_test::stage;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds quantum = stage::default_quantum;
constexpr nanoseconds never = nanoseconds::max();

}  // namespace

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
  s.pass(quantum / 4);
  s.decide();
  CHECK(s.last.again == quantum);
  s.pass(quantum - quantum / 4);
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

TEST_CASE("strict_priority: an absence begins when it is seen, not at the last look before") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s.step();
  s.pass(3 * quantum);
  REQUIRE(s.step() == "raise 0, submit 1");
  s.pass(quantum + quantum / 2);  // longer than a quantum without a decision
  s[1].in_flight = false;
  REQUIRE(s.step() == "submit 0");
  s.pass(50us);
  s[1].ready = true;  // a short absence: 1 may be owed a turn
  CHECK(s.step() == "");
  s.pass(quantum);
  REQUIRE(s.step() == "raise 0, submit 1");
  s.pass(quantum);
  CHECK(s.step() == "");  // its second turn in a row
  s.pass(quantum);
  CHECK(s.step() == "raise 1, submit 0");
}

TEST_CASE("strict_priority: being held off earns nothing either") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s[1].hold_off = 10ms;
  for (int i = 0; i < 100; ++i) {  // requests come too often for 1
    s.active = true;
    s.step();
    s.pass(1ms);
    s.active = false;
    s.idle_since = s.now;
    REQUIRE(s.step() == "submit 0");
    s.pass(5ms);
  }
  REQUIRE(s[0].used == 500ms);
  s.pass(5ms);
  REQUIRE(s.step() == "raise 0, submit 1");
  for (int i = 0; i < 10; ++i) {
    s.pass(quantum);
    s.step();
  }
  CHECK(s[1].used == 5 * quantum);
}

TEST_CASE("strict_priority: who stands in alone is left alone") {
  stage s(2);
  s[0].ready = s[1].ready = true;
  s.step();
  s[0].in_flight = false;
  REQUIRE(s.step() == "submit 1");
  CHECK(s.last.again == never);
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
