// SPDX-License-Identifier: Apache-2.0
// What goes on being watched: drift of a choice, the hold-off, launches in flight.
#include <cede/tuning/drift.hpp>
#include <cede/tuning/hold_off.hpp>
#include <cede/tuning/in_flight.hpp>
#include <cede/tuning/search.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <numeric>
#include <vector>

#include "support/random.hpp"
#include "support/tuning_simulator.hpp"

using namespace cede::tuning;
using cede::form;
using cede_test::large_gpu;
using cede_test::simulated_bodies;
using cede_test::simulated_body;
using cede_test::tuning_simulator;
using namespace std::chrono_literals;

namespace {

simulated_body one(const std::string& name) {
  for (const simulated_body& b : simulated_bodies()) {
    if (b.name == name) return b;
  }
  FAIL("no such body");
  return {};
}

nanoseconds of(double ns) { return nanoseconds{static_cast<std::int64_t>(ns)}; }

/// Runs launches until the search has settled; how many it took.
unsigned settle(search& s, tuning_simulator& gpu) {
  unsigned n = 0;
  for (; n < 200 && !s.settled(); ++n) {
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
  }
  REQUIRE(s.settled());
  return n;
}

/// Runs launches until it searches again; how many, `most` if it does not.
unsigned until_reopened(search& s, tuning_simulator& gpu, unsigned most) {
  const unsigned before = s.reopened();
  for (unsigned n = 0; n < most; ++n) {
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
    if (s.reopened() != before) return n + 1;
  }
  return most;
}

}  // namespace

TEST_CASE("tuning drift: what stays as it was is not searched again") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    tuning_simulator gpu(one("saxpy, large"), large_gpu(), {}, seed);
    search s(gpu.body().launch, gpu.machine(), {}, {.budget = 31'600ns});
    settle(s, gpu);
    CHECK(until_reopened(s, gpu, 1500) == 1500);
  }
}

