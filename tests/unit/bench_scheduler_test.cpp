// SPDX-License-Identifier: Apache-2.0
// What the scheduler's benchmark decides before and after it measures: rows, parts, arrivals,
// figures.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "scheduler/arrivals.hpp"
#include "scheduler/figures.hpp"
#include "scheduler/plan.hpp"

using namespace bench::scheduler;

namespace {

std::set<std::string> names_of(const std::vector<row>& rows) {
  std::set<std::string> names;
  for (const row& r : rows) names.insert(r.name);
  return names;
}

}  // namespace

TEST_CASE("the plan has every pair at load 0.5 in both modes, and each name once") {
  const auto rows = all_rows();
  const auto names = names_of(rows);
  CHECK(names.size() == rows.size());
  for (const critical_type& c : critical_types) {
    for (const effort_type& e : effort_types) {
      const std::string pair = "scheduler/" + std::string(c.name) + "/" + std::string(e.name);
      CHECK(names.contains(pair + "/0.5/priorities"));
      CHECK(names.contains(pair + "/0.5/cede"));
    }
  }
  for (const char* chosen :
       {"scheduler/k40/mem750us/0.5/green", "scheduler/block4ms/training/0.5/gate_holdoff",
        "scheduler/chain20x31/tile50us/0.9/cede", "scheduler/k40/training/0.1/priorities",
        "scheduler/k12/none/0.5/alone", "alone/mem25us", "hostcost/8/request", "idle/5s"}) {
    INFO(chosen);
    CHECK(names.contains(chosen));
  }
  CHECK_FALSE(names.contains("scheduler/k12/mem750us/0.5/green"));
  CHECK_FALSE(names.contains("scheduler/block4ms/training/0.1/cede"));
}

TEST_CASE("parts hold every row once, in order, and none is expected to take 8 minutes") {
  const auto rows = all_rows();
  const std::size_t fewest = fewest_parts(rows);
  for (const std::size_t count : {fewest, fewest + 1, std::size_t{40}, rows.size() + 3}) {
    INFO(count);
    std::vector<std::string> joined;
    for (std::size_t i = 1; i <= count; ++i) {
      const auto part = part_of(rows, i, count);
      CHECK(expected_seconds(part) <= part_limit_s);
      for (const row& r : part) joined.push_back(r.name);
    }
    REQUIRE(joined.size() == rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) CHECK(joined[i] == rows[i].name);
  }
  CHECK_THROWS_WITH_AS(part_of(rows, 1, fewest - 1), doctest::Contains("ask for at least"),
                       std::invalid_argument);
  CHECK_THROWS_WITH_AS(part_of(rows, 0, fewest), doctest::Contains("counted from 1"),
                       std::invalid_argument);
  CHECK_THROWS_AS(part_of(rows, fewest + 1, fewest), std::invalid_argument);
}

TEST_CASE("a part pays for what its rows share, once") {
  const auto rows = all_rows();
  const std::vector<row> both(rows.begin() + 1, rows.begin() + 3);
  REQUIRE(same_group(both[0], both[1]));
  const double one = expected_seconds({both[0]});
  CHECK(expected_seconds(both) == doctest::Approx(one + both[1].seconds));
  CHECK(one > both[0].seconds + effort_overhead_s);
}

TEST_CASE("a part is written I/N") {
  CHECK(parse_part("3/12") == std::pair<std::size_t, std::size_t>{3, 12});
  for (const char* wrong : {"", "3", "/", "3/", "/3", "a/3", "3/-1", "1/99999", "1/2/3"}) {
    INFO(wrong);
    CHECK_THROWS_WITH_AS(parse_part(wrong), doctest::Contains("I/N"), std::invalid_argument);
  }
}

TEST_CASE("a smoke run has every type and mode, and few rows") {
  const auto rows = smoke_rows(all_rows());
  std::set<std::size_t> criticals;
  std::set<std::size_t> efforts;
  std::set<mode> modes;
  for (const row& r : rows) {
    if (r.kind != row_kind::pair) continue;
    criticals.insert(r.critical);
    modes.insert(r.how);
    if (r.how == mode::cede) efforts.insert(r.effort);
  }
  CHECK(criticals.size() == critical_types.size());
  CHECK(efforts.size() == effort_types.size());
  CHECK(modes.size() == 7);
  CHECK(rows.size() < 45);
}

