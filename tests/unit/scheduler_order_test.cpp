// SPDX-License-Identifier: Apache-2.0
// What is queued on a stream happens in that order, whatever kind it is of.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduler_fixture.hpp"

using namespace cede_test;

namespace {

/// The forms a launch can be asked for, with small chunks and several slices.
std::vector<cede::launch_options> all_forms() {
  return {{},
          {.form = cede::form::persistent, .tiles_per_claim = 3},
          {.form = cede::form::gated, .chunk = 5},
          {.form = cede::form::gated},
          {.form = cede::form::sliced, .slices = 7},
          {.slices = 3},
          {.form = cede::form::whole},
          {.whole = true}};
}

}  // namespace

TEST_CASE("launches, copies, fills and callables of a stream happen in order") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  for (auto options : {effort(), critical()}) {
    CAPTURE(options.name);
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    constexpr std::size_t tiles = 40;
    std::vector<int> values(tiles, -1), first(tiles), second(tiles);
    int wrong = 0;
    int seen_by_run = -1;
    std::atomic<int> seen_by_defer{-1};
    s.fill(values.data(), 0, tiles * sizeof(int));
    s.launch({.grid = tiles}, step_up{values.data(), 0, &wrong});
    s.copy(first.data(), values.data(), tiles * sizeof(int));
    // A gated stream admits a callable when all before it is done; a critical one has only queued
    // it.
    const bool gated = options.priority != cede::latency_critical;
    s.run([&](cudaStream_t) {
      if (gated) seen_by_run = values.back();
    });
    s.launch({.grid = tiles}, step_up{values.data(), 1, &wrong});
    s.defer([&](cudaStream_t) {
      if (gated) seen_by_defer = values.front();
    });
    s.launch({.grid = tiles}, step_up{values.data(), 2, &wrong});
    s.copy(second.data(), values.data(), tiles * sizeof(int));
    s.synchronize();
    CHECK(wrong == 0);
    CHECK(first == std::vector<int>(tiles, 1));
    CHECK(second == std::vector<int>(tiles, 3));
    if (gated) {
      CHECK(seen_by_run == 1);
      CHECK(seen_by_defer == 2);
    }
  }
}

TEST_CASE("launches of every form follow one another in order") {
  cede::scheduler cpu(cede::host_device{.sms = 3});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  constexpr std::size_t tiles = 50;
  std::vector<int> values(tiles);
  int wrong = 0;
  int step = 0;
  for (int round = 0; round < 10; ++round) {
    for (const auto& a : all_forms()) {
      t.launch({.grid = tiles}, a, step_up{values.data(), step++, &wrong});
    }
  }
  t.synchronize();
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(tiles, step));
}

TEST_CASE("every form is followed rightly by every other") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  std::vector<int> values(9);
  int wrong = 0;
  int step = 0;
  for (const auto& a : all_forms()) {
    for (const auto& b : all_forms()) {
      t.launch({.grid = 9}, a, step_up{values.data(), step++, &wrong});
      t.launch({.grid = 9}, b, step_up{values.data(), step++, &wrong});
    }
  }
  t.synchronize();
  CHECK(wrong == 0);
  CHECK(values.front() == step);
}

TEST_CASE("an event orders what follows on another stream, gated or critical, both ways") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::workload other = cpu.workload(effort("other"));
  constexpr std::size_t tiles = 16;
  std::vector<int> values(tiles);
  int wrong = 0;
  int step = 0;
  std::vector<cede::stream> streams{train.stream(), serve.stream(), other.stream(), serve.stream(),
                                    train.stream()};
  for (int round = 0; round < 60; ++round) {
    cede::event last;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      // Odd rounds go backwards, so that every pair meets in both directions.
      cede::stream& s = streams[round % 2 == 0 ? i : streams.size() - 1 - i];
      s.wait(last);
      s.launch({.grid = tiles}, step_up{values.data(), step++, &wrong});
      last = s.record();
    }
    for (auto& s : streams) s.wait(last);
  }
  for (auto& s : streams) s.synchronize();
  CHECK(wrong == 0);
  CHECK(values == std::vector<int>(tiles, step));
}

