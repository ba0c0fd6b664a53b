// SPDX-License-Identifier: Apache-2.0
// Independent bodies on the host device: batches given back, tiles left half done and re-entered.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr unsigned threads = 4;
constexpr std::uint64_t rounds = 40;

/// Sums numbers in an order that any lost or repeated round would change.
std::uint64_t step(std::uint64_t sum, std::uint64_t tile, std::uint64_t thread,
                   std::uint64_t round) {
  return (sum ^ (tile * 1000 + thread * 100 + round)) * 0x9e3779b97f4a7c15ULL;
}
std::uint64_t expected(std::uint64_t tile, std::uint64_t thread) {
  std::uint64_t sum = 1;
  for (std::uint64_t r = 0; r < rounds; ++r) sum = step(sum, tile, thread, r);
  return sum;
}

struct counters {
  std::atomic<int> left{0};
  std::atomic<int> entered_anew{0};
};

struct long_tile {
  struct state {
    std::uint64_t round;
    std::uint64_t sum[threads];
  };
  static constexpr bool independent = true;

  std::uint64_t* out;
  counters* count;

  void operator()(cede::block b) const {
    const std::uint64_t tile = b.index().x + std::uint64_t{b.grid().x} * b.index().y;
    const std::uint32_t me = b.thread_rank();
    std::uint64_t round = 0;
    std::uint64_t sum = 1;
    if (b.resumed()) {
      const auto& kept = b.state<state>();
      round = kept.round;
      sum = kept.sum[me];
      b.sync();
    } else if (me == 0) {
      ++count->entered_anew;
    }
    for (; round < rounds; ++round) {
      if (round % 4 == 3 && b.should_yield()) {
        auto& keep = b.state<state>();
        if (me == 0) keep.round = round;
        keep.sum[me] = sum;
        if (me == 0) ++count->left;
        return;
      }
      sum = step(sum, tile, me, round);
      if (me == 0) std::this_thread::sleep_for(2us);
    }
    out[tile * threads + me] = sum;
  }
};

struct once {
  static constexpr bool independent = true;
  std::atomic<int>* hits;
  void operator()(cede::block b) const {
    std::this_thread::sleep_for(20us);
    ++hits[b.index().x];
  }
};

void check(const std::vector<std::uint64_t>& out) {
  for (std::uint64_t i = 0; i < out.size(); ++i)
    REQUIRE(out[i] == expected(i / threads, i % threads));
}

}  // namespace

TEST_CASE("a long tile is left half done and goes on where it was") {
  const cede::adapter_device device{cede::host_device{.sms = 2}};
  constexpr unsigned tiles = 24;
  std::vector<std::uint64_t> out(std::size_t{tiles} * threads);
  counters count;
  cede::preemptible job{
      cede::shape{.grid = {6, 4}, .block = threads}, long_tile{out.data(), &count}, {}, device};
  std::mt19937 random(3);
  int yields = 0;
  for (int launch = 0; launch < 3; ++launch) {
    out.assign(out.size(), 0);
    job.launch();
    while (true) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
      job.yield();
      job.wait();
      if (job.finished()) break;
      CHECK(job.cursor() < tiles);
      ++yields;
      job.launch();
    }
    check(out);
  }
  CHECK(yields > 10);
  CHECK(count.left > 10);
  // Re-entered is not begun anew.
  CHECK(count.entered_anew == 3 * static_cast<int>(tiles));
}

TEST_CASE("a launch that is never told to leave leaves nothing half done") {
  const cede::adapter_device device{cede::host_device{.sms = 2}};
  for (const cede::form how : {cede::form::persistent, cede::form::gated}) {
    std::vector<std::uint64_t> out(8 * threads);
    counters count;
    cede::preemptible job{cede::shape{.grid = 8, .block = threads},
                          long_tile{out.data(), &count},
                          {.form = how},
                          device};
    job.launch();
    job.wait();
    CHECK(job.finished());
    check(out);
    CHECK(count.left == 0);
  }
}

TEST_CASE("a gated launch runs its tiles to their ends") {
  const cede::adapter_device device{cede::host_device{.sms = 2}};
  std::vector<std::uint64_t> out(40 * threads);
  counters count;
  cede::preemptible job{cede::shape{.grid = 40, .block = threads},
                        long_tile{out.data(), &count},
                        {.form = cede::form::gated},
                        device};
  job.launch();
  while (true) {
    std::this_thread::sleep_for(100us);
    job.yield();
    job.wait();
    if (job.finished()) break;
    job.launch();
  }
  check(out);
  CHECK(count.left == 0);
}

