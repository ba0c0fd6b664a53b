// SPDX-License-Identifier: Apache-2.0
// Pieces of a copy against a bus of known speed, in virtual time: all bytes once, never longer on
// the device than the turnaround allows, and hardly slower than in one go.
#include <cede/policy/pieces.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <random>

using cede::policy::nanoseconds;
using cede::policy::pieces;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t MiB = std::uint64_t{1} << 20U;

struct outcome {
  nanoseconds took{0};
  std::uint64_t sent = 0;
  nanoseconds longest_wait{0};  ///< until the device was free, had it been wanted
  unsigned pieces = 0;
};

/// Two pieces in flight at most; ends are seen up to `look` late; `per_call` of the bus is lost by
/// each piece. `rate` in bytes per ns.
template <class Rate>
outcome run(std::uint64_t bytes, Rate rate, nanoseconds turnaround, nanoseconds look,
            nanoseconds per_call, unsigned seed) {
  struct on_bus {
    std::uint64_t bytes;
    nanoseconds end;
  };
  std::mt19937 random(seed);
  std::uniform_int_distribution<nanoseconds::rep> late(0, look.count());
  pieces p;
  outcome o;
  nanoseconds now = 1ms;
  const nanoseconds start = now;
  std::deque<on_bus> flight;
  std::uint64_t completed = 0;
  while (completed < bytes) {
    while (flight.size() < 2 && o.sent < bytes) {
      const std::uint64_t n = p.next(now, bytes - o.sent, o.sent, completed, turnaround);
      REQUIRE(n > 0);
      REQUIRE(n <= bytes - o.sent);
      const nanoseconds begin = flight.empty() ? now : std::max(now, flight.back().end);
      const auto length = static_cast<nanoseconds::rep>(static_cast<double>(n) / rate(o.sent));
      flight.push_back({n, begin + nanoseconds{length} + per_call});
      o.sent += n;
      ++o.pieces;
      o.longest_wait = std::max(o.longest_wait, flight.back().end - now);
    }
    now = std::max(now, flight.front().end) + nanoseconds{late(random)};
    while (!flight.empty() && flight.front().end <= now) {
      completed += flight.front().bytes;
      flight.pop_front();
    }
  }
  o.took = now - start;
  return o;
}

double slowdown(const outcome& o, std::uint64_t bytes, double rate) {
  return static_cast<double>(o.took.count()) / (static_cast<double>(bytes) / rate);
}

}  // namespace

TEST_CASE("a copy over a bus goes whole, in pieces that keep the turnaround") {
  for (const double rate : {25.0, 50.0, 400.0, 2000.0}) {  // PCIe 4 and 5, NVLink, device memory
    for (const nanoseconds turnaround : {50us, 100us, 1000us}) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        CAPTURE(rate);
        CAPTURE(turnaround.count());
        const std::uint64_t bytes = 2048 * MiB + 12345;
        const outcome o = run(bytes, [=](auto) { return rate; }, turnaround, 8us, 3us, seed);
        CHECK(o.sent == bytes);
        const nanoseconds first{static_cast<nanoseconds::rep>(double{pieces::first} / rate)};
        CHECK(o.longest_wait <= std::max(turnaround, 2 * first) + 2 * 3us);
        if (turnaround >= 100us) CHECK(slowdown(o, bytes, rate) < 1.12);
      }
    }
  }
}

TEST_CASE("short turnarounds keep pieces at the least, whatever the bus") {
  const outcome o = run(64 * MiB, [](auto) { return 50.0; }, 1ns, 0us, 0us, 1);
  CHECK(o.pieces == 1 + 1 + 62 * MiB / pieces::least);
  pieces p;
  CHECK(p.next(0ns, 100, 0, 0, 1ns) == 100);
  CHECK(p.next(0ns, 0, 100, 100, 1ns) == 0);
}

TEST_CASE("no turnaround is too long: pieces have a largest size") {
  const outcome o = run(4096 * MiB, [](auto) { return 2000.0; }, nanoseconds::max(), 1us, 0us, 1);
  CHECK(o.sent == 4096 * MiB);
  CHECK(o.pieces <= 2 + 4096 * MiB / pieces::most);
}

TEST_CASE("a bus that gets slower is followed") {
  // Ten times slower from the middle on.
  const std::uint64_t bytes = 1024 * MiB;
  const auto rate = [=](std::uint64_t sent) { return sent < bytes / 2 ? 500.0 : 50.0; };
  pieces p;
  nanoseconds now{0};
  std::uint64_t sent = 0;
  std::uint64_t last = 0;
  while (sent < bytes) {  // one in flight
    last = p.next(now, bytes - sent, sent, sent, 200us);
    now += nanoseconds{static_cast<nanoseconds::rep>(static_cast<double>(last) / rate(sent))};
    sent += last;
    if (sent < bytes && sent > bytes * 3 / 4) CHECK(double(last) / rate(sent) <= 110'000);
  }
}

TEST_CASE("time in which nothing was on the device says nothing of its speed") {
  pieces p;
  const std::uint64_t a = p.next(0ns, 1024 * MiB, 0, 0, 200us);
  // It ends after 20 us, as is seen at once, but the next may go only 10 ms later.
  std::uint64_t sent = a;
  const std::uint64_t b = p.next(20us, 1024 * MiB, sent, sent, 200us);
  CHECK(b > 4 * MiB);
  sent += b;
  const std::uint64_t c = p.next(10ms, 1024 * MiB, sent, sent, 200us);
  CHECK(c >= b * 70 / 100);
  CHECK(p.next(20ms, 1024 * MiB, sent, sent, 200us) >= c * 70 / 100);
}
