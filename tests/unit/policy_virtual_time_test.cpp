// SPDX-License-Identifier: Apache-2.0
// The policies over long and many runs in virtual time.
#include <cede/policy/strict_priority.hpp>
#include <cede/policy/ungated.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/policy_simulator.hpp"
#include "support/random.hpp"
#include "support/sanitized.hpp"

using cede::priority;
using cede::policy::strict_priority;
using cede_test::nanoseconds;
using cede_test::policy_simulator;
using cede_test::simulated_result;
using cede_test::simulated_workload;
using cede_test::simulation_plan;
using source = cede_test::simulated_workload::source;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds quantum = 2ms;

simulated_result simulate(const simulation_plan& plan, nanoseconds q = quantum) {
  strict_priority policy({.quantum = q});
  return policy_simulator(plan).run(policy);
}

double share(const simulated_result& r, std::size_t i) {
  const auto all = std::accumulate(r.used.begin(), r.used.end(), nanoseconds{0});
  return static_cast<double>(r.used[i].count()) / static_cast<double>(all.count());
}

simulated_workload backlogged(double weight, nanoseconds launch = 1ms) {
  return {.weight = weight, .launch = launch, .turnaround = 30us};
}

simulated_workload synchronous(double weight, nanoseconds launch, nanoseconds gap) {
  return {.weight = weight,
          .from = source::synchronous,
          .launch = launch,
          .gap = gap,
          .turnaround = 30us};
}

/// Requests that keep the latency-critical side busy for about half of the time.
simulation_plan beside_requests(simulation_plan plan, nanoseconds hold_off = 100us) {
  plan.request_gap = 600us;
  plan.service = 400us;
  for (simulated_workload& w : plan.workloads) w.hold_off = hold_off;
  return plan;
}

/// A short random run. `equals`: one level, everybody always has something to do.
struct random_run {
  simulation_plan plan;
  nanoseconds q{0};
  bool toggles = false;
  double least_weight = 1e9;
  nanoseconds longest_turnaround{0};

  random_run(std::uint64_t seed, bool equals) {
    cede_test::random rng(seed);
    const auto between = [&](nanoseconds low, nanoseconds high) {
      return low + nanoseconds{static_cast<std::int64_t>(
                       rng.below(static_cast<std::uint64_t>((high - low).count())))};
    };
    plan.seed = seed;
    plan.length = between(2ms, 16ms);
    plan.late_accounts = rng.chance(0.5);
    if (rng.chance(0.8)) {
      plan.request_gap = between(20us, 3ms);
      plan.service = between(1us, 1ms);
    }
    q = between(100us, 3ms);
    const nanoseconds hold_off = between(0us, 500us);
    const std::uint64_t n = 1 + rng.below(4);
    for (std::uint64_t i = 0; i < n; ++i) {
      simulated_workload w;
      w.weight = std::vector{0.5, 1.0, 2.0, 3.0}[rng.below(4)];
      w.launch = 2us + between(0us, 5ms) / (1 << rng.below(12));
      w.turnaround = between(0us, 50us);
      w.hold_off = hold_off;
      if (!equals) {
        w.level = priority{static_cast<int>(rng.below(3))};
        w.from = static_cast<source>(rng.below(3));
        w.gap = 1us + between(0us, 4ms) / (1 << rng.below(10));
        if (rng.chance(0.3)) w.hold_off = between(0us, 1ms);
        if (rng.chance(0.2)) w.toggle = between(100us, 10ms);
        toggles = toggles || w.toggle > 0us;
      }
      least_weight = std::min(least_weight, w.weight);
      longest_turnaround = std::max(longest_turnaround, w.turnaround);
      plan.workloads.push_back(w);
    }
  }

  /// How far, in weighted time, one may get ahead of another: a turn and the way out after it.
  [[nodiscard]] double lead() const {
    return static_cast<double>((q + longest_turnaround).count()) / least_weight;
  }
  /// How long all others together may run before it is the turn of workload `i`.
  [[nodiscard]] double others_turns(std::size_t i) const {
    double sum = 0;
    for (std::size_t k = 0; k < plan.workloads.size(); ++k) {
      if (k == i) continue;
      sum +=
          plan.workloads[k].weight * lead() + static_cast<double>((q + longest_turnaround).count());
    }
    return sum;
  }
};

}  // namespace

TEST_CASE("virtual time: 12,000 random runs break no rule, waste no time and starve nobody") {
  std::uint64_t decisions = 0;
  nanoseconds open{0};
  for (std::uint64_t seed = 0; seed < 12'000; seed += cede_test::sanitized ? 11 : 1) {
    const bool equals = seed % 4 == 0;
    const random_run run(seed, equals);
    const simulated_result r = simulate(run.plan, run.q);
    decisions += r.decisions;
    open += r.open;
    CAPTURE(seed);
    REQUIRE(r.wrong == "");
    // Whenever the latency-critical side is idle and a hold-off is over, somebody runs.
    REQUIRE(r.unused == 0ns);
    for (std::size_t i = 0; i < r.used.size(); ++i) {
      // Among equals exactly the others' turns; who comes and goes may be owed a turn on return.
      const double limit = run.others_turns(i) * (equals ? 1 : 4);
      REQUIRE(static_cast<double>(r.longest_wait[i].count()) <= limit);
    }
    if (equals) REQUIRE(r.spread <= run.lead());
  }
  CHECK(decisions > 1'000'000);
  CHECK(open > 3s);
}

