// SPDX-License-Identifier: Apache-2.0
// Tiles on one thread: fibers, the barrier, and what happens when a body throws.
#include <cede/detail/host_fibers.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "host_tile_fixture.hpp"

namespace {

using namespace cede_test;
using cede::detail::fiber;
using cede::detail::fiber_stack;

std::uint32_t below(std::mt19937& random, std::uint32_t n) {
  return static_cast<std::uint32_t>(random() % n);
}

struct ping {
  fiber* here = nullptr;
  fiber* there = nullptr;
  std::vector<int> trace{};
};

void pong(void* argument) {
  auto& p = *static_cast<ping*>(argument);
  double kept = 1.5;
  for (int i = 0;; ++i) {
    p.trace.push_back(i);
    kept *= 2;
    CHECK(kept == 1.5 * static_cast<double>(std::uint64_t{2} << i));
    p.there->switch_to(*p.here, i == 3);
  }
}

}  // namespace

TEST_CASE("a fiber keeps its locals over switches, and so does the thread") {
  fiber_stack stack(stack_bytes);
  ping p;
  fiber here;
  fiber there(stack, &pong, &p);
  p.here = &here;
  p.there = &there;
  double mine = 0.5;
  for (int i = 0; i < 4; ++i) {
    p.trace.push_back(100 + i);
    here.switch_to(there);
    mine += i;
  }
  CHECK(mine == 6.5);
  CHECK(p.trace == std::vector<int>{100, 0, 101, 1, 102, 2, 103, 3});
}

TEST_CASE("a stack is whole pages, and the page below it is not part of it") {
  fiber_stack stack(5000);
  CHECK(stack.bytes() >= 8192);
  CHECK(stack.bytes() % 4096 == 0);
  std::memset(stack.bottom(), 1, stack.bytes());
  CHECK_THROWS_AS(fiber_stack(std::size_t{1} << 60), cede::out_of_memory);
}

TEST_CASE("every thread of a tile runs once, x fastest, and knows its place") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::vector<index3> seen;
  run_well(runner,
           [&](block b) {
             CHECK(b.index() == index3{2, 3, 4});
             CHECK(b.grid() == index3{5, 6, 7});
             CHECK(b.dim() == index3{4, 3, 2});
             CHECK(b.size() == 24);
             CHECK(b.thread_rank() == seen.size());
             seen.push_back(b.thread());
           },
           {4, 3, 2});
  REQUIRE(seen.size() == 24);
  std::size_t i = 0;
  for (std::uint32_t z = 0; z < 2; ++z) {
    for (std::uint32_t y = 0; y < 3; ++y) {
      for (std::uint32_t x = 0; x < 4; ++x) CHECK(seen[i++] == index3{x, y, z});
    }
  }
}

TEST_CASE("a tile without a barrier needs no stack but the caller's") {
  tile_runner runner(stack_bytes, shared_bytes);
  int ran = 0;
  run_well(runner, [&](block) { ++ran; }, {1024, 1, 1});
  CHECK(ran == 1024);
  CHECK(runner.stacks() == 0);
}

TEST_CASE("only threads that wait need a stack, and tiles share the stacks") {
  tile_runner runner(stack_bytes, shared_bytes);
  for (int tile = 0; tile < 20; ++tile) {
    run_well(runner,
             [&](block b) {
               if (b.thread_rank() % 4 == 0) b.sync();
             },
             {64, 1, 1});
  }
  CHECK(runner.stacks() <= 16);
  CHECK(runner.stacks() >= 15);
}

TEST_CASE("a tile reverses an array through shared memory") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::vector<int> data(256);
  std::iota(data.begin(), data.end(), 0);
  run_well(runner,
           [&](block b) {
             auto& s = b.shared<int[256]>();
             s[b.thread_rank()] = data[b.thread_rank()];
             b.sync();
             data[b.thread_rank()] = s[255 - b.thread_rank()];
           },
           {16, 16, 1});
  for (int i = 0; i < 256; ++i) CHECK(data[static_cast<std::size_t>(i)] == 255 - i);
}

