// SPDX-License-Identifier: Apache-2.0
// Best-effort work loses nothing: every tile of every launch runs once, however often it is
// interrupted.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/random.hpp"

using namespace cede_test;

namespace {

constexpr std::size_t tiles = 300;

struct look_back {
  static constexpr bool looks_back = true;
  int* sums;  // -1 until known
  CEDE_BODY void operator()(cede::block b) const {
    const std::uint32_t i = b.index().x;
    int before = 0;
    if (i > 0) {
      while ((before = std::atomic_ref<int>(sums[i - 1]).load()) < 0) std::this_thread::yield();
    }
    std::atomic_ref<int>(sums[i]).store(before + static_cast<int>(i));
  }
};

/// Launches until `requests` have been served meanwhile; then looks at every tile.
void train_beside_requests(const cede::launch_options& options, unsigned requests) {
  std::vector<int> values(tiles);
  int wrong = 0;
  int step = 0;
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  steady_requests service(serve, 0us, 2);
  while (service.served() < requests) {
    for (int i = 0; i < 20; ++i)
      t.launch({.grid = tiles}, options, step_up{values.data(), step++, &wrong});
    REQUIRE(t.synchronize_for(patience));
  }
  service.stop();
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(tiles, step));
  CHECK(service.tiles() == service.served() * 4);
  const auto stats = stats_of(cpu, "train");
  CHECK(stats.launches == static_cast<std::uint64_t>(step));
  CHECK(stats.finished == stats.launches);
  CHECK(stats.tiles == stats.launches * tiles);
  CHECK(stats.resumes == stats.yields);
  const auto served = stats_of(cpu, "serve");
  CHECK(eventually([&] { return stats_of(cpu, "serve").requests == service.served(); }));
}

}  // namespace

TEST_CASE("persistent workers beside thousands of requests") {
  train_beside_requests({.form = cede::form::persistent}, 2000);
}
TEST_CASE("persistent workers that claim several tiles at once") {
  train_beside_requests({.form = cede::form::persistent, .tiles_per_claim = 7}, 700);
}
TEST_CASE("gated blocks in one chunk") { train_beside_requests({.form = cede::form::gated}, 700); }
TEST_CASE("gated blocks in many chunks, more than go out at once") {
  train_beside_requests({.form = cede::form::gated, .chunk = 11}, 700);
}
TEST_CASE("slices") { train_beside_requests({.form = cede::form::sliced, .slices = 9}, 700); }
TEST_CASE("whole launches") { train_beside_requests({.form = cede::form::whole}, 700); }

TEST_CASE(
    "bodies with barriers, shared memory and early returns are preempted between tiles only") {
  struct reversed {
    const int* from;
    int* to;
    int n;
    CEDE_BODY void operator()(cede::block b) const {
      struct row {
        int value[32];
      };
      row& shared = b.shared<row>();
      const auto i = static_cast<int>(b.index().x * 32 + b.thread_rank());
      if (i >= n) return;  // before a barrier of the others
      shared.value[b.thread_rank()] = from[i];
      b.sync();
      const std::uint32_t here = b.index().x * 32 + 32 <= static_cast<std::uint32_t>(n)
                                     ? 32
                                     : static_cast<std::uint32_t>(n) - b.index().x * 32;
      to[i] += shared.value[here - 1 - b.thread_rank()];
    }
  };
  constexpr int n = 32 * 40 + 5;
  std::vector<int> from(n), to(n), expected(n);
  for (int i = 0; i < n; ++i) from[static_cast<std::size_t>(i)] = i;
  for (int i = 0; i < n; ++i) {
    const int row = i / 32 * 32;
    const int here = std::min(32, n - row);
    expected[static_cast<std::size_t>(i)] = 40 * (row + here - 1 - (i - row));
  }
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  steady_requests service(serve, 50us);
  for (int i = 0; i < 40; ++i) {
    t.launch({.grid = 41, .block = 32},
             {.form = i % 2 == 0 ? cede::form::persistent : cede::form::gated},
             reversed{from.data(), to.data(), n});
  }
  REQUIRE(t.synchronize_for(patience));
  CHECK(to == expected);
}

TEST_CASE("a tile may wait for the tile before it, through preemptions") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  steady_requests service(serve, 50us);
  for (auto form : {cede::form::persistent, cede::form::gated}) {
    std::vector<int> sums(500);
    for (int i = 0; i < 10; ++i) {
      t.fill(sums.data(), 0xff, sums.size() * sizeof(int));
      t.launch({.grid = 500}, {.form = form, .chunk = 64}, look_back{sums.data()});
    }
    REQUIRE(t.synchronize_for(patience));
    for (int i = 0; i < 500; ++i) REQUIRE(sums[static_cast<std::size_t>(i)] == i * (i + 1) / 2);
  }
}

TEST_CASE("grids of three axes: every tile once, in all forms, preempted") {
  struct count_3d {
    int* runs;
    CEDE_BODY void operator()(cede::block b) const {
      const auto i = b.index();
      const auto g = b.grid();
      b.atomic_add(&runs[i.x + g.x * (i.y + g.y * i.z)], 1);
    }
  };
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  cede::stream s = serve.stream();
  steady_requests service(serve, 50us);
  std::vector<int> runs(7 * 5 * 11);
  int launches = 0;
  for (const cede::launch_options& o :
       {cede::launch_options{.form = cede::form::persistent, .tiles_per_claim = 2},
        {.form = cede::form::gated, .chunk = 50},
        {.form = cede::form::sliced, .slices = 13},
        {.form = cede::form::whole}}) {
    for (int i = 0; i < 10; ++i) {
      t.launch({.grid = {7, 5, 11}}, o, count_3d{runs.data()});
      ++launches;
    }
  }
  REQUIRE(t.synchronize_for(patience));
  s.launch({.grid = {7, 5, 11}}, count_3d{runs.data()});
  s.synchronize();
  CHECK(runs == std::vector<int>(7 * 5 * 11, launches + 1));
}

TEST_CASE("several streams of several workloads beside requests, all forms mixed at random") {
  cede_test::random random(11);
  std::vector<std::vector<int>> values(6, std::vector<int>(50));
  std::vector<int> steps(6), wrong(6);
  cede::scheduler cpu(cede::host_device{.sms = 3});
  cede::workload serve = cpu.workload(critical());
  cede::workload first = cpu.workload({.name = "first", .weight = 3});
  cede::workload second = cpu.workload({.name = "second"});
  cede::workload third =
      cpu.workload({.name = "third", .priority = cede::priority{7}, .hold_off = 20us});
  std::vector<cede::stream> streams;
  for (auto* w : {&first, &second, &third}) {
    streams.push_back(w->stream());
    streams.push_back(w->stream());
  }
  steady_requests service(serve, 100us);
  for (int i = 0; i < 1200; ++i) {
    const auto k = random.below(6);
    const std::vector<cede::launch_options> forms{
        {},
        {.tiles_per_claim = 3},
        {.form = cede::form::gated, .chunk = 1 + random.below(60)},
        {.slices = 1 + random.below(5)},
        {.whole = true}};
    streams[k].launch({.grid = 50}, forms[random.below(forms.size())],
                      step_up{values[k].data(), steps[k]++, &wrong[k]});
    if (random.chance(0.02)) REQUIRE(streams[k].synchronize_for(patience));
  }
  for (auto& s : streams) REQUIRE(s.synchronize_for(patience));
  CHECK(wrong == std::vector<int>(6, 0));
  for (std::size_t k = 0; k < 6; ++k) CHECK(values[k] == std::vector<int>(50, steps[k]));
}
