// SPDX-License-Identifier: Apache-2.0
// How a launch will run, decided without a device: form, workers, chunks; and what the CUDA device
// makes of a submission before it calls CUDA.
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/plan.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

using cede::form;
using cede::launch_options;
using namespace cede::detail;

namespace {

device_facts facts(unsigned sms = 10, unsigned watchers = 1) {
  device_facts f;
  f.sms = sms;
  f.watchers = watchers;
  f.limits.shared = 100000;
  return f;
}

kernel_entry entry(cede::body_traits traits = {}) {
  kernel_entry k;
  k.name = "body";
  k.traits = traits;
  return k;
}

plan planned(const cede::shape& s, const launch_options& o, cede::body_traits traits = {},
             unsigned fit = 8, device_facts f = facts()) {
  return make_plan(f, entry(traits), s, o, [&](form) { return std::uint64_t{fit} * f.sms; });
}

}  // namespace

TEST_CASE("a body that declares nothing runs in persistent workers, four per SM") {
  const plan p = planned({.grid = 100000, .block = 64}, {});
  CHECK(p.how == form::persistent);
  CHECK(p.workers == 40);
  CHECK(p.batch == 1);
}

TEST_CASE("no more workers than fit, one less where the watcher takes the last place") {
  CHECK(planned({.grid = 100000, .block = 64}, {.workers_per_sm = 100}).workers == 79);
  CHECK(planned({.grid = 100000, .block = 64}, {.workers_per_sm = 7}).workers == 70);
  CHECK(planned({.grid = 100000, .block = 64}, {}, {}, 1, facts(1)).workers == 1);
  CHECK(planned({.grid = 100000, .block = 64}, {}, {}, 1, facts(2, 0)).workers == 2);
}

TEST_CASE("no more workers than tiles") {
  CHECK(planned({.grid = 3, .block = 64}, {}).workers == 3);
}

TEST_CASE("traits decide the form; what they forbid is refused in words") {
  CHECK(planned({.grid = 10}, {}, {.native = true}).how == form::gated);
  CHECK(planned({.grid = 10}, {}, {.whole = true}).how == form::whole);
  CHECK(planned({.grid = 10}, {.whole = true}).how == form::whole);
  CHECK(planned({.grid = 8, .cluster = 2}, {}).how == form::whole);
  CHECK_THROWS_WITH_AS(planned({.grid = 10}, {.form = form::persistent}, {.native = true}),
                       doctest::Contains("form::gated"), cede::not_supported);
  CHECK_THROWS_WITH_AS(planned({.grid = 10}, {.form = form::gated}, {.whole = true}),
                       doctest::Contains("whole"), cede::not_supported);
  CHECK_THROWS_WITH_AS(planned({.grid = 8, .cluster = 2}, {.form = form::sliced}),
                       doctest::Contains("clusters"), cede::not_supported);
}

TEST_CASE("clusters of a body declared `clustered` are workers, where the device has clusters") {
  device_facts f = facts();
  const cede::shape s{.grid = {1000, 2}, .block = 64, .cluster = {2, 2}};
  const cede::body_traits clustered{.clustered = true};
  const auto resident = [](form how) { return std::uint64_t{how == form::persistent ? 30U : 80U}; };
  CHECK(make_plan(f, entry(clustered), s, {}, resident).how == form::whole);
  f.clusters = true;
  CHECK(make_plan(f, entry(), s, {}, resident).how == form::whole);
  const plan p = make_plan(f, entry(clustered), s, {}, resident);
  CHECK(p.how == form::persistent);
  CHECK(p.tiles == 500);   // clusters
  CHECK(p.workers == 10);  // of four blocks each: four blocks per SM
  CHECK(make_plan(f, entry(clustered), s, {.workers_per_sm = 32}, resident).workers == 29);
  CHECK(make_plan(f, entry(clustered), s, {.whole = true}, resident).how == form::whole);
  CHECK_THROWS_WITH_AS(make_plan(f, entry(clustered), s, {.form = form::gated}, resident),
                       doctest::Contains("persistent workers"), cede::not_supported);
  CHECK_THROWS_WITH_AS(make_plan(f, entry(), s, {.form = form::persistent}, resident),
                       doctest::Contains("declared `clustered`"), cede::not_supported);
  // Without clusters in its shape it is a body like others.
  CHECK(make_plan(f, entry(clustered), {.grid = 10, .block = 64}, {}, resident).tiles == 10);
}