TEST_CASE("a scan with a barrier in every step is right for any number of threads") {
  tile_runner runner(stack_bytes, shared_bytes);
  for (std::uint32_t n : {1U, 2U, 3U, 31U, 33U, 127U, 500U, 1024U}) {
    std::vector<std::uint32_t> out(n);
    run_well(
        runner,
        [&](block b) {
          auto* s = b.dynamic_shared<std::uint32_t>();
          const std::uint32_t t = b.thread_rank();
          s[t] = t + 1;
          b.sync();
          for (std::uint32_t d = 1; d < n; d *= 2) {
            const std::uint32_t add = t >= d ? s[t - d] : 0;
            b.sync();
            s[t] += add;
            b.sync();
          }
          out[t] = s[t];
        },
        {n, 1, 1}, n * sizeof(std::uint32_t));
    for (std::uint32_t t = 0; t < n; ++t) REQUIRE(out[t] == (t + 1) * (t + 2) / 2);
  }
}

TEST_CASE("threads that returned early count as arrived, however many there are") {
  tile_runner runner(stack_bytes, shared_bytes);
  constexpr std::uint32_t n = 48;
  for (std::uint32_t leaving = 0; leaving <= n; ++leaving) {
    for (const bool first_ones : {true, false}) {
      std::uint32_t before = 0;
      std::uint32_t after = 0;
      run_well(runner,
               [&](block b) {
                 const std::uint32_t t = b.thread_rank();
                 if (first_ones ? t < leaving : t >= n - leaving) return;
                 ++before;
                 b.sync();
                 CHECK(before == n - leaving);
                 ++after;
                 b.sync();
                 CHECK(after == n - leaving);
               },
               {n, 1, 1});
      CHECK(after == n - leaving);
    }
  }
}

TEST_CASE("threads that leave between barriers do not hold up the others") {
  // Thread t takes part in the first `rounds[t]` barriers. A phase may begin only when all who take
  // part in the barrier before it have finished the phase before.
  tile_runner runner(stack_bytes, shared_bytes);
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const std::uint32_t n = 1 + below(random, 40);
    constexpr unsigned most = 6;
    std::vector<unsigned> rounds(n);
    for (auto& r : rounds) r = below(random, most + 1);
    std::array<std::uint32_t, most + 1> reached{};
    std::array<std::uint32_t, most + 1> expected{};
    for (unsigned k = 0; k <= most; ++k) {
      expected[k] = static_cast<std::uint32_t>(
          std::count_if(rounds.begin(), rounds.end(), [&](unsigned r) { return r >= k; }));
    }
    run_well(runner,
             [&](block b) {
               for (unsigned k = 0; k < rounds[b.thread_rank()]; ++k) {
                 ++reached[k + 1];
                 b.sync();
                 REQUIRE(reached[k + 1] == expected[k + 1]);
               }
             },
             {n, 1, 1});
    for (unsigned k = 1; k <= most; ++k) REQUIRE(reached[k] == expected[k]);
  }
}

TEST_CASE("what a thread holds in registers survives a barrier") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::vector<double> sums(32);
  const double scale = sums.size() == 32 ? 1.0 : 2.0;  // not known to the compiler
  run_well(runner,
           [&](block b) {
             const double t = b.thread_rank() * scale;
             double d[12];
             std::uint64_t u[12];
             for (unsigned i = 0; i < 12; ++i) {
               d[i] = t * (i + 1);
               u[i] = b.thread_rank() * std::uint64_t{i + 7};
             }
             b.sync();
             double sum = 0;
             for (unsigned i = 0; i < 12; ++i) sum += d[i] + static_cast<double>(u[i]);
             sums[b.thread_rank()] = sum;
           },
           {32, 1, 1});
  for (unsigned t = 0; t < 32; ++t) CHECK(sums[t] == t * (78.0 + 150.0));
}

TEST_CASE("an exception ends the tile: threads not started never start, waiting ones are unwound") {
  struct count_down {
    int& n;
    ~count_down() { --n; }
  };
  tile_runner runner(stack_bytes, shared_bytes);
  int started = 0;
  int alive = 0;
  int past = 0;
  const std::exception_ptr error = run(runner,
                                       [&](block b) {
                                         ++started;
                                         ++alive;
                                         const count_down guard{alive};
                                         if (b.thread_rank() == 20)
                                           throw std::runtime_error("twenty");
                                         b.sync();
                                         ++past;
                                       },
                                       {64, 1, 1});
  CHECK(message(error) == "twenty");
  CHECK(started == 21);
  CHECK(alive == 0);
  CHECK(past == 0);

  int ran = 0;
  run_well(runner, [&](block b) { b.sync(), ++ran; }, {64, 1, 1});
  CHECK(ran == 64);
}

