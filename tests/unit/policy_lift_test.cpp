// SPDX-License-Identifier: Apache-2.0
// When latency-critical work that stands still stops keeping the rest out: scenes with a known
// answer, then long random runs in virtual time against the definition itself.
#include <cede/policy/lift.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "support/sanitized.hpp"

using cede::policy::lift;
using cede::policy::nanoseconds;
using cede::policy::source_view;
using namespace std::chrono_literals;

namespace {

using indices = std::vector<std::size_t>;

/// Some sources and the lift that looks at them.
struct side {
  std::vector<source_view> sources;
  lift l;

  explicit side(std::size_t n, nanoseconds max_hold = 100ms) : sources(n, {0, 0, max_hold}) {}
  indices look(nanoseconds now, bool others_wait = true) {
    const auto lifted = l.look(now, others_wait, sources);
    return {lifted.begin(), lifted.end()};
  }
  [[nodiscard]] bool lifted(std::size_t i) const { return l.lifted(i, sources[i].completed); }
};

}  // namespace

TEST_CASE("lift: nothing is lifted at its first look, however late that is") {
  for (const nanoseconds now : {nanoseconds(0), nanoseconds(1h), nanoseconds(24h * 365)}) {
    side s(3);
    s.sources[1].submitted = 7;  // with completions like a new one's, and like an old one's
    s.sources[2] = {9, 4, 100ms};
    CHECK(s.look(now).empty());
    CHECK(s.look(now + 100ms).empty());
    CHECK_FALSE(s.l.any());
    CHECK(s.look(now + 100ms + 1ns) == indices{1, 2});
  }
}

TEST_CASE("lift: work that begins after a pause of any length begins its time then") {
  side s(1);
  CHECK(s.look(0ns).empty());
  s.sources[0].submitted = 1;
  CHECK(s.look(1h).empty());
  s.sources[0].completed = 1;
  CHECK(s.look(1h + 1ms).empty());
  s.sources[0].submitted = 2;  // as many completions as at the last look, but idle then
  CHECK(s.look(9h).empty());
  CHECK(s.look(9h + 100ms).empty());
  CHECK(s.look(9h + 101ms) == indices{0});
}

TEST_CASE("lift: steady completions never let the others in") {
  side s(2);
  s.sources[0].submitted = 1'000'000;  // always something to do
  for (int i = 0; i < 100'000; ++i) {
    const nanoseconds now = 100ms * i;  // at the very limit
    s.sources[0].completed = static_cast<std::uint64_t>(i);
    CHECK(s.look(now).empty());
    CHECK_FALSE(s.lifted(0));
  }
}

TEST_CASE("lift: what stands still is lifted once, until it moves") {
  side s(1);
  s.sources[0] = {5, 2, 100ms};
  s.look(10ms);
  CHECK(s.look(110ms).empty());
  CHECK(s.look(111ms) == indices{0});
  CHECK(s.lifted(0));
  CHECK(s.l.any());
  s.sources[0].submitted = 50;  // more work behind it is no movement
  CHECK(s.look(112ms).empty());
  CHECK(s.lifted(0));
  s.sources[0].completed = 3;
  CHECK_FALSE(s.lifted(0));  // at once, without a look
  CHECK(s.look(10s).empty());
  CHECK_FALSE(s.l.any());
  CHECK(s.look(10s + 100ms).empty());
  CHECK(s.look(10s + 101ms) == indices{0});  // and again
}

TEST_CASE("lift: only while others wait, and then for all the time it stood still") {
  side s(1);
  s.sources[0].submitted = 1;
  for (int i = 0; i < 10; ++i) CHECK(s.look(1s * i, false).empty());
  CHECK_FALSE(s.lifted(0));
  CHECK(s.look(10s, true) == indices{0});
  CHECK(s.look(11s, false).empty());
  CHECK(s.lifted(0));
}

TEST_CASE("lift: each source by itself and by its own limit") {
  side s(3);
  s.sources[0] = {1, 0, 10ms};
  s.sources[1] = {100, 0, 10ms};
  s.sources[2] = {1, 0, nanoseconds::max()};
  indices all;
  for (std::uint64_t i = 0; i < 50; ++i) {
    s.sources[1].completed = i;
    for (const std::size_t n : s.look(1ms * static_cast<int>(i))) all.push_back(n);
  }
  CHECK(all == indices{0});
  CHECK(s.lifted(0));
  CHECK_FALSE(s.lifted(1));
  CHECK_FALSE(s.lifted(2));
  s.sources.push_back({1, 0, 10ms});  // one more, later
  CHECK(s.look(50ms).empty());
  CHECK_FALSE(s.l.lifted(99, 0));  // never seen
}

TEST_CASE("lift: long random runs agree with the definition") {
  struct seen {
    nanoseconds at;
    source_view source;
    bool others_wait;
  };
  for (unsigned seed = 0; seed < (cede_test::sanitized ? 20U : 200U); ++seed) {
    std::mt19937 random(seed);
    auto upto = [&](unsigned n) { return random() % (n + 1); };
    const std::size_t n = 1 + upto(3);
    side s(n);
    for (auto& source : s.sources) source.max_hold = 1us * (1 + upto(50));
    std::vector<std::vector<seen>> past(n);
    std::vector<bool> expected(n);  // lifted, by the definition
    nanoseconds now = 1s * upto(5);
    for (int step = 0; step < 2000; ++step) {
      now += 1us * (upto(9) == 0 ? upto(200) : upto(10));
      for (auto& source : s.sources) {
        if (upto(3) == 0) source.submitted += upto(2);
        if (source.active() && upto(5) == 0)
          source.completed = source.submitted - upto(1) * upto(1);
      }
      const bool others_wait = upto(3) != 0;
      const indices reported = s.look(now, others_wait);
      bool any = false;
      for (std::size_t i = 0; i < n; ++i) {
        past[i].push_back({now, s.sources[i], others_wait});
        // Active at all looks since the first of those with this count of completions, the last
        // ones in a row.
        std::size_t first = past[i].size();
        while (first > 0 && past[i][first - 1].source.active() &&
               past[i][first - 1].source.completed == s.sources[i].completed)
          --first;
        bool lifted = false;
        for (std::size_t k = first; k < past[i].size(); ++k) {
          lifted = lifted || (past[i][k].others_wait &&
                              past[i][k].at - past[i][first].at > s.sources[i].max_hold);
        }
        const bool fresh = lifted && !(expected[i] && first + 1 < past[i].size());
        REQUIRE(s.lifted(i) == lifted);
        REQUIRE((std::find(reported.begin(), reported.end(), i) != reported.end()) == fresh);
        expected[i] = lifted;
        any = any || lifted;
        if (past[i].size() - first > 500) s.sources[i].completed = s.sources[i].submitted;
      }
      REQUIRE(s.l.any() == any);
    }
  }
}
