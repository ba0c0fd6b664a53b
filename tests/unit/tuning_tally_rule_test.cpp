// SPDX-License-Identifier: Apache-2.0
// The rule that the tuner is measured against does what it is said to do.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "support/tuning_simulator.hpp"
#include "tuning/tally_rule.hpp"

using namespace cede::tuning;
using bench::tally_rule;
using cede::form;
using cede_test::large_gpu;
using namespace std::chrono_literals;

namespace {

launch_facts facts(std::uint64_t tiles, unsigned workers) {
  launch_facts l;
  l.tiles = tiles;
  l.workers_fit = workers;
  l.native_fit = workers;
  return l;
}

/// Times that depend on the candidate alone, in us.
template <class Time>
candidate settle(tally_rule& rule, std::uint64_t tiles, Time&& time_us,
                 std::vector<candidate>* order) {
  for (int i = 0; i < 500 && !rule.settled(); ++i) {
    const candidate c = rule.next();
    if (order != nullptr && (order->empty() || !(order->back() == c))) order->push_back(c);
    rule.observe(
        c, {.elapsed = nanoseconds(static_cast<std::int64_t>(1000 * time_us(c))), .tiles = tiles});
  }
  REQUIRE(rule.settled());
  CHECK(rule.next() == rule.current());
  return rule.current();
}

}  // namespace

TEST_CASE("tally rule: the widest first, workers before slices, five runs each") {
  tally_rule rule(facts(132 * 8, 3), large_gpu());
  std::vector<candidate> order;
  unsigned runs = 0;
  settle(rule, 132 * 8, [&](const candidate&) { return ++runs, 100.0; }, &order);
  CHECK(order == std::vector<candidate>{persistent(3, 1), persistent(2, 1), persistent(1, 1),
                                        sliced(2), sliced(4), sliced(8)});
  CHECK(runs == 5 * 6);
}

TEST_CASE("tally rule: half a wave is its turnaround, though a raise may wait for a whole tile") {
  // 40 us a tile with two workers: estimated as 20 us, and taken for a limit of 31.6 us.
  tally_rule rule(facts(264 * 10, 2), large_gpu());
  const auto chosen = settle(
      rule, 264 * 10,
      [](const candidate& c) {
        if (c.how == form::sliced) return 1000.0;
        return c.workers_per_sm == 2 ? 400.0 : 700.0;
      },
      nullptr);
  CHECK(chosen == persistent(2, 1));
}

TEST_CASE("tally rule: up to ten times slower is taken without a word") {
  const auto time = [](const candidate& c) {
    if (c.how == form::sliced) return 5000.0 * static_cast<double>(c.slices);
    return c.workers_per_sm == 2 ? 1000.0 : 9000.0;
  };
  // Estimates: 100 us a tile halved, 45 us likewise.
  tally_rule rule(facts(264 * 10, 2), large_gpu(), {.limit = 40us});
  CHECK(settle(rule, 264 * 10, time, nullptr) == persistent(2, 1));  // nothing else fits at all
  tally_rule other(facts(132 * 200, 2), large_gpu(), {.limit = 23us});
  CHECK(settle(
            other, 132 * 200,
            [](const candidate& c) {
              if (c.how == form::sliced) return 1e6;
              return c.workers_per_sm == 2 ? 10'000.0 : 9000.0 * 1.02;
            },
            nullptr) == persistent(1, 1));
}

TEST_CASE("tally rule: of speeds within a tenth, what leaves soonest") {
  tally_rule rule(facts(132 * 100, 4), large_gpu());
  CHECK(settle(
            rule, 132 * 100,
            [](const candidate& c) {
              if (c.how == form::sliced) return 1e6;
              return 100.0 + c.workers_per_sm;  // 101 to 104
            },
            nullptr) == persistent(1, 1));
}

TEST_CASE("tally rule: what has no more tiles than the device has SMs runs whole") {
  tally_rule rule(facts(132, 8), large_gpu());
  CHECK(settle(rule, 132, [](const candidate&) { return 10.0; }, nullptr) == whole());
}

TEST_CASE("tally rule: launches that leave early are run again") {
  tally_rule rule(facts(132 * 8, 1), large_gpu());
  for (int i = 0; i < 20; ++i) {
    rule.observe(rule.next(), {.elapsed = 1us, .tiles = 3, .complete = false});
  }
  CHECK_FALSE(rule.settled());
  CHECK(rule.next() == persistent(1, 1));
}

TEST_CASE("tally rule: on the simulated bodies it is slower, or leaves later than it thinks") {
  unsigned late = 0;
  unsigned settled = 0;
  double slowest = 1;
  for (const auto& body : cede_test::simulated_bodies()) {
    cede_test::tuning_simulator gpu(body, large_gpu(), {}, 5);
    if (gpu.sweep(31'600).time == 0) continue;
    tally_rule rule(body.launch, gpu.machine());
    unsigned launches = 0;
    for (; launches < 2000 && !rule.settled(); ++launches) {
      const candidate c = rule.next();
      rule.observe(c, gpu.run(c));
    }
    REQUIRE(rule.settled());
    ++settled;
    const double speed = gpu.sweep(31'600).time / gpu.time(rule.current());
    const bool too_late = gpu.bound(rule.current()) > 31'600;
    if (too_late) ++late;
    if (!too_late) slowest = std::min(slowest, speed);
    std::printf("%-40s %3u launches: %-42s bound %5.1f us, speed to best %.2f\n", body.name.c_str(),
                launches, to_text(rule.current()).c_str(), gpu.bound(rule.current()) / 1000, speed);
  }
  std::printf(
      "of %u bodies %u leave too late; of the others the slowest has %.2f of the best speed\n",
      settled, late, slowest);
  CHECK(settled > 10);
  CHECK((late > 0 || slowest < 0.93));
}
