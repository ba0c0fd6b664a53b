// SPDX-License-Identifier: Apache-2.0
// Launches on the host device: every tile once, streams in order, priorities between blocks.
#include <cede/detail/host_machine.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "host_fixture.hpp"

namespace {

using namespace cede_test;
using namespace std::chrono_literals;

/// Counts the runs of every tile, at the place its index says.
struct count_tiles {
  int* runs;
  int* wrong;
  void operator()(block b) const {
    const index3 i = b.index();
    const index3 g = b.grid();
    if (b.thread_rank() != 0) return;
    if (i.x >= g.x || i.y >= g.y || i.z >= g.z) b.atomic_add(wrong, 1);
    b.atomic_add(&runs[i.x + g.x * (i.y + g.y * i.z)], 1);
  }
};

}  // namespace

TEST_CASE("the device says what it is") {
  const auto d = detail::make_host_device({.sms = 3, .shared_bytes = 1000});
  CHECK(d->facts().sms == 3);
  CHECK(d->facts().limits.shared == 1000);
  CHECK(d->facts().limits.threads == 1024);
  CHECK_FALSE(d->facts().cuda);
  CHECK(d->facts().watchers == 0);
  CHECK(d->facts().name.find("host device") != std::string::npos);
  CHECK(detail::make_host_device({})->facts().sms >= 1);
}

TEST_CASE("options out of range are refused in words") {
  CHECK_THROWS_WITH_AS((void)detail::make_host_device({.sms = 5000}),
                       doctest::Contains("host_device.sms is 5000"), cede::invalid_argument);
  CHECK_THROWS_AS((void)detail::make_host_device({.sms = 1, .shared_bytes = ~std::size_t{0}}),
                  cede::invalid_argument);
  CHECK_THROWS_WITH_AS((void)detail::make_host_device({.sms = 1, .stack_bytes = 100}),
                       doctest::Contains("must lie in [16384"), cede::invalid_argument);
}

TEST_CASE("every tile of a grid of one to three axes runs once") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  for (const cede::extent& grid :
       {cede::extent{1}, cede::extent{1000}, cede::extent{7, 11}, cede::extent{3, 5, 9},
        cede::extent{1, 1, 64}, cede::extent{1, 100, 1}}) {
    std::vector<int> runs(grid.count());
    int wrong = 0;
    d->submit(s, native(count_tiles{runs.data(), &wrong}, {.grid = grid, .block = {4, 2, 1}}));
    d->synchronize(s);
    CHECK(wrong == 0);
    for (int r : runs) REQUIRE(r == 1);
  }
}

TEST_CASE("slices run their tiles and no others") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  std::vector<int> runs(100);
  int wrong = 0;
  const count_tiles body{runs.data(), &wrong};
  auto slice = native(body, {.grid = {10, 10}});
  slice.how = form::sliced;
  slice.first = 13;
  slice.count = 50;
  d->submit(s, slice);
  d->synchronize(s);
  for (std::size_t i = 0; i < 100; ++i) CHECK(runs[i] == (i >= 13 && i < 63 ? 1 : 0));
}

TEST_CASE("the last tiles of the largest grid are found, in every form") {
  const auto d = make();
  const shape largest{.grid = {2147483647, 65535, 65535}};
  const std::uint64_t tiles = largest.tiles();
  for (const form how : {form::sliced, form::gated, form::persistent}) {
    preemptible_stream p(*d);
    std::array<index3, 4> seen{};
    int n = 0;
    const note_index body{seen.data(), &n};
    auto s = p.make(body, largest, how, 1, tiles - 4);
    p.words.slot->cursor = tiles - 4;
    s.first = tiles - 4;
    d->submit(p.raw, s);
    d->synchronize(p.raw);
    REQUIRE(n == 4);
    for (std::uint32_t x = 2147483643; x < 2147483647; ++x) {
      CHECK(std::count(seen.begin(), seen.end(), index3{x, 65534, 65534}) == 1);
    }
    if (how != form::sliced) {
      CHECK(p.outcome_of(s).cursor == tiles);
      CHECK(p.finished() == 1);
    }
  }
}

TEST_CASE("the kernels of a stream run one after another") {
  struct step {
    std::uint32_t* v;
    void operator()(block b) const {
      auto& x = v[b.index().x];
      x = x * 3 + 1;
    }
  };
  const auto d = make(3);
  const auto s = d->make_stream(stream_class::lane);
  std::vector<std::uint32_t> v(50);
  for (int i = 0; i < 100; ++i) d->submit(s, native(step{v.data()}, {.grid = 50}));
  d->synchronize(s);
  std::uint32_t expected = 0;
  for (int i = 0; i < 100; ++i) expected = expected * 3 + 1;
  for (auto x : v) CHECK(x == expected);
}

