// SPDX-License-Identifier: Apache-2.0
// Preemptible launches on the host device: gated blocks and persistent workers under raises.
#include <cede/detail/host_machine.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "host_fixture.hpp"

namespace {

using namespace cede_test;
using namespace std::chrono_literals;

/// One step of a computation that shows a tile run twice, left out, or run in the wrong order.
struct step {
  std::uint32_t* v;
  std::uint32_t add;
  unsigned spins;
  void operator()(block b) const {
    const std::uint64_t i =
        b.index().x + b.grid().x * (b.index().y + std::uint64_t{b.grid().y} * b.index().z);
    auto& s = b.shared<std::uint32_t>();
    if (b.thread_rank() == 0) s = v[i];
    b.sync();
    const std::uint32_t old = s;
    if (b.thread_rank() == b.size() - 1) return;
    b.sync();
    if (b.thread_rank() != 0) return;
    for (unsigned k = 0; k < spins; ++k) std::atomic_signal_fence(std::memory_order_seq_cst);
    v[i] = old * 5 + add;
  }
};

std::uint32_t expected(unsigned steps) {
  std::uint32_t v = 0;
  for (unsigned i = 1; i <= steps; ++i) v = v * 5 + i;
  return v;
}

/// A scan in which every tile waits for the sum of the tile before it.
struct look_back {
  static constexpr bool looks_back = true;
  const std::uint64_t* in;
  std::uint64_t* out;
  std::atomic<int>* ready;
  void operator()(block b) const {
    const std::uint32_t i = b.index().x;
    auto& before = b.shared<std::uint64_t>();
    if (b.thread_rank() == 0) {
      before = 0;
      if (i != 0) {
        while (ready[i - 1].load(std::memory_order_acquire) == 0) std::this_thread::yield();
        before = out[i - 1];
      }
    }
    b.sync();
    if (b.thread_rank() == b.size() - 1) {
      out[i] = before + in[i];
      ready[i].store(1, std::memory_order_release);
    }
  }
};

struct mark {
  int* runs;
  void operator()(block b) const { ++runs[b.index().x]; }
};

/// Waits in its first tile, so that the host can do something while it runs.
struct pausing {
  int* runs;
  std::atomic<int>* started;
  std::atomic<bool>* go;
  void operator()(block b) const {
    ++runs[b.index().x];
    started->fetch_add(1);
    while (!go->load()) std::this_thread::yield();
  }
};

bool all_are(const std::vector<int>& runs, int n) {
  for (int r : runs) {
    if (r != n) return false;
  }
  return true;
}

void steps_under_raises(detail::device& d, preemptible_stream& p, form how, std::uint64_t chunk,
                        unsigned spins) {
  const shape geometry{.grid = {19, 5, 3}, .block = 3};
  std::vector<std::uint32_t> v(geometry.tiles());
  unsigned launches = 0;
  unsigned submissions = 0;
  {
    const raiser raises(p, 300, d.facts().sms);
    // At least 20 launches, and on until one has been preempted.
    while (launches < 20 || (submissions == launches && launches < 5000)) {
      const unsigned n = p.complete(step{v.data(), ++launches, spins}, geometry, how, chunk);
      REQUIRE(n != 0);
      submissions += n;
    }
  }
  CHECK(submissions > launches);
  CHECK(p.finished() == launches);
  for (auto x : v) REQUIRE(x == expected(launches));
}

}  // namespace

TEST_CASE("persistent workers under random raises run every tile once, launch after launch") {
  for (const unsigned sms : {1U, 3U}) {
    for (const std::uint32_t batch : {1U, 4U}) {
      const auto d = make(sms);
      preemptible_stream p(*d, batch);
      steps_under_raises(*d, p, form::persistent, 0, 2000);
    }
  }
}

TEST_CASE("gated blocks under random raises run every tile once, launch after launch") {
  for (const unsigned sms : {1U, 3U}) {
    for (const std::uint64_t chunk : {0U, 50U}) {
      const auto d = make(sms);
      preemptible_stream p(*d);
      steps_under_raises(*d, p, form::gated, chunk, 2000);
    }
  }
}

TEST_CASE("tiles that wait for earlier tiles end in every form, with any number of SMs") {
  for (const unsigned sms : {1U, 2U, 4U}) {
    const auto d = make(sms);
    preemptible_stream p(*d, 3);
    preemptible_stream q(*d);
    constexpr std::uint32_t n = 150;
    std::vector<std::uint64_t> in(n);
    std::iota(in.begin(), in.end(), std::uint64_t{1});
    for (int way = 0; way < 4; ++way) {
      std::vector<std::uint64_t> out(n);
      std::vector<std::atomic<int>> ready(n);
      const look_back body{in.data(), out.data(), ready.data()};
      const shape geometry{.grid = n, .block = 4};
      if (way == 0) {
        d->submit(p.raw, native(body, geometry));
        d->synchronize(p.raw);
      } else if (way == 1) {
        CHECK(p.complete(body, geometry, form::persistent) == 1);
      } else {
        const raiser raises(way == 2 ? p : q, 200, sms);
        CHECK((way == 2 ? p.complete(body, geometry, form::persistent)
                        : q.complete(body, geometry, form::gated, 20)) >= 1);
      }
      for (std::uint64_t i = 0; i < n; ++i) REQUIRE(out[i] == (i + 1) * (i + 2) / 2);
    }
  }
}

