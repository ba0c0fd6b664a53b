// SPDX-License-Identifier: Apache-2.0
// The protocol through all interleavings of small cases and many random ones of larger cases.
// What must hold stands in support/interleave/launches*.hpp, at the places where it is checked.
#include <doctest/doctest.h>

#include <cstdint>

#include "support/interleave.hpp"
#include "support/interleave/launches.hpp"
#include "support/sanitized.hpp"

namespace {

using namespace interleave;

constexpr unsigned most_threads = 12;
/// Every load sees the last store.
using plain = sequential_memory<48>;
/// Loads see what their orders allow. One stream; two streams.
using weak = weak_memory<24>;
using weak_two = weak_memory<48>;
/// One stream whose launches can give tiles back.
using weak_records = weak_memory<48>;

template <class Memory>
result explore(const plan& p) {
  launches world{p};
  REQUIRE(world.words() <= Memory::words);
  machine<launches, Memory, most_threads, launches::parked> m{world};
  return explore_all(m, world.initial(m), [&](const auto& s) { world.at_end(s); });
}

template <class Memory>
void check(const plan& p, std::uint64_t runs, std::uint64_t seed, std::uint64_t resumes) {
  launches world{p};
  REQUIRE(world.words() <= Memory::words);
  machine<launches, Memory, most_threads, launches::parked> m{world};
  std::uint64_t resumed = 0;
  const auto at_end = [&](const auto& s) {
    world.at_end(s);
    resumed += world.resubmitted(s);
  };
  const auto initial = world.initial(m);
  const result r = runs == 0 ? explore_all(m, initial, at_end)
                             : explore_at_random(m, initial, at_end, runs, seed);
  CAPTURE(r.states);
  CHECK_MESSAGE(r.holds, r.what);
  CHECK(r.ends > 0);
  // Worth nothing if launches are hardly ever stopped.
  CHECK(resumed >= resumes);
}

/// Every interleaving keeps every property. (The model is one thread: under a sanitizer a few runs
/// do.)
template <class Memory>
void holds(const plan& p) {
  check<Memory>(p, cede_test::sanitized ? 200 : 0, 1, 1);
}
template <class Memory>
void holds_at_random(const plan& p, std::uint64_t runs, std::uint64_t seed) {
  const std::uint64_t some = cede_test::sanitized ? runs / 50 : runs;
  check<Memory>(p, some, seed, some / 2);
}

/// A mistake in the use of the protocol is found, as the property it breaks.
void is_found(const plan& p, const char* property) {
  const result r = explore<plain>(p);
  CHECK_FALSE(r.holds);
  CHECK_MESSAGE(r.what.find(property) == 0, r.what);
}

constexpr std::uint8_t one_and_two[] = {1, 2}, one_and_eight[] = {1, 8};
constexpr const char* never_ends = "from here on the threads can never all end";
constexpr const char* unnoticed = "submitted unnoticed beside latency-critical work";

}  // namespace