TEST_CASE("two launches are in flight and both give way: none is lost, none runs twice") {
  cede::scheduler cpu(cede::host_device{.sms = 2});
  cede::workload serve = cpu.workload(critical());
  cede::workload train = cpu.workload(effort());
  cede::stream s = serve.stream();
  cede::stream t = train.stream();
  constexpr std::size_t tiles = 64;
  for (auto form : {cede::form::persistent, cede::form::gated}) {
    std::vector<int> values(tiles);
    std::vector<int> answers(1);
    int wrong = 0;
    for (int round = 0; round < 20; ++round) {
      door first;
      // The first launch holds both SMs in one tile each, so that the second is queued behind it.
      t.launch({.grid = 20}, {.form = form}, first.tile());
      for (int i = 0; i < 3; ++i)
        t.launch({.grid = tiles}, {.form = form}, step_up{values.data(), 3 * round + i, &wrong});
      REQUIRE(first.reached(2));
      s.launch({.grid = 1}, count_runs{answers.data()});
      first.open();
      s.synchronize();
      t.synchronize();
    }
    CHECK(wrong == 0);
    CHECK(answers[0] == 20);
    CHECK(values == std::vector<int>(tiles, 60));
    CHECK(stats_of(cpu, "train").yields >= 20);
  }
}

TEST_CASE("what a run throws passes through and the stream goes on") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  for (auto options : {effort(), critical()}) {
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    std::vector<int> runs(8);
    s.launch({.grid = 8}, count_runs{runs.data()});
    CHECK_THROWS_WITH_AS(s.run([](cudaStream_t) { throw std::runtime_error("mine"); }), "mine",
                         std::runtime_error);
    s.launch({.grid = 8}, count_runs{runs.data()});
    s.synchronize();
    CHECK(runs == std::vector<int>(8, 2));
    CHECK(s.record().done());
  }
}

TEST_CASE("what a deferred callable throws is reported and the stream goes on") {
  captured_stderr err;
  cede::scheduler cpu(cede::host_device{.sms = 1});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  std::vector<int> runs(8);
  t.defer([](cudaStream_t) { throw std::runtime_error("from the deferred one"); });
  t.defer([](cudaStream_t) { throw 5; });
  t.launch({.grid = 8}, count_runs{runs.data()});
  REQUIRE(t.synchronize_for(patience));
  CHECK(runs == ones(8));
  CHECK(err.says("from the deferred one"));
  CHECK(err.says("train/0"));
}

TEST_CASE("a deferred callable owns what it holds and lets it go") {
  cede::scheduler cpu(cede::host_device{.sms = 1});
  for (auto options : {effort(), critical()}) {
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    auto owned = std::make_shared<int>(7);
    std::weak_ptr<int> watch = owned;
    int seen = 0;
    s.defer([held = std::move(owned), &seen](cudaStream_t) { seen = *held; });
    s.synchronize();
    CHECK(seen == 7);
    CHECK(eventually([&] { return watch.expired(); }));
  }
}

TEST_CASE("a run that puts work on the raw stream: what follows waits for that work") {
  auto device = cede::detail::make_host_device({.sms = 2});
  cede::scheduler cpu(device);
  for (auto options : {effort(), critical()}) {
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    std::vector<char> a(1 << 20, 1), b(1 << 20), c(1 << 20);
    for (int round = 0; round < 5; ++round) {
      std::fill(b.begin(), b.end(), 0);
      std::fill(c.begin(), c.end(), 0);
      s.run([&](cudaStream_t raw) { device->copy(raw, b.data(), a.data(), a.size()); });
      s.copy(c.data(), b.data(), b.size());
      s.synchronize();
      CHECK(c == a);
    }
  }
}

TEST_CASE("a body takes arguments, converted to its own types") {
  struct scale {
    CEDE_BODY void operator()(cede::block b, double* out, float factor, int n) const {
      if (static_cast<int>(b.index().x) < n)
        out[b.index().x] = static_cast<double>(b.index().x) * static_cast<double>(factor);
    }
  };
  cede::scheduler cpu(cede::host_device{.sms = 1});
  for (auto options : {effort(), critical()}) {
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    std::vector<double> out(4, -1);
    s.launch({.grid = 4}, scale{}, out.data(), 2, 3U);
    s.launch({.grid = 4}, {.whole = true}, scale{}, out.data(), 2, 3U);
    s.synchronize();
    CHECK(out == std::vector<double>{0, 2, 4, -1});
  }
}

TEST_CASE("large bodies travel whole") {
  struct large {
    int* sum;
    int payload[900];
    CEDE_BODY void operator()(cede::block b) const { b.atomic_add(sum, payload[b.index().x]); }
  };
  static_assert(sizeof(large) <= cede::max_body_bytes && sizeof(large) > 3000);
  cede::scheduler cpu(cede::host_device{.sms = 2});
  for (auto options : {effort(), critical()}) {
    cede::workload work = cpu.workload(options);
    cede::stream s = work.stream();
    int sum = 0;
    large body{&sum, {}};
    std::iota(std::begin(body.payload), std::end(body.payload), 1);
    s.launch({.grid = 900}, body);
    s.synchronize();
    CHECK(sum == 900 * 901 / 2);
  }
}