TEST_CASE("kernels of two streams run side by side") {
  struct meet {
    std::atomic<int>* here;
    std::atomic<int>* there;
    void operator()(block) const {
      here->store(1);
      while (there->load() == 0) std::this_thread::yield();
    }
  };
  const auto d = make(2);
  std::atomic<int> a{0};
  std::atomic<int> b{0};
  const auto s = d->make_stream(stream_class::lane);
  const auto t = d->make_stream(stream_class::lane);
  d->submit(s, native(meet{&a, &b}, {}));
  d->submit(t, native(meet{&b, &a}, {}));
  d->synchronize(s);
  d->synchronize(t);
  CHECK(a + b == 2);
}

TEST_CASE("a body is copied before submit returns, and aligned as its type asks") {
  struct alignas(128) wide {
    int value;
    int* out;
    void operator()(block) const {
      *out = reinterpret_cast<std::uintptr_t>(this) % 128 == 0 ? value : -1;
    }
  };
  const auto d = make(1);
  const auto s = d->make_stream(stream_class::lane);
  int out = 0;
  {
    occupied busy(*d);
    wide body{41, &out};
    d->submit(s, native(body, {}));
    body.value = 0;
  }
  d->synchronize(s);
  CHECK(out == 41);
}

TEST_CASE("a free SM takes the highest priority, but a block that runs is not disturbed") {
  const auto d = make(1);
  std::atomic<int> length{0};
  std::array<int, 16> list{};
  std::array<cudaStream_t, 3> streams{};
  {
    occupied busy(*d);
    int mark = 0;
    for (auto c : {stream_class::lane, stream_class::cover, stream_class::latency_critical}) {
      const auto s = streams[static_cast<std::size_t>(mark)] = d->make_stream(c);
      d->submit(s, native(append{&length, list.data(), mark++}, {.grid = 2}));
    }
    CHECK(length == 0);
  }
  for (auto s : streams) d->synchronize(s);
  CHECK(std::vector<int>(list.begin(), list.begin() + 6) == std::vector<int>{2, 2, 1, 1, 0, 0});
}

TEST_CASE("a latency-critical kernel overtakes the blocks a lane has not started") {
  // Block 3 of the lane's kernel lets the host submit; the rest of its blocks come afterwards.
  struct noting {
    append note;
    std::atomic<int>* reached;
    std::atomic<bool>* go;
    void operator()(block b) const {
      note(b);
      reached->store(static_cast<int>(b.index().x));
      while (b.index().x == 3 && !go->load()) std::this_thread::yield();
    }
  };
  const auto d = make(1);
  const auto low = d->make_stream(stream_class::lane);
  const auto high = d->make_stream(stream_class::latency_critical);
  std::atomic<int> length{0};
  std::atomic<int> reached{-1};
  std::atomic<bool> go{false};
  std::array<int, 32> list{};
  d->submit(low, native(noting{{&length, list.data(), 0}, &reached, &go}, {.grid = 10}));
  REQUIRE(within(20s, [&] { return reached == 3; }));
  d->submit(high, native(append{&length, list.data(), 1}, {.grid = 2}));
  go = true;
  d->synchronize(low);
  d->synchronize(high);
  CHECK(std::vector<int>(list.begin(), list.begin() + 12) ==
        std::vector<int>{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("work of many streams and threads comes out exact") {
  struct add {
    std::uint64_t* v;
    std::uint64_t by;
    void operator()(block b) const { v[b.index().x] += by * (b.index().x + 1); }
  };
  const auto d = make(3);
  constexpr unsigned threads = 4;
  std::array<std::vector<std::uint64_t>, threads> results;
  std::vector<std::thread> hosts;
  for (unsigned t = 0; t < threads; ++t) {
    hosts.emplace_back([&, t] {
      const auto s =
          d->make_stream(t % 2 == 0 ? stream_class::lane : stream_class::latency_critical);
      const auto e = d->make_event();
      auto& v = results[t];
      v.resize(16);
      std::vector<std::uint64_t> kept(16);
      for (std::uint64_t i = 1; i <= 60; ++i) {
        d->submit(s, native(add{v.data(), i}, {.grid = 16}));
        d->copy(s, kept.data(), v.data(), sizeof(std::uint64_t) * 16);
        d->record_event(s, e);
        if (i % 10 == 0) {
          d->synchronize(s);
          if (!d->event_done(e) || kept != v) v[0] = 0;
        }
      }
      d->destroy_event(e);
      d->destroy_stream(s);
    });
  }
  for (auto& h : hosts) h.join();
  for (const auto& v : results) {
    for (std::uint64_t i = 0; i < 16; ++i) CHECK(v[i] == (i + 1) * 60 * 61 / 2);
  }
}