TEST_CASE("virtual time: the same seed gives the same run, another seed another") {
  std::uint64_t before = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const random_run run(seed, false);
    const simulated_result one = simulate(run.plan, run.q);
    const simulated_result two = simulate(run.plan, run.q);
    REQUIRE(one.digest == two.digest);
    REQUIRE(one.used == two.used);
    REQUIRE(one.digest != before);
    before = one.digest;
  }
}

TEST_CASE("virtual time: shares of backlogged workloads converge to their weights") {
  for (const auto& weights : std::vector<std::vector<double>>{
           {1, 1}, {2, 1}, {3, 1}, {1, 10}, {1, 1, 1}, {4, 2, 1}, {0.1, 0.3}, {5, 3, 1, 1}}) {
    for (const bool requests : {false, true}) {
      for (const bool late : {false, true}) {
        CAPTURE(weights);
        CAPTURE(requests);
        CAPTURE(late);
        simulation_plan plan{.seed = 5, .length = 4s, .late_accounts = late, .workloads = {}};
        nanoseconds launch = 300us;
        for (const double w : weights) plan.workloads.push_back(backlogged(w, launch *= 3));
        const simulated_result r = simulate(requests ? beside_requests(plan) : plan);
        REQUIRE(r.wrong == "");
        const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
        const double least = *std::min_element(weights.begin(), weights.end());
        CHECK(r.spread <= static_cast<double>((quantum + 30us).count()) / least);
        for (std::size_t i = 0; i < weights.size(); ++i)
          CHECK(share(r, i) == doctest::Approx(weights[i] / all).epsilon(0.05));
      }
    }
  }
}

TEST_CASE("virtual time: a program that synchronises after each launch keeps its share") {
  for (const nanoseconds launch : std::vector<nanoseconds>{100us, 1ms, 5ms}) {
    for (const bool requests : {false, true}) {
      CAPTURE(launch.count());
      CAPTURE(requests);
      simulation_plan plan{
          .seed = 6, .length = 4s, .workloads = {synchronous(2, launch, 20us), backlogged(1)}};
      CHECK(share(simulate(requests ? beside_requests(plan) : plan), 0) ==
            doctest::Approx(2.0 / 3).epsilon(0.1));
      plan.workloads[1] = synchronous(1, 1ms, 20us);
      CHECK(share(simulate(requests ? beside_requests(plan) : plan), 0) ==
            doctest::Approx(2.0 / 3).epsilon(0.1));
    }
  }
}

TEST_CASE("virtual time: who stays out longer after a request still gets its share") {
  simulation_plan plan =
      beside_requests({.seed = 7, .length = 4s, .workloads = {backlogged(1), backlogged(1)}});
  plan.workloads[1].hold_off = 250us;
  const simulated_result r = simulate(plan);
  CHECK(r.wrong == "");
  CHECK(share(r, 1) == doctest::Approx(0.5).epsilon(0.1));
}

TEST_CASE("virtual time: a lower level gets what the higher one leaves, and nothing else") {
  simulation_plan plan{
      .seed = 8, .length = 2s, .workloads = {backlogged(100), synchronous(1, 1ms, 1ms)}};
  plan.workloads[1].level = priority{1};
  const simulated_result r = simulate(plan);
  CHECK(r.wrong == "");
  const simulated_result alone =
      simulate({.seed = 8, .length = 2s, .workloads = {plan.workloads[1]}});
  // The higher one is as fast as alone, up to chance in the lengths of launches.
  CHECK(static_cast<double>(r.used[1].count()) ==
        doctest::Approx(static_cast<double>(alone.used[0].count())).epsilon(0.02));
  CHECK(r.used[0] + r.used[1] >= 2s);
  CHECK(r.used[0] + r.used[1] <= 2s + 30us * static_cast<std::int64_t>(r.raises[0] + r.raises[1]));

  plan.workloads[1].from = source::backlogged;
  CHECK(simulate(plan).used[0] == 0ns);
}

TEST_CASE("virtual time: a workload alone is raised by requests only") {
  simulation_plan plan{.seed = 9, .length = 1s, .workloads = {backlogged(1)}};
  simulated_result r = simulate(plan);
  CHECK(r.raises[0] == 0);
  CHECK(r.used[0] == 1s);
  r = simulate(beside_requests(plan));
  CHECK(r.raises[0] > 100);
  CHECK(r.unused == 0ns);
}

TEST_CASE("virtual time: a quantum makes turns of its length") {
  for (const nanoseconds q : std::vector<nanoseconds>{500us, 2ms, 20ms}) {
    CAPTURE(q.count());
    const simulated_result r = simulate(
        {.seed = 10, .length = 2s, .workloads = {backlogged(1, 100us), backlogged(1, 100us)}}, q);
    const auto turns = static_cast<std::int64_t>(r.raises[0] + r.raises[1]);
    // Now and then one is still behind after its turn, and has another.
    CHECK(turns <= 2s / q);
    CHECK(turns * 10 >= 2s / q * 9);
  }
}

TEST_CASE("virtual time: the ungated baseline runs through requests") {
  const simulation_plan plan =
      beside_requests({.seed = 11, .length = 100ms, .workloads = {backlogged(1), backlogged(1)}});
  cede::policy::ungated policy;
  const simulated_result r = policy_simulator(plan).run(policy);
  CHECK(r.raises == std::vector<std::uint64_t>{0, 0});
  // The rules of a policy that gives way catch it at once.
  CHECK(r.wrong != "");
}
