// SPDX-License-Identifier: Apache-2.0
// Why a workload waits, how waits add up, and what idle time became of, without a clock.
#include <cede/policy/waiting.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

using namespace cede;
using namespace cede::policy;
using namespace std::chrono_literals;

namespace {

wait_cause cause(std::vector<workload_view> all, bool active = false, nanoseconds now = 1s,
                 nanoseconds idle_since = nanoseconds::min()) {
  return why_waits({now, active, idle_since, all}, 0);
}

}  // namespace

TEST_CASE("a workload waits only if it has something ready, is not suspended and not there") {
  const workload_view ready{.ready = true};
  CHECK(cause({workload_view{}}) == wait_cause::none);
  CHECK(cause({{.suspended = true, .ready = true}}) == wait_cause::none);
  CHECK(cause({{.ready = true, .in_flight = true}}, true) == wait_cause::none);
  CHECK(cause({{.suspended = true, .ready = true, .limited = true}}, true) ==
        wait_cause::rate_limit);
  CHECK(cause({{.suspended = true, .limited = true}}) == wait_cause::none);
  CHECK(cause({ready}) == wait_cause::scheduler);
}

TEST_CASE("the first of several causes is told") {
  const workload_view shy{.hold_off = 10us, .ready = true};
  const workload_view there{.in_flight = true};
  CHECK(cause({shy, there}, true) == wait_cause::critical);
  CHECK(cause({shy, there}, false, 100us, 95us) == wait_cause::hold_off);
  CHECK(cause({shy, there}, false, 105us, 95us) == wait_cause::peer);
  CHECK(cause({shy}, false, 105us, 95us) == wait_cause::scheduler);
}

TEST_CASE("extreme times are no trouble") {
  workload_view w{.hold_off = nanoseconds::max(), .ready = true};
  CHECK(cause({w}, false, 0ns, nanoseconds::min()) == wait_cause::scheduler);
  CHECK(cause({w}, false, 5ns, 5ns) == wait_cause::hold_off);
}

TEST_CASE("waits add up by cause, and the longest is kept whole") {
  wait_account a;
  a.pass(5us);  // nothing seen yet
  CHECK(a.all() == waits{});
  a.see(wait_cause::critical);
  a.pass(10us);
  a.see(wait_cause::hold_off);
  a.pass(3us);
  a.see(wait_cause::none);
  a.pass(100us);
  a.see(wait_cause::peer);
  a.pass(4us);
  a.see(wait_cause::peer);
  a.pass(4us);
  const waits& all = a.all();
  CHECK(all.count == 2);
  CHECK(all.total() == 21us);
  CHECK(all.of(wait_cause::critical) == 10us);
  CHECK(all.of(wait_cause::hold_off) == 3us);
  CHECK(all.of(wait_cause::peer) == 8us);
  CHECK(all.mostly() == wait_cause::critical);
  CHECK(all.longest_total() == 13us);
  CHECK(all.longest_mostly() == wait_cause::critical);
  a.pass(6us);
  CHECK(a.all().longest_total() == 14us);
  CHECK(a.all().longest_mostly() == wait_cause::peer);
}

TEST_CASE("idle time is harvested, lost, or nobody's") {
  idle_account a;
  a.pass(1us);
  a.see(false, true, false);
  a.pass(2us);
  a.see(false, true, true);
  a.pass(4us);
  a.see(false, false, false);
  a.pass(8us);
  a.see(true, true, true);
  a.pass(16us);
  CHECK(a.lost() == 2us);
  CHECK(a.harvested() == 4us);
}

TEST_CASE("clearing is timed from the beginning of latency-critical work, once") {
  idle_account a;
  CHECK_FALSE(a.clear(1us, false, 0us, true));
  CHECK_FALSE(a.clear(12us, true, 10us, true));
  CHECK(a.clear(19us, true, 10us, false) == 9us);
  CHECK_FALSE(a.clear(25us, true, 10us, false));
  // What slips in later was not there to be cleared.
  CHECK_FALSE(a.clear(26us, true, 10us, true));
  CHECK_FALSE(a.clear(27us, true, 10us, false));
  CHECK_FALSE(a.clear(30us, false, 0us, true));
  // Over before the device was clear: nothing waited for it.
  CHECK_FALSE(a.clear(40us, true, 39us, true));
  CHECK_FALSE(a.clear(41us, false, 0us, false));
  CHECK_FALSE(a.clear(50us, true, 49us, false));
}