TEST_CASE(
    "slices: as many as asked for, never more than tiles, never more blocks than a grid holds") {
  CHECK(planned({.grid = 100}, {.slices = 16}).slices == 16);
  CHECK(planned({.grid = 5}, {.slices = 16}).slices == 5);
  CHECK(planned({.grid = {2147483647, 4}}, {.form = form::sliced}).slices == 4);
  CHECK(planned({.grid = 100}, {.slices = 16}).how == form::sliced);
}

TEST_CASE("tiles per claim shrink towards the end; one by one they need not") {
  CHECK(planned({.grid = 100000}, {}).guide == 0);
  const plan p = planned({.grid = 100000}, {.tiles_per_claim = 8});
  CHECK(p.batch == 8);
  CHECK(p.workers == 40);
  CHECK(p.guide == 7);  // half of a 40th, rounded down to a power of two: a 128th
}

TEST_CASE("only an independent body gives back, and only where there is something to give back") {
  const cede::body_traits independent{.independent = true};
  CHECK(planned({.grid = 1000}, {.tiles_per_claim = 4}).records == 0);
  CHECK(planned({.grid = 1000}, {.tiles_per_claim = 4}, independent).records == 40);
  CHECK(planned({.grid = 1000}, {}, independent).records == 0);
  kernel_entry k = entry(independent);
  k.state_bytes = 200;
  const auto fit = [](form) { return std::uint64_t{80}; };
  const plan p = make_plan(facts(), k, {.grid = 1000}, {}, fit);
  CHECK(p.records == 40);
  CHECK(p.memory.state == 0);
  CHECK(p.memory.bytes == 40 * 256);
  const plan full = make_plan(facts(), k, {.grid = 1000}, {}, fit, true);
  CHECK(full.memory.state == 40 * worker_words_bytes);
  CHECK(full.memory.bytes == 40 * (worker_words_bytes + 256));
  CHECK(make_plan(facts(), k, {.grid = 1000}, {.form = form::gated}, fit, true).memory.bytes == 0);
}

TEST_CASE("a batch shrinks until it keeps the turnaround") {
  using std::chrono::microseconds;
  const plan p = planned({.grid = 1000}, {.tiles_per_claim = 8});
  CHECK(tiles_after_raise(p) == 16);
  CHECK(batch_within(p, microseconds(30), microseconds(0)) == 8);
  CHECK(batch_within(p, microseconds(32), microseconds(2)) == 8);
  CHECK(batch_within(p, microseconds(30), microseconds(2)) == 7);
  CHECK(batch_within(p, microseconds(30), microseconds(4)) == 3);
  CHECK(batch_within(p, microseconds(30), microseconds(10)) == 1);
  CHECK(batch_within(p, microseconds(30), microseconds(20)) == 1);
  CHECK(batch_within(p, microseconds(30), microseconds(90)) == 1);
  plan kept = p;
  for (int us = 1; us < 40; ++us) {
    kept.batch = batch_within(p, microseconds(100), microseconds(us));
    const bool kept_within = tiles_after_raise(kept) * us <= 100;
    CHECK((kept.batch == 1 || kept_within));
  }
  // What can be given back need not shrink.
  const plan gives = planned({.grid = 1000}, {.tiles_per_claim = 8}, {.independent = true});
  CHECK(tiles_after_raise(gives) == 2);
  CHECK(batch_within(gives, microseconds(30), microseconds(20)) == 8);
  CHECK(tiles_after_raise(planned({.grid = 1000}, {.form = form::gated})) == 1);
}