TEST_CASE("of several exceptions the first is reported, also after a barrier") {
  tile_runner runner(stack_bytes, shared_bytes);
  int past = 0;
  const std::exception_ptr error =
      run(runner,
          [&](block b) {
            b.sync();
            ++past;
            if (b.thread_rank() >= 1) throw std::runtime_error(std::to_string(b.thread_rank()));
            b.sync();
          },
          {16, 1, 1});
  // The last thread to arrive opens the barrier and goes on first.
  CHECK(message(error) == "15");
  CHECK(past == 1);
}

TEST_CASE("what threads throw while they are unwound is not what the tile is said to have thrown") {
  tile_runner runner(stack_bytes, shared_bytes);
  int unwound = 0;
  const std::exception_ptr error = run(runner,
                                       [&](block b) {
                                         if (b.thread_rank() == 7)
                                           throw std::runtime_error("cause");
                                         try {
                                           b.sync();
                                         } catch (...) {
                                           ++unwound;
                                           throw std::runtime_error("effect");
                                         }
                                       },
                                       {8, 1, 1});
  CHECK(message(error) == "cause");
  CHECK(unwound == 7);
}

TEST_CASE("a tile that throws at random places leaves a runner that works") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    const std::uint32_t n = 1 + below(random, 32);
    const std::uint32_t thrower = below(random, n);
    const unsigned at = below(random, 4);
    int entered = 0;
    int left = 0;
    const std::exception_ptr error = run(runner,
                                         [&](block b) {
                                           struct leaving {
                                             int& n;
                                             ~leaving() { ++n; }
                                           } guard{left};
                                           ++entered;
                                           for (unsigned k = 0; k < 4; ++k) {
                                             if (b.thread_rank() == thrower && k == at)
                                               throw std::logic_error("stop");
                                             b.sync();
                                           }
                                         },
                                         {n, 1, 1});
    REQUIRE(message(error) == "stop");
    REQUIRE(entered == left);
    int sum = 0;
    run_well(runner, [&](block b) { b.sync(), ++sum; }, {n, 1, 1});
    REQUIRE(sum == static_cast<int>(n));
  }
}

TEST_CASE("a launch given up elsewhere makes a tile leave at its next barrier") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::atomic<bool> given_up{false};
  int rounds = 0;
  const std::exception_ptr error = run(
      runner,
      [&](block b) {
        for (;;) {
          if (b.thread_rank() == 0 && ++rounds == 5) given_up = true;
          b.sync();
        }
      },
      {8, 1, 1}, 0, &given_up);
  CHECK(error == nullptr);
  CHECK(rounds == 5);
}

TEST_CASE("a thread that waits has the stack it was promised") {
  struct deep {
    static int down(block b, int depth) {
      volatile char frame[1024] = {};
      frame[depth % 1024] = static_cast<char>(depth);
      if (depth == 0) {
        b.sync();
        return frame[0];
      }
      return down(b, depth - 1) + frame[depth % 1024];
    }
  };
  tile_runner runner(stack_bytes, shared_bytes);
  int right = 0;
  run_well(runner, [&](block b) { right += deep::down(b, 40) == 820; }, {8, 1, 1});
  CHECK(right == 8);
}

TEST_CASE("a body may catch its own exceptions around barriers") {
  tile_runner runner(stack_bytes, shared_bytes);
  int caught = 0;
  run_well(runner,
           [&](block b) {
             for (int i = 0; i < 3; ++i) {
               try {
                 if (b.thread_rank() % 2 == 0) throw i;
               } catch (int v) {
                 caught += v == i;
               }
               b.sync();
             }
           },
           {16, 1, 1});
  CHECK(caught == 24);
}

TEST_CASE("the largest block waits at a barrier again and again") {
  tile_runner runner(stack_bytes, shared_bytes);
  std::uint32_t at[5] = {};
  run_well(runner,
           [&](block b) {
             for (auto& count : at) {
               ++count;
               b.sync();
               REQUIRE(count == 1024);
             }
           },
           {16, 16, 4});
  CHECK(runner.stacks() == 1023);
}