TEST_CASE("short services take 20,000 requests, long ones 10 s and no fewer than 2,000") {
  CHECK(length_of(130, 0.5).requests == 20'000);
  CHECK(length_of(12, 0.5).seconds == doctest::Approx(3).epsilon(0.001));
  CHECK(length_of(630, 0.5).seconds == doctest::Approx(10).epsilon(0.001));
  CHECK(length_of(4000, 0.5).requests == 2'000);
  CHECK(length_of(4000, 0.5).seconds == doctest::Approx(16));
}

TEST_CASE("Poisson arrivals rise, have the mean asked for and vary as an exponential does") {
  const auto at = poisson_arrivals(50'000, 24, 7);
  CHECK(at == poisson_arrivals(50'000, 24, 7));
  CHECK(at != poisson_arrivals(50'000, 24, 8));
  double last = 0;
  double squares = 0;
  for (const double t : at) {
    REQUIRE(t > last);
    squares += (t - last) * (t - last);
    last = t;
  }
  CHECK(at.back() == doctest::Approx(50'000 * 24.0));
  // Mean of the squares of an exponential: twice the square of its mean.
  CHECK(squares / 50'000 == doctest::Approx(2.0 * 24 * 24).epsilon(0.05));
  CHECK(poisson_arrivals(0, 24, 7).empty());
}

TEST_CASE("alone, a request begins when it arrives or when the one before is answered") {
  const std::vector<double> at{1, 2, 10};
  CHECK(starts_alone(at, 3) == std::vector<double>{1, 4, 10});
  CHECK(mean_idle_gap(at, 3) == doctest::Approx((1.0 + 3.0) / 2));
  CHECK(mean_idle_gap({}, 3) == 0);
}

TEST_CASE("the interval of a ratio encloses it, narrows with samples and is one point for equals") {
  std::vector<double> few;
  std::vector<double> many;
  for (int i = 1; i <= 20'000; ++i) many.push_back(i);
  for (int i = 1; i <= 20'000; i += 50) few.push_back(i);
  const interval wide = p99_ratio_interval(few, few);
  const interval narrow = p99_ratio_interval(many, many);
  CHECK(wide.low < 1);
  CHECK(wide.high > 1);
  CHECK(narrow.high - narrow.low < (wide.high - wide.low) / 3);
  CHECK(narrow.low > 0.99);
  // The rank of P99 among 20,000 has a standard deviation of sqrt(20,000 x 0.99 x 0.01) = 14.07.
  const interval ranks = p99_ratio_interval(many, {1});
  CHECK(std::abs(ranks.low - (19'800 - 1.96 * 14.07)) < 6);
  CHECK(std::abs(ranks.high - (19'800 + 1.96 * 14.07)) < 6);
  const interval same = p99_ratio_interval({6, 6, 6}, {3, 3});
  CHECK(same.low == 2);
  CHECK(same.high == 2);
  CHECK(p99_ratio_interval({}, {1}).high == 0);
}

TEST_CASE("figures of a cell: against alone, per idle time and lost per request") {
  observation alone;
  alone.service_us.assign(100, 10);
  alone.response_us.assign(100, 10);
  observation seen;
  seen.service_us.assign(50, 12);
  seen.response_us.assign(50, 15);
  seen.window_us = 1000;     // 500 us of service alone, 500 us idle
  seen.units_per_us = 0.45;  // of 1 alone: 450 us worth of work
  counters c = latency_counters(seen, alone);
  add_progress(c, seen, alone, 1);
  CHECK(c["requests"] == 50);
  CHECK(c["p99_ratio"] == doctest::Approx(1.2));
  CHECK(c["p99_ratio_low"] == doctest::Approx(1.2));
  CHECK(c["added_p99_us"] == doctest::Approx(2));
  CHECK(c["response_p99_ratio"] == doctest::Approx(1.5));
  CHECK(c["progress_per_idle"] == doctest::Approx(0.9));
  CHECK(c["lost_us_per_request"] == doctest::Approx(1));  // 50 us over 50 requests
  CHECK(c["unstable"] == 0);

  seen.unstable = true;
  counters behind = latency_counters(seen, alone);
  add_progress(behind, seen, alone, 1);
  CHECK(behind["unstable"] == 1);
  CHECK_FALSE(behind.contains("progress_per_idle"));

  const observation all = pooled(alone, seen);
  CHECK(all.service_us.size() == 150);
  CHECK(all.unstable);
}
