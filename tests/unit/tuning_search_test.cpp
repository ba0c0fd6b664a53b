// SPDX-License-Identifier: Apache-2.0
// The search for a configuration, in virtual time, against a sweep of all configurations.
#include <cede/tuning/search.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/sanitized.hpp"
#include "support/tuning_simulator.hpp"

using namespace cede::tuning;
using cede::form;
using cede_test::large_gpu;
using cede_test::simulated_bodies;
using cede_test::simulated_body;
using cede_test::simulated_noise;
using cede_test::small_gpu;
using cede_test::tuning_simulator;
using namespace std::chrono_literals;

namespace {

constexpr nanoseconds budgets[] = {10us, 31'600ns, 100us, 316us};

double quantile(std::vector<double> v, double q) {
  std::sort(v.begin(), v.end());
  return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
}

/// What many searches came to.
struct tally {
  std::vector<double> speed;     ///< of the choice against the best within budget
  std::vector<double> launches;  ///< until it settled
  double proposed = 0;           ///< worst true bound of a proposal, in budgets
  double chosen = 0;             ///< worst true bound of a choice that is said to fit, in budgets
  unsigned coarse = 0;           ///< said to be too coarse where something keeps the budget

  void print(const char* what) const {
    std::printf(
        "%s: %zu searches; speed to best: median %.3f, lowest twentieth %.3f, worst %.3f; launches "
        "to "
        "settle: median %.0f, most %.0f; true bound in budgets: proposed at most %.2f, chosen at "
        "most %.2f; too coarse %u\n",
        what, speed.size(), quantile(speed, 0.5), quantile(speed, 0.05), quantile(speed, 0),
        quantile(launches, 0.5), quantile(launches, 1), proposed, chosen, coarse);
  }
};

/// Searches until it has settled. Nothing is said of a budget that no configuration keeps.
void tune(tally& t, const simulated_body& body, const machine_facts& machine, nanoseconds budget,
          const simulated_noise& noise, std::uint64_t seed) {
  tuning_simulator gpu(body, machine, noise, seed);
  const auto allowance = static_cast<double>(budget.count());
  const auto best = gpu.sweep(allowance);
  if (best.time == 0) return;
  search s(body.launch, machine, {}, {.budget = budget});
  unsigned launches = 0;
  bool known = false;  // what the first launch showed
  while (!s.settled()) {
    REQUIRE(launches < 200);
    const candidate c = s.next();
    REQUIRE(allowed(c, body.launch, machine));
    if (known) t.proposed = std::max(t.proposed, gpu.bound(c) / allowance);
    s.observe(c, gpu.run(c));
    known = true;
    ++launches;
  }
  const double speed = best.time / gpu.time(s.current());
  if (s.state() == search_state::settled) {
    t.chosen = std::max(t.chosen, gpu.bound(s.current()) / allowance);
  } else {
    ++t.coarse;
  }
  // What is out of budget and fast wins nothing.
  t.speed.push_back(gpu.bound(s.current()) > 1.1 * allowance ? 0 : std::min(speed, 1.0));
  t.launches.push_back(launches);
}

simulated_body random_body(cede_test::random& r) {
  simulated_body b;
  b.name = "random";
  b.alone = 600 * std::pow(30, r.unit());
  b.saturated = b.alone / (1 + 9 * r.unit());
  b.skew = 1.05 + 1.5 * r.unit() * r.unit();
  b.loop = 200 * r.unit() - 60;
  b.crowding = r.chance(0.3) ? 0.1 * r.unit() : 0;
  b.claim = 150 + 400 * r.unit();
  b.launch.workers_fit = 1 + static_cast<unsigned>(r.below(16));
  b.launch.native_fit = b.launch.workers_fit + static_cast<unsigned>(r.below(2));
  b.launch.tiles = static_cast<std::uint64_t>(2000 * std::pow(200, r.unit()));
  b.launch.traits.native = r.chance(0.15);
  b.launch.traits.independent = !b.launch.traits.native && r.chance(0.2);
  return b;
}

simulated_body one(const std::string& name) {
  for (const simulated_body& b : simulated_bodies()) {
    if (b.name == name) return b;
  }
  FAIL("no such body");
  return {};
}

/// Searches one body until it has settled.
search settle(tuning_simulator& gpu, search_options o) {
  search s(gpu.body().launch, gpu.machine(), {}, o);
  for (int i = 0; i < 200 && !s.settled(); ++i) {
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
  }
  REQUIRE(s.settled());
  return s;
}

}  // namespace

TEST_CASE(
    "tuning search: nearly the fastest within every budget, of bodies like the measured ones") {
  tally all;
  const int seeds = cede_test::sanitized ? 3 : 12;
  for (const nanoseconds budget : budgets) {
    tally t;
    for (const simulated_body& body : simulated_bodies()) {
      for (int seed = 1; seed <= seeds; ++seed) {
        tune(t, body, large_gpu(), budget, {}, static_cast<std::uint64_t>(seed) * 1000003);
      }
    }
    t.print(("bodies of the suite within " + cede::detail::short_time(budget)).c_str());
    CHECK(t.chosen <= 1.1);
    all.speed.insert(all.speed.end(), t.speed.begin(), t.speed.end());
    all.launches.insert(all.launches.end(), t.launches.begin(), t.launches.end());
    all.proposed = std::max(all.proposed, t.proposed);
    all.chosen = std::max(all.chosen, t.chosen);
    all.coarse += t.coarse;
  }
  all.print("all of them");
  CHECK(quantile(all.speed, 0.5) >= 0.97);
  CHECK(quantile(all.speed, 0) >= 0.93);
  CHECK(quantile(all.launches, 0.5) <= 20);
  // How much longer tiles become with more workers cannot be known before it was seen.
  CHECK(all.proposed <= 1.2);
}

TEST_CASE("tuning search: the same of bodies nobody thought of, on two devices") {
  cede_test::random r(20240229);
  tally large;
  tally small;
  const int bodies = cede_test::sanitized ? 60 : 300;
  for (int i = 0; i < bodies; ++i) {
    const simulated_body body = random_body(r);
    for (const nanoseconds budget : budgets) {
      tune(large, body, large_gpu(), budget, {}, r.next());
      tune(small, body, small_gpu(), budget, {}, r.next());
    }
  }
  large.print("random bodies, 132 SMs");
  small.print("random bodies, 16 SMs");
  for (const tally* t : {&large, &small}) {
    CHECK(quantile(t->speed, 0.5) >= 0.97);
    CHECK(quantile(t->speed, 0.05) >= 0.93);
    CHECK(quantile(t->launches, 0.5) <= 20);
    CHECK(t->proposed <= 1.75);
    CHECK(t->chosen <= 1.1);
  }
}

TEST_CASE("tuning search: noise of 5 %, one launch of ten disturbed, every second one preempted") {
  tally t;
  const int seeds = 8;
  for (const simulated_body& body : simulated_bodies()) {
    for (int seed = 1; seed <= seeds; ++seed) {
      tune(t, body, large_gpu(), 31'600ns, {.spread = 0.05, .outliers = 0.1, .yields = 0.5},
           static_cast<std::uint64_t>(seed) * 7919);
    }
  }
  t.print("much noise");
  CHECK(quantile(t.speed, 0.5) >= 0.95);
  CHECK(quantile(t.speed, 0.1) >= 0.85);
  CHECK(t.chosen <= 1.1);
}

TEST_CASE("tuning search: without noise it settles sooner") {
  tally t;
  for (const simulated_body& body : simulated_bodies()) {
    tune(t, body, large_gpu(), 31'600ns, {.spread = 0, .outliers = 0, .yields = 0}, 1);
  }
  t.print("no noise");
  CHECK(quantile(t.speed, 0.5) >= 0.99);
  CHECK(quantile(t.launches, 0.5) <= 16);
}

TEST_CASE("tuning search: nothing is tried while the latency-critical side is active") {
  tuning_simulator gpu(one("saxpy, large"), large_gpu(), {}, 3);
  search s(gpu.body().launch, gpu.machine());
  cede_test::random r(5);
  unsigned tried = 0;
  for (int i = 0; i < 400 && !s.settled(); ++i) {
    const candidate before = s.current();
    const bool active = r.chance(0.5);
    const candidate c = s.next(active);
    if (active) {
      CHECK(c == before);
    } else if (!(c == before)) {
      ++tried;
    }
    s.observe(c, gpu.run(c));
  }
  CHECK(s.settled());
  CHECK(tried >= 4);
}

TEST_CASE("tuning search: launches that always leave in the middle tell how long tiles are") {
  const simulated_body body = one("latency-bound: more workers are faster");
  tuning_simulator gpu(body, large_gpu(), {.yields = 1}, 3);
  SUBCASE("within the budget it stays where it began") {
    search s(body.launch, gpu.machine(), {}, {.budget = 31'600ns});
    for (int i = 0; i < 60; ++i) {
      const candidate c = s.next();
      CHECK(gpu.bound(c) <= 31'600);
      s.observe(c, gpu.run(c));
    }
    CHECK_FALSE(s.settled());
    CHECK(s.model().records().size() <= 2);
  }
  SUBCASE("out of the budget it goes to what leaves soonest") {
    search s(body.launch, gpu.machine(), {}, {.budget = 15us});
    for (int i = 0; i < 60; ++i) {
      const candidate c = s.next();
      s.observe(c, gpu.run(c));
    }
    const double first = gpu.bound(persistent(4, 1));
    CHECK(gpu.bound(s.current()) < 1.02 * first);
  }
}

TEST_CASE("tuning search: several launches under way at once, some of which do not take place") {
  tuning_simulator gpu(one("stencil: workers beat native blocks"), large_gpu(), {}, 11);
  search s(gpu.body().launch, gpu.machine(), {}, {.budget = 31'600ns});
  std::vector<candidate> under_way;
  cede_test::random r(1);
  for (int i = 0; i < 400 && !s.settled(); ++i) {
    while (under_way.size() < 3) under_way.push_back(s.next());
    const candidate c = under_way.front();
    under_way.erase(under_way.begin());
    if (r.chance(0.2)) {
      s.forget(c);
    } else {
      s.observe(c, gpu.run(c));
    }
  }
  REQUIRE(s.settled());
  CHECK(gpu.sweep(31'600).time / gpu.time(s.current()) >= 0.93);
}

TEST_CASE("tuning search: of two that are equally fast, the one that leaves more room") {
  // One worker uses all there is of an SM: more make tiles longer and nothing faster.
  simulated_body flat{"flat", one("saxpy, large").launch, 1000, 1000, 1.1, 0};
  flat.claim = 0;
  tuning_simulator gpu(flat, large_gpu(), {.spread = 0.003, .outliers = 0, .yields = 0}, 2);
  const search s = settle(gpu, {.budget = 100us});
  CHECK(s.current().how == form::persistent);
  CHECK(s.current().workers_per_sm <= 4);
}

TEST_CASE(
    "tuning search: where nothing keeps the budget, what leaves soonest, and what would help") {
  SUBCASE("very long tiles") {
    tuning_simulator gpu(one("very long tiles"), large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 31'600ns});
    CHECK(s.state() == search_state::too_coarse);
    CHECK(s.trials() <= 12);
    const std::string advice = s.advice();
    CHECK(advice.find("too coarse for a turnaround of 31.6us") == 0);
    CHECK(advice.find("longest tile") != std::string::npos);
    CHECK(advice.find("independent") != std::string::npos);
    CHECK(advice.find("allow a turnaround of") != std::string::npos);
    CHECK(s.explain().find(advice) != std::string::npos);
  }
  SUBCASE("a body that is never preempted") {
    tuning_simulator gpu(one("whole: one form only"), large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 31'600ns});
    CHECK(s.state() == search_state::too_coarse);
    CHECK(s.current() == whole());
    CHECK(s.advice().find("without `whole`") != std::string::npos);
  }
  SUBCASE("clusters that do not say how they leave") {
    simulated_body body = one("clusters");
    body.launch.traits.clustered = false;
    tuning_simulator gpu(body, large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 31'600ns});
    CHECK(s.advice().find("`clustered`") != std::string::npos);
  }
  SUBCASE("a native body") {
    tuning_simulator gpu(one("native: gated or slices"), large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 10us});
    CHECK(s.advice().find("leave out `native`") != std::string::npos);
  }
  SUBCASE("an independent body that does not ask") {
    simulated_body body = one("independent, long tiles");
    tuning_simulator gpu(body, large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 10us});
    CHECK(s.advice().find("should_yield()") != std::string::npos);
  }
  SUBCASE("nothing to say where all is well") {
    tuning_simulator gpu(one("saxpy, large"), large_gpu(), {}, 2);
    const search s = settle(gpu, {.budget = 31'600ns});
    CHECK(s.state() == search_state::settled);
    CHECK(s.advice().empty());
  }
}

TEST_CASE("tuning search: in budget only at a price is too coarse as well") {
  // Many blocks are needed for speed, and their tiles are too long.
  simulated_body body{"needs many", one("saxpy, large").launch, 8000, 2000, 1.2, 0};
  tuning_simulator gpu(body, large_gpu(), {.outliers = 0, .yields = 0}, 4);
  // As if launches had been seen whole, before the budget was asked for.
  search s(body.launch, gpu.machine(), {}, {.budget = 25us, .slowest = 1.2});
  s.restore(whole(), nanoseconds{static_cast<std::int64_t>(gpu.time(whole()))}, 0ns, 3);
  for (int i = 0; i < 100 && !s.settled(); ++i) {
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
  }
  REQUIRE(s.settled());
  CHECK(gpu.bound(s.current()) <= 1.1 * 25'000);
  CHECK(s.state() == (s.slowdown() > 1.2 ? search_state::too_coarse : search_state::settled));
  CHECK(s.slowdown() > 1.2);
  CHECK(s.advice().find("times as long as the fastest") != std::string::npos);
}

TEST_CASE("tuning search: a choice can be pinned and let go again") {
  tuning_simulator gpu(one("saxpy, large"), large_gpu(), {}, 2);
  search s(gpu.body().launch, gpu.machine());
  s.pin(persistent(3, 16));
  CHECK(s.state() == search_state::pinned);
  for (int i = 0; i < 30; ++i) {
    CHECK(s.next() == persistent(3, 16));
    s.observe(s.next(), gpu.run(persistent(3, 16)));
  }
  CHECK(s.current() == persistent(3, 16));
  CHECK(s.explain().find("pinned: persistent, 3 workers per SM, 16 tiles a claim") == 0);
  s.unpin();
  CHECK(s.state() == search_state::searching);
  for (int i = 0; i < 100 && !s.settled(); ++i) {
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
  }
  CHECK(s.settled());
}

TEST_CASE("tuning search: what an earlier run measured is begun with") {
  tuning_simulator gpu(one("layer norm, medium"), large_gpu(), {}, 2);
  const search before = settle(gpu, {.budget = 31'600ns});
  search after(gpu.body().launch, gpu.machine(), {}, {.budget = 31'600ns});
  CHECK_FALSE(after.adopt(before.current()));  // nothing is known of it
  for (const record& r : before.model().records()) {
    if (r.elapsed.empty()) continue;
    after.restore(r.what, nanoseconds{static_cast<std::int64_t>(r.elapsed.median())},
                  nanoseconds{static_cast<std::int64_t>(longest_known(r))}, r.launches);
  }
  SUBCASE("the same budget: nothing is searched") {
    CHECK(after.adopt(before.current()));
    CHECK(after.state() == search_state::settled);
    CHECK(after.next() == before.current());
    CHECK(after.trials() == 0);
  }
  SUBCASE("a choice that does not keep the budget is not taken") {
    search strict(gpu.body().launch, gpu.machine(), {}, {.budget = 12us});
    strict.restore(persistent(8, 16), 100us, 4us, 3);
    strict.restore(persistent(2, 1), 300us, 2us, 3);
    CHECK_FALSE(strict.adopt(persistent(8, 16)));
    CHECK_FALSE(strict.settled());
  }
  SUBCASE("what the body does not allow is left out") {
    const std::size_t known = after.model().records().size();
    after.restore(persistent(64, 1), 1us, 1us, 3);
    CHECK(after.model().records().size() == known);
    CHECK_FALSE(after.adopt(persistent(64, 1)));
  }
}

TEST_CASE("tuning search: options out of range, and pins that are not allowed, are refused") {
  const simulated_body body = one("native: gated or slices");
  const auto make = [&](search_options o) { return search(body.launch, large_gpu(), {}, o); };
  CHECK_THROWS_AS(make({.budget = 0ns}), cede::invalid_argument);
  CHECK_THROWS_AS(make({.slowest = 0.5}), cede::invalid_argument);
  CHECK_THROWS_AS(make({.slowest = std::nan("")}), cede::invalid_argument);
  CHECK_THROWS_AS(make({.most_trials = 0}), cede::invalid_argument);
  CHECK_THROWS_AS(make({.tolerance = -1}), cede::invalid_argument);
  CHECK_THROWS_AS(make({.room = -1}), cede::invalid_argument);
  search s = make({});
  CHECK_THROWS_WITH_AS(
      s.pin(persistent(4, 1)),
      "tuning::search: \"persistent, 4 workers per SM, 1 tile a claim\" was pinned "
      "for a launch whose body or shape does not allow it; pin another "
      "configuration or none",
      cede::not_supported);
  CHECK_THROWS_AS(s.pin({.how = form::automatic}), cede::not_supported);
}
