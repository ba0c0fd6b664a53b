// SPDX-License-Identifier: Apache-2.0
// How a launch will run, decided without a device: form, workers, chunks; and what the CUDA device
// makes of a submission before it calls CUDA.
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/plan.hpp>

#include <doctest/doctest.h>

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
  return make_plan(f, entry(traits), s, o, [&](form) { return fit; });
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

TEST_CASE(
    "slices: as many as asked for, never more than tiles, never more blocks than a grid holds") {
  CHECK(planned({.grid = 100}, {.slices = 16}).slices == 16);
  CHECK(planned({.grid = 5}, {.slices = 16}).slices == 5);
  CHECK(planned({.grid = {2147483647, 4}}, {.form = form::sliced}).slices == 4);
  CHECK(planned({.grid = 100}, {.slices = 16}).how == form::sliced);
}

TEST_CASE("the adapter's words go behind the body's shared memory and move nothing") {
  CHECK(place_mail(0, 0, 1000).offset == 0);
  CHECK(place_mail(0, 0, 1000).shared == mail_bytes);
  CHECK(place_mail(100, 0, 1000).offset == 112);
  CHECK_FALSE(place_mail(100, 0, 1000).overlay);
  CHECK(place_mail(100, 0, 1000).offset % 16 == 0);
}

TEST_CASE("where the body leaves no room the words share its first bytes") {
  for (std::size_t left : {0U, 1U, 16U, 31U}) {
    const mail_place p = place_mail(1024 - left, 0, 1024);
    CHECK(p.overlay);
    CHECK(p.offset == 0);
    CHECK(p.shared == 1024 - left);
  }
  CHECK_FALSE(place_mail(1024 - 32, 0, 1024).overlay);
  CHECK(place_mail(8, 1020, 1024).shared == mail_bytes);  // refused later, with the sizes named
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
  CHECK(a.grid == cede::index3{4, 3, 2});
}

TEST_CASE("workers and chunks get one block more, the watcher") {
  submission s;
  s.geometry = {.grid = 1000, .block = 32};
  s.count = 40;
  s.limit = 77;
  worker_args a;
  const native_grid g = plan_workers(s, 0, 100000, a);
  CHECK(g.x == 41);
  CHECK(g.shared == mail_bytes);
  CHECK(a.limit == 77);
}