TEST_CASE("the rest of a batch is given back, and every tile runs once") {
  const cede::adapter_device device{cede::host_device{.sms = 3}};
  constexpr int tiles = 500;
  std::vector<std::atomic<int>> hits(tiles);
  cede::preemptible job{
      cede::shape{.grid = tiles}, once{hits.data()}, {.tiles_per_claim = 16}, device};
  std::mt19937 random(4);
  for (int launch = 1; launch <= 2; ++launch) {
    job.launch();
    int yields = 0;
    while (true) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      job.yield();
      job.wait();
      if (job.finished()) break;
      std::uint64_t ran = 0;
      for (const auto& h : hits) ran += h == launch ? 1 : 0;
      CHECK(job.cursor() == ran);
      ++yields;
      job.launch();
    }
    CHECK(yields > 3);
    for (const auto& h : hits) REQUIRE(h == launch);
  }
}

TEST_CASE("seek drops what was given back") {
  const cede::adapter_device device{cede::host_device{.sms = 2}};
  constexpr int tiles = 400;
  std::vector<std::atomic<int>> hits(tiles);
  cede::preemptible job{
      cede::shape{.grid = tiles}, once{hits.data()}, {.tiles_per_claim = 16}, device};
  job.launch();
  std::this_thread::sleep_for(500us);
  job.yield();
  job.wait();
  REQUIRE_FALSE(job.finished());
  for (auto& h : hits) h = 0;
  job.seek(300);
  job.launch();
  job.wait();
  CHECK(job.finished());
  for (int i = 0; i < tiles; ++i) REQUIRE(hits[static_cast<std::size_t>(i)] == (i < 300 ? 0 : 1));
}

TEST_CASE("through a scheduler, long tiles make way for requests and lose nothing") {
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  auto serve = cpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = cpu.workload({.name = "train", .priority = cede::best_effort});
  auto s = serve.stream();
  auto t = train.stream();
  constexpr unsigned tiles = 40;
  constexpr unsigned launches = 6;
  std::vector<std::vector<std::uint64_t>> out(launches);
  std::vector<std::atomic<int>> hits(300);
  std::vector<std::atomic<int>> answers(2);
  counters count;
  for (auto& o : out) {
    o.resize(std::size_t{tiles} * threads);
    t.launch({.grid = tiles, .block = threads}, long_tile{o.data(), &count});
    t.launch({.grid = 300}, {.tiles_per_claim = 8}, once{hits.data()});
  }
  for (int i = 0; i < 60; ++i) {
    s.launch({.grid = 2}, once{answers.data()});
    s.synchronize();
    std::this_thread::sleep_for(200us);
  }
  t.synchronize();
  for (const auto& o : out) check(o);
  for (const auto& h : hits) REQUIRE(h == static_cast<int>(launches));
  CHECK(answers[0] == 60);
  CHECK(count.left > 0);
}

namespace {

struct keeps_too_much {
  struct state {
    int small;
  };
  static constexpr bool independent = true;
  std::atomic<bool>* runs;
  void operator()(cede::block b) const {
    struct larger {
      long long a[4];
    };
    runs->store(true);
    while (!b.should_yield()) std::this_thread::sleep_for(10us);
    b.state<larger>().a[0] = 1;
  }
};
struct asks_too_early {
  struct state {
    int small;
  };
  static constexpr bool independent = true;
  void operator()(cede::block b) const { b.state<state>().small = 1; }
};

}  // namespace

TEST_CASE("state that is not there, or larger than declared, is refused in words") {
  {
    const cede::adapter_device device{cede::host_device{.sms = 1}};
    cede::preemptible job{cede::shape{.grid = 1}, asks_too_early{}, {}, device};
    job.launch();
    CHECK_THROWS_WITH_AS(job.wait(), doctest::Contains("only where resumed() is true"),
                         cede::device_error);
  }
  const cede::adapter_device device{cede::host_device{.sms = 1}};
  std::atomic<bool> runs{false};
  cede::preemptible job{cede::shape{.grid = 1}, keeps_too_much{&runs}, {}, device};
  job.launch();
  // Told to leave before it runs, it would never come to ask for its state.
  while (!runs) std::this_thread::sleep_for(10us);
  job.yield();
  CHECK_THROWS_WITH_AS(job.wait(), doctest::Contains("the body declares 4"), cede::device_error);
}
