// SPDX-License-Identifier: Apache-2.0
// Which configurations there are, and what the cost model says of them.
#include <cede/detail/plan.hpp>
#include <cede/tuning/cost_model.hpp>
#include <cede/tuning/gaussian_process.hpp>
#include <cede/tuning/ranking.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "support/random.hpp"
#include "support/tuning_simulator.hpp"

using namespace cede::tuning;
using cede::form;
using cede_test::large_gpu;
using namespace std::chrono_literals;

namespace {

launch_facts facts(std::uint64_t tiles, unsigned workers, unsigned native) {
  launch_facts l;
  l.tiles = tiles;
  l.workers_fit = workers;
  l.native_fit = native;
  return l;
}

cede::launch_options options_of(const candidate& c) {
  return {.form = c.how,
          .workers_per_sm = c.workers_per_sm,
          .tiles_per_claim = c.batch,
          .chunk = c.chunk,
          .slices = c.slices};
}

observation took(nanoseconds elapsed, std::uint64_t tiles, nanoseconds longest = 0ns) {
  return {.elapsed = elapsed, .tiles = tiles, .longest = longest};
}

}  // namespace

TEST_CASE(
    "tuning candidate: forms, workers and what a raise waits for are those of the launch plan") {
  cede_test::random r(9);
  unsigned whole_only = 0;
  for (int i = 0; i < 400; ++i) {
    cede::detail::device_facts device;
    device.sms = 1 + static_cast<unsigned>(r.below(150));
    device.watchers = static_cast<unsigned>(r.below(2));
    device.clusters = r.chance(0.5);
    cede::detail::kernel_entry k;
    k.name = "k";
    k.traits.native = r.chance(0.2);
    k.traits.whole = r.chance(0.2);
    k.traits.independent = r.chance(0.3);
    k.traits.clustered = !k.traits.native && r.chance(0.3);
    k.state_bytes = k.traits.independent && r.chance(0.5) ? 64 : 0;
    const unsigned cluster = r.chance(0.2) ? 2 : 1;
    launch_facts l = facts((1 + r.below(100'000)) * cluster, 1 + static_cast<unsigned>(r.below(16)),
                           1 + static_cast<unsigned>(r.below(16)));
    l.traits = k.traits;
    l.state_bytes = k.state_bytes;
    l.cluster = cluster;
    const machine_facts m{
        .sms = device.sms, .watchers = device.watchers, .clusters = device.clusters};
    const cede::shape s{.grid = {l.tiles}, .block = 64, .cluster = {cluster}};
    const auto resident = [&](form how) -> std::uint64_t {
      if (how != form::persistent) return std::uint64_t{l.native_fit} * device.sms;
      return std::uint64_t{l.workers_fit} * device.sms / cluster;
    };
    const auto all = enumerate(l, m);
    for (const candidate& c : all) {
      CHECK(allowed(c, l, m));
      const auto plan = cede::detail::make_plan(device, k, s, options_of(c), resident);
      REQUIRE(plan.how == c.how);
      if (c.how == form::persistent) {
        CHECK(plan.workers * cluster == workers_of(c, l, m));
        CHECK((plan.records != 0) == gives_back(c, l));
      }
      if (c.how == form::persistent || c.how == form::gated) {
        CHECK(cede::detail::tiles_after_raise(plan) == pieces_after_raise(c, l, m));
      }
    }
    // What the plan forbids is not allowed, and what it does not is enumerated.
    for (const form how : {form::persistent, form::gated, form::sliced}) {
      bool forbidden = false;
      try {
        const auto plan = cede::detail::make_plan(
            device, k, s, {.form = how, .slices = how == form::sliced ? 2U : 0U}, resident);
        forbidden = plan.how != how;
      } catch (const cede::not_supported&) {
        forbidden = true;
      }
      CHECK(allows(l, m, how) == !forbidden);
      if (how == form::sliced) continue;  // only where a slice fills the device
      CHECK(std::any_of(all.begin(), all.end(), [&](const candidate& c) { return c.how == how; }) ==
            !forbidden);
    }
    if (all.size() == 1) ++whole_only;
  }
  CHECK(whole_only > 10);
}

TEST_CASE("tuning candidate: no two are the same, and none differs in name alone") {
  for (const std::uint64_t tiles : {1ULL, 5ULL, 132ULL, 600ULL, 5000ULL, 3'000'000ULL}) {
    for (const unsigned fit : {1U, 3U, 8U, 32U}) {
      const launch_facts l = facts(tiles, fit, fit);
      const auto all = enumerate(l, large_gpu());
      CHECK(all.size() <= 300);
      for (std::size_t i = 0; i < all.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          CHECK_FALSE(all[i] == all[j]);
          const bool workers = all[i].how == form::persistent && all[j].how == form::persistent;
          if (workers && all[i].batch == all[j].batch) {
            CHECK(workers_of(all[i], l, large_gpu()) != workers_of(all[j], l, large_gpu()));
          }
        }
      }
    }
  }
}

TEST_CASE("tuning candidate: what is out of range is not allowed") {
  const launch_facts l = facts(1000, 8, 8);
  const machine_facts m = large_gpu();
  CHECK(allowed(persistent(8, 1), l, m));
  CHECK_FALSE(allowed(persistent(9, 1), l, m));
  CHECK_FALSE(allowed(persistent(0, 1), l, m));
  CHECK_FALSE(allowed(persistent(1, 0), l, m));
  CHECK_FALSE(allowed(persistent(1, 65536), l, m));
  CHECK_FALSE(allowed(gated(0), l, m));
  CHECK_FALSE(allowed(sliced(0), l, m));
  CHECK(allowed(sliced(1000), l, m));
  CHECK_FALSE(allowed(sliced(1001), l, m));
  CHECK_FALSE(allowed({.how = form::automatic}, l, m));
  CHECK_FALSE(allowed({.how = form::whole, .slices = 2}, l, m));
  CHECK_FALSE(allowed({.how = form::gated, .batch = 1, .chunk = 100}, l, m));
  CHECK(to_text(persistent(1, 1)) == "persistent, 1 worker per SM, 1 tile a claim");
  CHECK(to_text(gated(4096)) == "gated, chunks of 4096 blocks");
  CHECK(to_text(sliced(2)) == "2 slices");
  CHECK(to_text(whole()) == "whole");
}

TEST_CASE("tuning model: nothing is said before anything was seen") {
  const cost_model m(facts(1000, 8, 8), large_gpu(), {});
  CHECK_FALSE(m.time(whole()));
  CHECK_FALSE(m.bound(whole()));
  CHECK_FALSE(m.bound(persistent(4, 1)));
  CHECK_FALSE(m.hoped_bound(persistent(4, 1)));
}

TEST_CASE("tuning model: a bound is the flag, the tiles that may still run, and the drain") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {.flag_p99 = 3us, .block_drain_ns = 0.5});
  m.observe(persistent(4, 1), took(400us, 52'800, 4us));
  CHECK(*m.bound(persistent(4, 1)) == 3us + 2 * 4us);
  // The mean over several is not longer than the longest; a claim's tiles all run.
  CHECK(*m.bound(persistent(4, 2)) == 3us + 4 * 4us);
  // More workers: in proportion, as long as nothing else is known. Fewer: no shorter.
  CHECK(*m.bound(persistent(8, 1)) == 3us + 2 * 8us);
  CHECK(*m.bound(persistent(1, 1)) == 3us + 2 * 4us);
  CHECK(*m.hoped_bound(persistent(1, 1)) == 3us + 2 * 2us);
  // Gated: one tile, and all blocks that are queued fall through.
  CHECK(*m.bound(gated(4096)) == 3us + 8us + nanoseconds(8 * 4096 / 2));
  CHECK(*m.bound(gated(1U << 20U)) == 3us + 8us + nanoseconds(52'800 / 2));
  m.observe(persistent(2, 1), took(800us, 52'800, 4us));
  // Tiles did not become longer from two to four: they will hardly do from four to five.
  CHECK(*m.bound(persistent(5, 1)) < 3us + 2 * 5us);
  CHECK(*m.bound(persistent(5, 1)) > 3us + 2 * 4us);
  // Far from what was seen, caution stays.
  CHECK(*m.bound(persistent(8, 1)) == 3us + 2 * 8us);
}

TEST_CASE("tuning model: given back, two tiles are left, whatever was claimed") {
  launch_facts l = facts(52'800, 8, 8);
  l.traits.independent = true;
  cost_model m(l, large_gpu(), {.flag_p99 = 3us});
  m.observe(persistent(4, 1), took(400us, 52'800, 9us));
  CHECK(*m.bound(persistent(4, 1)) == 3us + 2 * 9us);
  CHECK(*m.bound(persistent(4, 16)) <= 3us + 2 * 10us);
  // A mean over 16 says little of the longest one.
  m.observe(persistent(4, 16), took(380us, 52'800, 4us));
  CHECK(*m.bound(persistent(4, 16)) >= 3us + 2 * 8us);
}

TEST_CASE("tuning model: slices and whole launches are waited for, those that are queued as well") {
  machine_facts gpu = large_gpu();
  gpu.pieces_in_flight = 2;
  cost_model m(facts(52'800, 8, 8), gpu, {.flag_p99 = 3us});
  m.observe(whole(), took(100us, 52'800));
  CHECK(*m.bound(whole()) == 3us + 2 * 100us);
  m.observe(sliced(10), took(150us, 52'800));
  CHECK(*m.bound(sliced(10)) == 3us + 2 * 15us);
  CHECK(*m.bound(sliced(20)) > 3us + 2 * 5us);
  CHECK(*m.bound(sliced(20)) < *m.bound(sliced(10)));
}

TEST_CASE("tuning model: one stall among many tiles and launches does not count, two do") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {.flag_p99 = 3us});
  for (int i = 0; i < 8; ++i) m.observe(persistent(4, 1), took(400us, 52'800, 4us));
  m.observe(persistent(4, 1), took(4ms, 52'800, 300us));
  CHECK(*m.bound(persistent(4, 1)) == 3us + 2 * 4us);
  CHECK(*m.time(persistent(4, 1)) < 410'000);
  m.observe(persistent(4, 1), took(4ms, 52'800, 200us));
  CHECK(*m.bound(persistent(4, 1)) == 3us + 2 * 200us);
}

TEST_CASE("tuning model: measured, a turnaround need not be computed") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {.flag_p99 = 3us});
  observation o = took(400us, 52'800, 10us);
  o.turnaround = 9us;
  for (int i = 0; i < 31; ++i) m.observe(persistent(4, 1), o);
  CHECK(*m.bound(persistent(4, 1)) == 23us);
  m.observe(persistent(4, 1), o);
  CHECK(*m.bound(persistent(4, 1)) == 9900ns);
  // It counts at once where it is longer than what was computed.
  o.turnaround = 40us;
  for (int i = 0; i < 8; ++i) m.observe(persistent(2, 1), o);
  CHECK(*m.bound(persistent(2, 1)) == 40us);
}

TEST_CASE("tuning model: launches that left in the middle give no time") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {});
  observation o = took(100us, 20'000, 4us);
  o.complete = false;
  m.observe(persistent(4, 1), o);
  CHECK_FALSE(m.time(persistent(4, 1)));
  CHECK(m.bound(persistent(4, 1)));
  // One that claims to be complete and is not.
  o.complete = true;
  m.observe(persistent(4, 1), o);
  CHECK_FALSE(m.time(persistent(4, 1)));
  m.observe(persistent(4, 1), took(400us, 52'800, 4us));
  CHECK(*m.time(persistent(4, 1)) == doctest::Approx(400'000).epsilon(0.01));
}

TEST_CASE("tuning model: a first time that nothing explains waits for a second") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {});
  m.observe(persistent(4, 1), took(400us, 52'800, 4us));
  m.observe(persistent(4, 2), took(1200us, 52'800, 4us));
  CHECK(m.find(persistent(4, 2))->elapsed.empty());
  CHECK(*m.time(persistent(4, 2)) < 410'000);
  m.observe(persistent(4, 2), took(390us, 52'800, 4us));
  CHECK(m.find(persistent(4, 2))->elapsed.median() == 390'000);
  // Where the second says the same it is believed.
  m.observe(persistent(4, 4), took(1200us, 52'800, 4us));
  m.observe(persistent(4, 4), took(1190us, 52'800, 4us));
  CHECK(m.find(persistent(4, 4))->elapsed.median() == 1'190'000);
}

TEST_CASE("tuning model: the cost of a claim is learned from batches of two sizes") {
  cost_model m(facts(528'000, 8, 8), large_gpu(), {.launch = 4us, .claim = 300ns});
  // 1000 tiles a worker, each 3 us and 0.6 us a claim.
  m.observe(persistent(4, 1), took(4us + 3600us, 528'000, 4us));
  m.observe(persistent(4, 4), took(4us + 3150us, 528'000, 4us));
  CHECK(*m.time(persistent(4, 16)) < 3'150'000);
  CHECK(*m.time(persistent(4, 16)) > 3'000'000);
  CHECK(*m.time(persistent(4, 16)) == doctest::Approx(3'040'000).epsilon(0.03));
}

TEST_CASE("tuning model: after ageing only lengths of tiles are known, and change with the first") {
  cost_model m(facts(52'800, 8, 8), large_gpu(), {.flag_p99 = 3us});
  m.observe(persistent(4, 1), took(400us, 52'800, 4us));
  m.observe(persistent(8, 1), took(380us, 52'800, 7us));
  m.age();
  CHECK_FALSE(m.time(persistent(4, 1)));
  CHECK(*m.bound(persistent(8, 1)) == 3us + 2 * 7us);
  m.observe(persistent(4, 1), took(200us, 52'800, 2us));
  CHECK(*m.bound(persistent(4, 1)) == 3us + 2 * 2us);
  CHECK(*m.bound(persistent(8, 1)) == 3us + 2 * 3500ns);
}

TEST_CASE("tuning gaussian process: exact at what was seen, unsure far from it") {
  gaussian_process p({.common = 0.05, .family = 0.1, .local = 0.2, .reach = {1, 2}});
  p.add({3, {2, 0}}, 0.3, 1e-6);
  p.add({3, {3, 0}}, -0.2, 1e-6);
  p.fit();
  const auto seen = p.predict({3, {2, 0}});
  CHECK(seen.mean == doctest::Approx(0.3).epsilon(0.01));
  CHECK(seen.deviation < 0.01);
  const auto between = p.predict({3, {2.5, 0}});
  CHECK(between.mean > -0.2);
  CHECK(between.mean < 0.3);
  CHECK(between.deviation > seen.deviation);
  const auto far = p.predict({3, {9, 9}});
  const auto other = p.predict({0, {2, 0}});
  CHECK(far.deviation > between.deviation);
  CHECK(other.deviation > far.deviation);
  CHECK(other.deviation ==
        doctest::Approx(std::sqrt(0.05 * 0.05 + 0.1 * 0.1 + 0.2 * 0.2)).epsilon(0.05));
}

TEST_CASE("tuning gaussian process: the mean of many noisy values") {
  gaussian_process p({.common = 1, .family = 0, .local = 0, .reach = {1, 1}});
  cede_test::random r(4);
  double sum = 0;
  for (int i = 0; i < 40; ++i) {
    const double v = 1 + 0.5 * (r.unit() - 0.5);
    sum += v;
    p.add({i % 4, {static_cast<double>(i), 0}}, v, 0.02);
  }
  p.fit();
  CHECK(p.predict({0, {0, 0}}).mean == doctest::Approx(sum / 40).epsilon(0.01));
  CHECK(p.predict({0, {0, 0}}).deviation == doctest::Approx(std::sqrt(0.02 / 40)).epsilon(0.05));
}

TEST_CASE("tuning ranking: noise is learned from repeats") {
  cost_model quiet(facts(52'800, 8, 8), large_gpu(), {});
  cost_model loud(facts(52'800, 8, 8), large_gpu(), {});
  cede_test::random r(4);
  for (int i = 0; i < 9; ++i) {
    const double off = r.unit() - 0.5;
    quiet.observe(persistent(4, 1),
                  took(nanoseconds(400'000 + static_cast<int>(off * 2000)), 52'800));
    loud.observe(persistent(4, 1),
                 took(nanoseconds(400'000 + static_cast<int>(off * 100'000)), 52'800));
  }
  CHECK(noise(quiet) < 0.012);
  CHECK(noise(loud) > 0.03);
}

TEST_CASE("tuning scaling: between and beyond what was measured") {
  const std::vector<level> flat{{2, 1000}, {4, 1000}};
  CHECK(tile_between(flat, {}, 3, 8) == doctest::Approx(1000));
  CHECK(tile_between(flat, {}, 1, 8) == 1000);
  CHECK(tile_between(flat, {}, 8, 8) == doctest::Approx(1000 * std::pow(2, 0.35)));
  CHECK(tile_between(flat, {}, 8, 1.5) == doctest::Approx(2000));
  const std::vector<level> one{{4, 1000}};
  CHECK(tile_between(one, {}, 8, 8) == doctest::Approx(2000));
  // Those of another kind fill gaps, but not where something else was the limit.
  CHECK(tile_between(one, {{8, 1200}}, 8, 8) == 1200);
  CHECK(tile_between(one, {{8, 1200, true}}, 8, 8) == doctest::Approx(2000));
  CHECK(tile_between({}, {{8, 1200, true}}, 8, 8) == 1200);
}
