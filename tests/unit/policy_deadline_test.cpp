// SPDX-License-Identifier: Apache-2.0
// Deadlines: admission against every order of small sets, and a device in virtual time on which
// nothing that was taken is ever late.
#include <cede/policy/deadline.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

using cede::policy::admission;
using cede::policy::admit;
using cede::policy::due_work;
using cede::policy::earliest_due;
using cede::policy::expected_time;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

using answer = admission::answer;

/// Whether some order of the work, one after another from `now`, keeps every deadline.
bool some_order_keeps_all(nanoseconds now, const std::vector<due_work>& work) {
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    nanoseconds t = now;
    if (std::ranges::all_of(order, [&](std::size_t i) {
          t += work[i].left;
          return t <= work[i].due;
        })) {
      return true;
    }
  } while (std::ranges::next_permutation(order).found);
  return false;
}

/// When each is done, in the order of deadlines, of equal ones in the order of the list.
std::vector<nanoseconds> finishes(nanoseconds now, const std::vector<due_work>& work) {
  std::vector<std::size_t> order(work.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(work[i].due, i); });
  std::vector<nanoseconds> done(work.size());
  for (const std::size_t i : order) done[i] = now += work[i].left;
  return done;
}

}  // namespace

TEST_CASE("deadlines: whoever is due first, of several the first, of none nobody") {
  CHECK_FALSE(earliest_due({}));
  const std::vector<due_work> work{{5ns, 9ns}, {3ns, 1ns}, {3ns, 0ns}, {8ns, 1ns}};
  CHECK(earliest_due(work) == 1);
}

TEST_CASE("deadlines: of every small set, what is taken can be kept and what is refused cannot") {
  const nanoseconds now = 10ns;
  std::uint64_t taken = 0;
  std::uint64_t late = 0;
  std::uint64_t in_the_way = 0;
  for (unsigned n = 0; n <= 3; ++n) {
    // Base 4 × 6: what is left, 0 to 3, and the deadline, 0 to 5 from now.
    std::uint64_t sets = 1;
    for (unsigned i = 0; i <= n; ++i) sets *= 24;
    bool right = true;
    for (std::uint64_t code = 0; code < sets; ++code) {
      std::vector<due_work> work;
      std::uint64_t rest = code;
      for (unsigned i = 0; i <= n; ++i, rest /= 24)
        work.push_back({now + nanoseconds(rest % 24 / 4), nanoseconds(rest % 4)});
      const due_work wanted = work.back();
      const std::vector<due_work> accepted(work.begin(), work.end() - 1);
      const admission a = admit(now, accepted, wanted);
      const auto before = finishes(now, accepted);
      const auto after = finishes(now, work);
      right = right && a.finish == after.back();
      switch (a.what) {
        case answer::taken:
          ++taken;
          right = right && after.back() <= wanted.due;
          for (unsigned i = 0; i < n; ++i)
            right = right && (after[i] <= work[i].due || before[i] > work[i].due);
          break;
        case answer::too_late:
          ++late;
          right = right && after.back() > wanted.due;
          break;
        case answer::in_the_way:
          ++in_the_way;
          right = right && before[a.victim] <= work[a.victim].due &&
                  after[a.victim] > work[a.victim].due;
          break;
      }
      // Where all was in time, it is taken exactly if any order at all keeps everything.
      if (some_order_keeps_all(now, accepted))
        right = right && static_cast<bool>(a) == some_order_keeps_all(now, work);
      if (!right) {
        CAPTURE(code);
        REQUIRE(right);
      }
    }
  }
  CHECK(taken > 1000);
  CHECK(late > 1000);
  CHECK(in_the_way > 1000);
}

TEST_CASE(
    "deadlines: in virtual time nothing that was taken is late, and little that fits refused") {
  std::mt19937_64 random(7);
  for (int run = 0; run < 200; ++run) {
    nanoseconds now{0};
    std::vector<due_work> work;
    std::uint64_t taken = 0;
    std::uint64_t refused = 0;
    for (int i = 0; i < 300; ++i) {
      const nanoseconds cost(1 + random() % 20);
      const due_work wanted{now + cost + nanoseconds(random() % 60), cost};
      if (admit(now, work, wanted)) {
        work.push_back(wanted);
        ++taken;
      } else {
        ++refused;
      }
      // The device works until the next one comes, on what is due first.
      nanoseconds until = now + nanoseconds(random() % 25);
      while (now < until && !work.empty()) {
        const std::size_t at = *earliest_due(work);
        const nanoseconds step = std::min(until - now, work[at].left);
        now += step;
        work[at].left -= step;
        if (work[at].left > 0ns) continue;
        REQUIRE(now <= work[at].due);
        work.erase(work.begin() + static_cast<std::ptrdiff_t>(at));
      }
      now = std::max(now, until);
    }
    CHECK(taken > refused);
    CHECK(refused > 0);
  }
}

TEST_CASE("deadlines: what is late already takes time and forbids nothing") {
  const std::vector<due_work> work{{5ns, 20ns}, {100ns, 10ns}};
  CHECK(admit(0ns, work, {60ns, 30ns}).what == answer::taken);
  CHECK(admit(0ns, work, {60ns, 40ns}).what == answer::taken);
  CHECK(admit(0ns, work, {60ns, 41ns}).what == answer::too_late);
  CHECK(admit(0ns, work, {80ns, 60ns}).what == answer::taken);
  const std::vector<due_work> tight{{5ns, 20ns}, {35ns, 10ns}};
  const admission a = admit(0ns, tight, {30ns, 6ns});
  CHECK(a.what == answer::in_the_way);
  CHECK(a.victim == 1);
}

TEST_CASE("deadlines: times at the ends of the clock neither wrap nor pass") {
  const nanoseconds ever = nanoseconds::max();
  CHECK(admit(0ns, {}, {ever, ever}).what == answer::taken);
  CHECK(admit(1ns, {}, {ever - 1ns, ever}).what == answer::too_late);
  const std::vector<due_work> work{{ever, ever}, {ever, ever}};
  CHECK(admit(5ns, work, {ever - 1ns, 1ns}).finish == 6ns);
  CHECK(admit(5ns, work, {ever, 1ns}).finish == ever);
  CHECK(admit(5ns, {}, {6ns, -3ns}).finish == 5ns);  // nothing is left of it
}

TEST_CASE("expected time: what 95 of 100 kept over the last ones") {
  expected_time t;
  CHECK(t.value() == 0ns);
  t.observe(-1ns);
  CHECK(t.value() == 0ns);
  for (int i = 1; i <= 20; ++i) t.observe(nanoseconds(i));
  CHECK(t.value() == 19ns);
  t.observe(1s);
  CHECK(t.value() == 20ns);  // one stall of 21 is not what to expect
  for (std::size_t i = 0; i < expected_time::kept; ++i) t.observe(7ns);
  CHECK(t.value() == 7ns);  // the old ones are forgotten
}