TEST_SUITE("protocol, all interleavings") {
  TEST_CASE("one launch, three workers") {
    holds<plain>({.launches = 1, .tiles = 4, .workers = 3, .timed = true});
  }
  TEST_CASE("two launches in flight") { holds<plain>({.tiles = 3}); }
  TEST_CASE("two launches in flight, raised twice") { holds<plain>({.tiles = 3, .requests = 2}); }
  TEST_CASE("three launches, two in flight, raised twice") {
    holds<plain>({.launches = 3, .requests = 2});
  }
  TEST_CASE("two latency-critical threads") { holds<plain>({.sources = 2}); }
  TEST_CASE("one launch in flight") { holds<plain>({.tiles = 3, .depth = 1, .requests = 2}); }
  TEST_CASE("two tiles a claim, last claim incomplete") {
    holds<plain>({.tiles = 5, .batch = 2, .timed = true});
  }
  TEST_CASE("six tiles") { holds<plain>({.tiles = 6, .timed = true}); }
  TEST_CASE("a watcher moves the gate to the device's copy") {
    holds<plain>({.tiles = 3, .watcher = true});
  }
  TEST_CASE("a watcher, raised twice") { holds<plain>({.watcher = true, .requests = 2}); }
  TEST_CASE("a watcher, two tiles a claim") {
    holds<plain>({.tiles = 5, .batch = 2, .watcher = true});
  }
  TEST_CASE("workers that look at the gate once, then trust the watcher") {
    holds<plain>({.tiles = 3, .watcher = true, .checks_once = true, .requests = 2});
  }
  TEST_CASE("the epoch wraps around") {
    holds<plain>({.requests = 2, .first_epoch = 0xfffffffeu});
    holds<plain>({.watcher = true, .first_epoch = 0xffffffffu});
    holds<plain>({.requests = 2, .first_epoch = 0x7ffffffeu});
  }
  TEST_CASE("claims that shrink towards the end") {
    holds<plain>({.tiles = 6, .batch = 4, .guide = 1, .timed = true});
    holds<plain>({.launches = 1, .tiles = 6, .workers = 3, .batch = 3, .guide = 2});
  }
  TEST_CASE("what is left of a claim is given back") {
    holds<plain>({.launches = 1, .tiles = 5, .batch = 3, .requests = 2, .gives_back = true});
    holds<plain>({.tiles = 3, .batch = 2, .requests = 2, .gives_back = true});
    holds<plain>({.tiles = 4, .batch = 2, .watcher = true, .gives_back = true});
  }
  TEST_CASE("tiles left half done") {
    holds<plain>({.tiles = 2, .requests = 2, .gives_back = true, .yields = true});
    holds<plain>({.launches = 1,
                  .tiles = 3,
                  .workers = 3,
                  .requests = 2,
                  .gives_back = true,
                  .yields = true});
    holds<plain>({.tiles = 3, .batch = 2, .watcher = true, .gives_back = true, .yields = true});
  }
  TEST_CASE("what was given back goes on with fewer workers") {
    holds<plain>({.launches = 1,
                  .tiles = 4,
                  .batch = 2,
                  .requests = 2,
                  .gives_back = true,
                  .yields = true,
                  .fewer = true});
    holds<plain>({.launches = 1,
                  .tiles = 3,
                  .workers = 3,
                  .watcher = true,
                  .gives_back = true,
                  .yields = true,
                  .fewer = true});
  }
  TEST_CASE("tiles that look back") {
    holds<plain>({.tiles = 4, .requests = 2, .look_back = true});
    holds<plain>({.tiles = 5, .batch = 2, .requests = 2, .look_back = true});
  }
  TEST_CASE("every submission queued twice: the second resumes or is stale") {
    holds<plain>({.twice = true});
    holds<plain>({.watcher = true, .requests = 2, .twice = true});
  }
  TEST_CASE("resumes in another lane, ordered by the host alone") {
    holds<plain>({.requests = 2, .two_lanes = true});
  }
  TEST_CASE("two streams behind one gate, two workers each") {
    holds<plain>({.streams = 2, .launches = 1});
  }
  TEST_CASE("two streams behind one gate, two launches in flight each") {
    holds<plain>({.streams = 2, .tiles = 1, .workers = 1});
  }
  TEST_CASE("gated blocks") {
    holds<plain>({.tiles = 4, .gated = true});
    holds<plain>({.tiles = 5, .batch = 2, .watcher = true, .gated = true});
  }
  TEST_CASE("gated blocks, several submissions of one launch in flight") {
    holds<plain>({.tiles = 4, .gated = true, .kernels = 1});
    holds<plain>({.tiles = 3, .watcher = true, .gated = true, .kernels = 1});
  }
}

TEST_SUITE("protocol, all interleavings, weak memory") {
  TEST_CASE("two workers, two latency-critical threads") {
    holds<weak>({.launches = 1, .depth = 1, .sources = 2});
  }
  TEST_CASE("two workers, two launches in flight") { holds<weak>({}); }
  TEST_CASE("three launches that use each other's data") {
    holds<weak>({.launches = 3, .tiles = 1, .workers = 1});
  }
  TEST_CASE("a watcher") { holds<weak>({.launches = 1, .depth = 1, .watcher = true}); }
  TEST_CASE("resumes in another lane, ordered by the host alone") {
    holds<weak>({.tiles = 1, .workers = 1, .requests = 2, .two_lanes = true});
  }
  TEST_CASE("gated blocks") { holds<weak>({.workers = 1, .gated = true}); }
  TEST_CASE("tiles given back and left half done") {
    holds<weak>({.launches = 1,
                 .tiles = 3,
                 .batch = 2,
                 .depth = 1,
                 .requests = 2,
                 .gives_back = true,
                 .yields = true,
                 .fewer = true});
  }
}