TEST_CASE("launches queued behind one that yielded fall through, and run when resubmitted") {
  for (const form how : {form::gated, form::persistent}) {
    const auto d = make(1);
    preemptible_stream p(*d);
    const shape ten{.grid = 10};
    std::vector<int> first(10), second(10), third(10);
    std::atomic<int> started{0};
    std::atomic<bool> go{false};
    const pausing body{first.data(), &started, &go};
    const mark body2{second.data()};
    const mark body3{third.data()};

    const auto a = p.make(body, ten, how, 1);
    d->submit(p.raw, a);
    while (started == 0) std::this_thread::yield();
    p.raise();
    // Sampled after the raise: the gate does not hold it back, the chain does.
    const auto b = p.make(body2, ten, how, 2);
    d->submit(p.raw, b);
    const auto c = p.make(body3, ten, how, 3);
    d->submit(p.raw, c);
    go = true;
    d->synchronize(p.raw);

    const auto o = p.outcome_of(a);
    REQUIRE(o.published);
    CHECK(o.reason == protocol::stop_reason::gate);
    CHECK(o.cursor == 1);
    CHECK_FALSE(p.outcome_of(b).published);
    CHECK_FALSE(p.outcome_of(c).published);
    CHECK(all_are(second, 0));
    CHECK(p.finished() == 0);

    d->submit(p.raw, p.make(body, ten, how, 1, o.cursor));
    d->submit(p.raw, p.make(body2, ten, how, 2));
    d->submit(p.raw, p.make(body3, ten, how, 3));
    d->synchronize(p.raw);
    CHECK(all_are(first, 1));
    CHECK(all_are(second, 1));
    CHECK(all_are(third, 1));
    CHECK(p.finished() == 3);
  }
}

TEST_CASE("a stale submission of a launch that has finished leaves without a trace") {
  for (const form how : {form::gated, form::persistent}) {
    const auto d = make(2);
    preemptible_stream p(*d);
    std::vector<int> runs(20);
    const mark body{runs.data()};
    const auto s = p.make(body, {.grid = 20}, how, 1);
    auto stale = p.make(body, {.grid = 20}, how, 1);
    d->submit(p.raw, s);
    d->submit(p.raw, stale);
    d->synchronize(p.raw);
    CHECK(all_are(runs, 1));
    CHECK(p.outcome_of(s).published);
    CHECK_FALSE(p.outcome_of(stale).published);
    CHECK(p.words.slot->cursor == 0);
    CHECK(p.words.slot->left == 0);
    CHECK(p.finished() == 1);
  }
}

TEST_CASE("a submission whose epoch is over when it starts runs nothing and says so") {
  for (const form how : {form::gated, form::persistent}) {
    const auto d = make(2);
    preemptible_stream p(*d);
    std::vector<int> runs(20);
    const mark body{runs.data()};
    const auto s = p.make(body, {.grid = 20}, how, 1);
    p.raise();
    d->submit(p.raw, s);
    d->synchronize(p.raw);
    const auto o = p.outcome_of(s);
    CHECK(o.published);
    CHECK(o.cursor == 0);
    CHECK(o.reason == protocol::stop_reason::gate);
    CHECK(all_are(runs, 0));
    // Raises that came before a submission was made mean nothing to it.
    CHECK(p.complete(body, {.grid = 20}, how) == 1);
    CHECK(all_are(runs, 1));
  }
}

TEST_CASE("two launches in flight under random raises are carried out in order") {
  const auto d = make(3);
  preemptible_stream p(*d, 2);
  // Two slots, as each launch in flight has one.
  std::array<detail::slot_words*, 2> slots{p.words.slot, words_of<detail::slot_words>(*d)};
  std::array<detail::publication_words*, 2> published{p.words.published,
                                                      words_of<detail::publication_words>(*d)};
  const shape geometry{.grid = 60, .block = 2};
  std::vector<std::uint32_t> v(60);
  constexpr std::uint64_t launches = 60;
  std::uint64_t submissions = 0;
  {
    const raiser raises(p, 250, 5);
    std::array<std::uint64_t, launches + 2> cursor{};
    while (p.finished() < launches) {
      std::array<detail::submission, 2> pair{};
      std::array<step, 2> bodies{};
      const std::uint64_t next = p.finished() + 1;
      for (std::uint64_t i = 0; i < 2 && next + i <= launches; ++i) {
        const std::uint64_t ordinal = next + i;
        bodies[i] = {v.data(), static_cast<std::uint32_t>(ordinal), 3000};
        const form how = ordinal % 2 == 0 ? form::gated : form::persistent;
        pair[i] = p.make(bodies[i], geometry, how, ordinal, cursor[ordinal]);
        pair[i].words.slot = slots[ordinal % 2];
        pair[i].words.published = published[ordinal % 2];
        d->submit(p.raw, pair[i]);
        ++submissions;
      }
      if (next % 3 == 0) p.raise();
      d->synchronize(p.raw);
      for (const auto& s : pair) {
        if (s.kernel == nullptr) continue;
        const auto o = protocol::read<detail::atomics>(*s.words.published, s.terms.id);
        if (o.published) cursor[s.terms.ordinal] = o.cursor;
      }
    }
  }
  CHECK(submissions > launches);
  for (auto x : v) REQUIRE(x == expected(launches));
}