TEST_CASE("tuning drift: other arguments, and the search finds what is best now") {
  simulated_body memory = one("saxpy, large");
  simulated_body compute = memory;
  compute.alone = 3500;  // the same launch, longer tiles that share less
  compute.saturated = 600;
  tuning_simulator gpu(memory, large_gpu(), {}, 7);
  search s(memory.launch, gpu.machine(), {}, {.budget = 31'600ns});
  settle(s, gpu);
  CHECK(until_reopened(s, gpu, 100) == 100);
  gpu.become(compute);
  const unsigned noticed = until_reopened(s, gpu, 100);
  CHECK(noticed <= 40);
  CHECK(settle(s, gpu) <= 40);
  CHECK(gpu.bound(s.current()) <= 1.05 * 31'600);
  CHECK(gpu.sweep(31'600).time / gpu.time(s.current()) >= 0.93);
  // And back again, where shorter tiles allow larger batches.
  gpu.become(memory);
  CHECK(until_reopened(s, gpu, 300) < 300);
  settle(s, gpu);
  CHECK(gpu.sweep(31'600).time / gpu.time(s.current()) >= 0.93);
  std::printf("drift: noticed after %u launches\n", noticed);
}

TEST_CASE("tuning drift: tiles that have become too long are left at once") {
  simulated_body body = one("saxpy, large");
  tuning_simulator gpu(body, large_gpu(), {.yields = 0}, 7);
  search s(body.launch, gpu.machine(), {}, {.budget = 31'600ns});
  settle(s, gpu);
  const candidate before = s.current();
  body.skew = 5;  // the mean stays
  gpu.become(body);
  REQUIRE(gpu.bound(before) > 31'600);
  CHECK(until_reopened(s, gpu, 20) == 3);
  // From now on nothing is launched that is known to be too late.
  while (!s.settled()) {
    const candidate c = s.next();
    CHECK(gpu.bound(c) <= 1.2 * 31'600);
    s.observe(c, gpu.run(c));
  }
  CHECK(gpu.bound(s.current()) <= 1.05 * 31'600);
}

TEST_CASE("tuning drift: one stall is none") {
  tuning_simulator gpu(one("saxpy, large"), large_gpu(), {.outliers = 0, .yields = 0}, 7);
  search s(gpu.body().launch, gpu.machine(), {}, {.budget = 31'600ns});
  settle(s, gpu);
  for (int i = 0; i < 200; ++i) {
    observation o = gpu.run(s.current());
    if (i % 20 == 10) {
      o.longest = 1s;
      o.elapsed = 2s;
    }
    s.observe(s.current(), o);
    REQUIRE(s.reopened() == 0);
  }
}

TEST_CASE("tuning drift: launches that take turns are searched ever more seldom") {
  const simulated_body body = one("saxpy, large");
  simulated_body other = body;
  other.alone *= 1.5;
  other.saturated *= 1.5;
  tuning_simulator gpu(body, large_gpu(), {.yields = 0}, 7);
  search s(body.launch, gpu.machine(), {}, {.budget = 100us});
  constexpr unsigned launches = 20'000;
  for (unsigned i = 0; i < launches; ++i) {
    gpu.become(i / 50 % 2 == 0 ? body : other);
    const candidate c = s.next();
    s.observe(c, gpu.run(c));
  }
  CHECK(s.reopened() >= 2);
  CHECK(s.reopened() <= 24);
  std::printf("turns: %u searches in %u launches\n", s.reopened() + 1, launches);
}

TEST_CASE("tuning drift: options out of range are refused") {
  CHECK_THROWS_AS(drift({.change = 0}), cede::invalid_argument);
  CHECK_THROWS_AS(drift({.often = 0}), cede::invalid_argument);
  CHECK_THROWS_AS(drift({.often = 10, .rarest = 9}), cede::invalid_argument);
  CHECK_THROWS_AS(drift({.late = 0}), cede::invalid_argument);
}

namespace {

struct gap_source {
  const char* name;
  std::function<double(cede_test::random&)> gap;  ///< ns
};

double exponential(cede_test::random& r, double mean) { return -mean * std::log(1 - r.unit()); }

double loss(const std::vector<double>& gaps, double held, double cost) {
  double sum = 0;
  for (const double g : gaps) sum += g <= held ? g : held + cost;
  return sum / static_cast<double>(gaps.size());
}

/// The best of many fixed hold-offs, in hindsight.
double best_loss(const std::vector<double>& gaps, double cost, double most) {
  double best = loss(gaps, 0, cost);
  for (double h = 1000; h <= most; h *= 1.02) best = std::min(best, loss(gaps, h, cost));
  return best;
}

}  // namespace

TEST_CASE("tuning hold-off: little more is lost than with the best one in hindsight") {
  const std::vector<gap_source> sources{
      {"long gaps", [](auto& r) { return 500'000 + exponential(r, 1e6); }},
      {"short gaps within requests, long ones between",
       [](auto& r) {
         return r.chance(0.9) ? 8000 + 4000 * r.unit() : 400'000 + exponential(r, 1e6);
       }},
      {"short gaps of many lengths",
       [](auto& r) { return r.chance(0.8) ? exponential(r, 15'000) : exponential(r, 2e6); }},
      {"at random, seldom", [](auto& r) { return exponential(r, 300'000); }},
      {"at random, often", [](auto& r) { return exponential(r, 5000); }},
      {"never longer than the cost", [](auto& r) { return 18'000 * r.unit(); }},
  };
  constexpr double cost = 20'000;
  constexpr double most = 1'000'000;
  for (const gap_source& source : sources) {
    cede_test::random r(33);
    hold_off h({.cost = of(cost), .most = of(most)});
    std::vector<double> gaps;
    double lost = 0;
    for (int i = 0; i < 4000; ++i) {
      const double gap = source.gap(r);
      if (i >= 256) {
        const double held = static_cast<double>(h.value().count());
        lost += gap <= held ? gap : held + cost;
        gaps.push_back(gap);
      }
      h.observe(of(gap));
    }
    lost /= static_cast<double>(gaps.size());
    const double best = best_loss(gaps, cost, most);
    std::printf("hold-off, %s: %.1f us, loses %.2f us a gap, the best one %.2f us\n", source.name,
                static_cast<double>(h.value().count()) / 1000, lost / 1000, best / 1000);
    CHECK(lost <= 1.1 * best);
  }
}

TEST_CASE("tuning hold-off: known answers") {
  SUBCASE("gaps that are long: none") {
    hold_off h({.cost = 20us, .most = 1ms});
    for (int i = 0; i < 100; ++i) h.observe(1ms + std::chrono::microseconds(i));
    CHECK(h.value() == 0ns);
  }
  SUBCASE("gaps of 10 us, and now and then a long one: a little more than 10 us") {
    hold_off h({.cost = 20us, .most = 1ms});
    for (int i = 0; i < 200; ++i) h.observe(i % 10 == 0 ? 5ms : 10us);
    CHECK(h.value() > 10us);
    CHECK(h.value() <= 11us);
    // And when the long ones are all there is, none, after a while.
    for (int i = 0; i < 300; ++i) h.observe(5ms);
    CHECK(h.value() == 0ns);
  }
  SUBCASE("what coming back costs decides") {
    for (const bool dear : {false, true}) {
      hold_off h({.cost = dear ? 500us : 5us, .most = 1ms});
      for (int i = 0; i < 200; ++i) h.observe(i % 2 == 0 ? 5ms : 100us);
      CHECK((h.value() > 100us) == dear);
    }
    hold_off h({.cost = 5us, .most = 1ms});
    for (int i = 0; i < 200; ++i) h.observe(i % 2 == 0 ? 5ms : 100us);
    h.set_cost(500us);
    for (int i = 0; i < 16; ++i) h.observe(i % 2 == 0 ? 5ms : 100us);
    CHECK(h.value() > 100us);
  }
  SUBCASE("never more than allowed, never less than asked for") {
    hold_off h({.cost = 10ms, .least = 20us, .most = 300us});
    CHECK(h.value() == 20us);
    cede_test::random r(8);
    for (int i = 0; i < 1000; ++i) {
      h.observe(of(exponential(r, 400'000)));
      REQUIRE(h.value() >= 20us);
      REQUIRE(h.value() <= 300us);
    }
    CHECK(h.value() > 200us);
  }
  SUBCASE("nonsense is taken as no gap") {
    hold_off h;
    for (int i = 0; i < 50; ++i) h.observe(-1s);
    CHECK(h.value() <= 1ns);
  }
}

TEST_CASE("tuning hold-off: options out of range are refused") {
  CHECK_THROWS_AS(hold_off({.cost = 0ns}), cede::invalid_argument);
  CHECK_THROWS_AS(hold_off({.least = -1ns}), cede::invalid_argument);
  CHECK_THROWS_AS(hold_off({.least = 2us, .most = 1us}), cede::invalid_argument);
}

namespace {

/// Share of the time that a device is busy which holds `depth` launches of `kernel`, where a new
/// one can start `refill` after one has ended.
double busy(double kernel, double refill, unsigned depth) {
  std::vector<double> ready(depth, 0);  // when each place has a launch that may start
  double now = 0;
  double worked = 0;
  for (int i = 0; i < 1000; ++i) {
    auto next = std::min_element(ready.begin(), ready.end());
    now = std::max(now, *next) + kernel;
    worked += kernel;
    *next = now + refill;
  }
  return worked / now;
}

}  // namespace

TEST_CASE("tuning in-flight: as few as keep the device busy") {
  for (const double refill : {5000.0, 20'000.0, 60'000.0}) {
    for (const double kernel : {3000.0, 8000.0, 25'000.0, 100'000.0, 1'000'000.0}) {
      in_flight f({.most = 64, .longest = 1s});
      cede_test::random r(3);
      for (int i = 0; i < 50; ++i) {
        f.observe(of(kernel * (1 + 0.1 * r.unit())));
        f.observe_refill(of(refill * (1 - 0.2 * r.unit())));
      }
      unsigned best = 2;
      while (busy(kernel * 1.05, refill, best) < 0.99) ++best;
      CAPTURE(refill);
      CAPTURE(kernel);
      CHECK(busy(kernel * 1.05, refill * 0.97, f.count()) >= 0.97);
      CHECK(f.count() <= best + 1);
      CHECK(f.time() <= of(1.1 * kernel * f.count()));
    }
  }
}

TEST_CASE("tuning in-flight: bounded in number and in time") {
  in_flight f({.least = 2, .most = 6, .longest = 1ms, .refill = 20us});
  CHECK(f.count() == 2);
  CHECK(f.time() == 0ns);
  for (int i = 0; i < 31; ++i) f.observe(1us);
  CHECK(f.count() == 6);
  CHECK(f.admits(5));
  CHECK_FALSE(f.admits(6));
  for (int i = 0; i < 31; ++i) f.observe(10us);
  CHECK(f.count() == 3);
  // Long ones: two all the same, the next must be there when one ends.
  for (int i = 0; i < 31; ++i) f.observe(50ms);
  CHECK(f.count() == 2);
  CHECK(f.admits(1));
  CHECK_FALSE(f.admits(2));
  // A slow host and kernels of half a millisecond: three would be needed, but are too much to
  // queue.
  for (int i = 0; i < 31; ++i) {
    f.observe(500us);
    f.observe_refill(900us);
  }
  CHECK(f.count() == 3);
  CHECK(f.admits(1));
  CHECK_FALSE(f.admits(2));
  // What cannot be is left out.
  f.observe(0ns);
  f.observe(-1s);
  f.observe_refill(-1s);
  CHECK(f.count() == 3);
}

TEST_CASE("tuning in-flight: options out of range are refused") {
  CHECK_THROWS_AS(in_flight({.least = 0}), cede::invalid_argument);
  CHECK_THROWS_AS(in_flight({.least = 3, .most = 2}), cede::invalid_argument);
  CHECK_THROWS_AS(in_flight({.longest = 0ns}), cede::invalid_argument);
  CHECK_THROWS_AS(in_flight({.refill = -1ns}), cede::invalid_argument);
}