TEST_CASE("all workers come back to what they gave back, however little is left") {
  plan p = planned({.grid = 1000}, {.tiles_per_claim = 4}, {.independent = true});
  alignas(128) std::byte memory[256];
  p.memory.state = 128;
  submission what;
  fill_persistent(what, p, 3, 1, memory);
  CHECK(what.count == 40);
  CHECK(what.terms.participants == 41);
  CHECK(what.terms.records == 40);
  CHECK(what.terms.batch == 4);
  CHECK(what.terms.guide == p.guide);
  CHECK(what.words.words == memory);
  CHECK(what.words.state == memory + 128);
  CHECK_FALSE(what.overlap);
  fill_persistent(what, planned({.grid = 1000}, {.overlap = true}), 3, 1, nullptr);
  CHECK(what.overlap);
  CHECK(what.count == 3);
  CHECK(what.terms.participants == 4);
  CHECK(what.words.state == nullptr);
}

TEST_CASE("the adapter's words go behind the body's shared memory and move nothing") {
  for (const form how : {form::gated, form::persistent}) {
    CHECK(place_own(how, 0, 0, 1000).offset == 0);
    CHECK(place_own(how, 0, 0, 1000).shared == own_bytes(how));
    CHECK(place_own(how, 100, 0, 1000).offset == 112);
    CHECK(place_own(how, 100, 0, 1000).shared == 112 + own_bytes(how));
    CHECK(place_own(how, 100, 0, 1000).fits);
    CHECK(place_own(how, 1024 - own_bytes(how), 0, 1024).fits);
    CHECK_FALSE(place_own(how, 1024 - own_bytes(how) + 1, 0, 1024).fits);
  }
}

TEST_CASE("where the body leaves no room: a gated block's share its first bytes") {
  for (std::size_t left : {0U, 1U, 15U}) {
    const own_place p = place_own(form::gated, 1024 - left, 0, 1024);
    CHECK_FALSE(p.fits);
    CHECK(p.offset == 0);
    CHECK(p.shared == 1024 - left);
  }
  // Refused later, with the sizes named.
  CHECK(place_own(form::gated, 8, 1020, 1024).shared == own_bytes(form::gated));
}

TEST_CASE("where the body leaves no room: a worker's are elsewhere, the launch is as it was") {
  const own_place p = place_own(form::persistent, 1000, 0, 1024);
  CHECK_FALSE(p.fits);
  CHECK(p.shared == 1000);
}

TEST_CASE("a whole launch keeps its native grid; a slice is one row with an offset") {
  submission s;
  s.geometry = {.grid = {4, 3, 2}, .block = 32, .shared = 64};
  s.count = 24;
  native_args a;
  native_grid g = plan_native(s, a);
  CHECK(g.x == 4);
  CHECK(g.y == 3);
  CHECK(g.z == 2);
  CHECK_FALSE(a.linear);
  s.first = 5;
  s.count = 7;
  g = plan_native(s, a);
  CHECK(a.linear);
  CHECK(a.first == 5);
  CHECK(g.x == 7);
  CHECK(g.y == 1);
  CHECK(a.grid.grid == cede::index3{4, 3, 2});
}

TEST_CASE("workers and chunks get one block more, the watcher") {
  kernel_entry k = entry();
  k.state_bytes = 12;
  submission s;
  s.kernel = &k;
  s.geometry = {.grid = 1000, .block = 32};
  s.count = 40;
  s.limit = 77;
  for (const form how : {form::gated, form::persistent}) {
    s.how = how;
    worker_args a;
    native_grid g = plan_workers(s, 0, 100000, a);
    CHECK(g.x == 41);
    CHECK(g.shared == own_bytes(how));
    CHECK(a.limit == 77);
    CHECK(a.state_bytes == 12);
    CHECK_FALSE(a.overlay);
    CHECK_FALSE(a.in_memory);
    g = plan_workers(s, 100000, 100000, a);
    CHECK(a.overlay == (how == form::gated));
    CHECK(a.in_memory == (how == form::persistent));
  }
}