TEST_CASE("a persistent worker keeps its SM until it is told to leave") {
  struct slow {
    std::atomic<int>* runs;
    void operator()(block) const {
      runs->fetch_add(1);
      std::this_thread::sleep_for(200us);
    }
  };
  const auto d = make(1);
  preemptible_stream p(*d);
  std::atomic<int> runs{0};
  std::atomic<int> length{0};
  std::array<int, 1> list{};
  const slow body{&runs};
  const auto s = p.make(body, {.grid = 100000}, form::persistent, 1);
  d->submit(p.raw, s);
  while (runs < 2) std::this_thread::yield();
  const auto urgent = d->make_stream(stream_class::latency_critical);
  d->submit(urgent, native(append{&length, list.data(), 1}, {}));
  const int before = runs;
  std::this_thread::sleep_for(20ms);
  CHECK(length == 0);
  CHECK(runs > before);
  p.raise();
  d->synchronize(urgent);
  CHECK(length == 1);
  d->synchronize(p.raw);
  const auto o = p.outcome_of(s);
  CHECK(o.reason == protocol::stop_reason::gate);
  CHECK(o.cursor == static_cast<std::uint64_t>(runs.load()));
}

TEST_CASE("a raise lets a batch of claimed tiles end") {
  const auto d = make(1);
  preemptible_stream p(*d, 8);
  std::vector<int> runs(100);
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  const pausing body{runs.data(), &started, &go};
  const auto s = p.make(body, {.grid = 100}, form::persistent, 1);
  d->submit(p.raw, s);
  while (started == 0) std::this_thread::yield();
  p.raise();
  go = true;
  d->synchronize(p.raw);
  CHECK(p.outcome_of(s).cursor == 8);
  CHECK(std::accumulate(runs.begin(), runs.end(), 0) == 8);
}

TEST_CASE("more workers than SMs take turns, and the last one out closes") {
  const auto d = make(2);
  preemptible_stream p(*d);
  std::vector<int> runs(33);
  const mark body{runs.data()};
  const auto s = p.make(body, {.grid = 33}, form::persistent, 1, 0, 9);
  d->submit(p.raw, s);
  d->synchronize(p.raw);
  CHECK(all_are(runs, 1));
  CHECK(p.outcome_of(s).cursor == 33);
  CHECK(p.finished() == 1);
}

TEST_CASE("a chunk that does not close publishes nothing, one used up reports its cursor") {
  const auto d = make(2);
  preemptible_stream p(*d);
  std::vector<int> runs(10);
  const mark body{runs.data()};
  auto s = p.make(body, {.grid = 10}, form::gated, 1);
  s.count = 4;
  s.closes = false;
  d->submit(p.raw, s);
  d->synchronize(p.raw);
  CHECK_FALSE(p.outcome_of(s).published);
  CHECK(std::accumulate(runs.begin(), runs.end(), 0) == 4);
  s.count = 3;
  s.closes = true;
  d->submit(p.raw, s);
  d->synchronize(p.raw);
  CHECK(p.outcome_of(s).cursor == 7);
  CHECK(p.outcome_of(s).reason == protocol::stop_reason::chunk);
  s = p.make(body, {.grid = 10}, form::gated, 1, 7);
  d->submit(p.raw, s);
  d->synchronize(p.raw);
  CHECK(p.outcome_of(s).reason == protocol::stop_reason::none);
  CHECK(all_are(runs, 1));
}

TEST_CASE("the longest tile is measured and published") {
  struct one_slow {
    void operator()(block b) const {
      if (b.index().x == 3) std::this_thread::sleep_for(5ms);
    }
  };
  for (const form how : {form::gated, form::persistent}) {
    const auto d = make(2);
    preemptible_stream p(*d, 2);
    const one_slow body;
    const auto s = p.make(body, {.grid = 8}, how, 1);
    d->submit(p.raw, s);
    d->synchronize(p.raw);
    CHECK(p.outcome_of(s).longest >= 5'000'000);
    CHECK(p.outcome_of(s).longest < 5'000'000'000);
  }
}