TEST_SUITE("protocol, random interleavings") {
  // Twelve cases, 120,000 runs.
  TEST_CASE("workers, every load sees the last store") {
    for (const auto streams : one_and_two) {
      for (const auto batch : one_and_two) {
        holds_at_random<plain>({.streams = streams,
                                .launches = 3,
                                .tiles = 6,
                                .workers = 3,
                                .batch = batch,
                                .sources = 2,
                                .requests = 3,
                                .timed = true},
                               10'000, batch);
      }
    }
  }
  TEST_CASE("workers, weak memory") {
    for (const auto streams : one_and_two) {
      for (const auto batch : one_and_two) {
        holds_at_random<weak_two>({.streams = streams,
                                   .launches = 3,
                                   .tiles = 6,
                                   .workers = 3,
                                   .batch = batch,
                                   .watcher = true,
                                   .sources = 2,
                                   .requests = 3,
                                   .timed = true,
                                   .first_epoch = 0xfffffffdu},
                                  10'000, batch);
      }
    }
  }
  TEST_CASE("tiles given back and left half done, weak memory") {
    for (const bool fewer : {false, true}) {
      holds_at_random<weak_records>({.launches = 3,
                                     .tiles = 6,
                                     .workers = 3,
                                     .batch = 3,
                                     .watcher = true,
                                     .sources = 2,
                                     .requests = 3,
                                     .gives_back = true,
                                     .yields = true,
                                     .fewer = fewer,
                                     .guide = 1,
                                     .timed = true},
                                    10'000, fewer ? 2 : 1);
    }
  }
  TEST_CASE("gated blocks, weak memory") {
    for (const auto kernels : one_and_eight) {
      holds_at_random<weak_two>({.streams = 2,
                                 .launches = 3,
                                 .tiles = 6,
                                 .batch = 2,
                                 .watcher = true,
                                 .gated = true,
                                 .kernels = kernels,
                                 .sources = 2,
                                 .requests = 3},
                                10'000, kernels);
    }
  }
  TEST_CASE("submissions queued twice; resumes in another lane; weak memory") {
    holds_at_random<weak_two>({.launches = 3,
                               .tiles = 6,
                               .workers = 3,
                               .sources = 2,
                               .requests = 3,
                               .look_back = true,
                               .twice = true},
                              10'000, 1);
    holds_at_random<weak_two>({.launches = 3,
                               .tiles = 6,
                               .workers = 3,
                               .sources = 2,
                               .requests = 3,
                               .look_back = true,
                               .two_lanes = true},
                              10'000, 1);
  }
}

TEST_SUITE("protocol, mistakes that must be found") {
  TEST_CASE("order inferred from the gate instead of the chain") {
    is_found({.wrong = mistake::no_chain}, "published out of order");
  }
  TEST_CASE("workers that do not look at the gate") {
    is_found({.tiles = 4, .wrong = mistake::no_notice},
             "a worker claims again after the gate was raised");
  }
  TEST_CASE("a worker that counts itself out before its last tile") {
    is_found({.wrong = mistake::leave_first}, "the chain moves before all tiles are done");
  }
  TEST_CASE("a watcher that is no participant") {
    is_found({.watcher = true, .wrong = mistake::uncounted_watcher},
             "participants of one submission see different chains");
  }
  TEST_CASE("the gate raised before the request is counted") {
    is_found({.wrong = mistake::raise_first}, unnoticed);
  }
  TEST_CASE("idle checked before the epoch is sampled") {
    is_found({.wrong = mistake::check_first}, unnoticed);
  }
  TEST_CASE("two submissions in flight that publish to the same words") {
    is_found({.wrong = mistake::shared_publication}, never_ends);
  }
  TEST_CASE("a resume in another lane while submissions wait in the old one") {
    is_found({.requests = 2, .two_lanes = true, .wrong = mistake::lanes_apart},
             "participants of one submission see different chains");
  }
  TEST_CASE("two submissions of one launch in flight with different epochs") {
    is_found({.tiles = 4,
              .watcher = true,
              .gated = true,
              .kernels = 1,
              .requests = 2,
              .wrong = mistake::fresh_epoch},
             never_ends);
  }
}
