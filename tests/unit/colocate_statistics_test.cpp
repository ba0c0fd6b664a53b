// SPDX-License-Identifier: Apache-2.0
// Percentiles by nearest rank, and intervals of their ratio.
#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "../examples/colocate/statistics.cpp"

using namespace colocate;

namespace {

std::vector<double> one_to(int n) {
  std::vector<double> out;
  for (int i = n; i >= 1; --i) out.push_back(i);
  return out;
}

}  // namespace

TEST_CASE("colocate statistics: percentiles are the nearest rank") {
  const auto hundred = one_to(100);
  CHECK(percentile(hundred, 0.01) == 1);
  CHECK(percentile(hundred, 0.50) == 50);
  CHECK(percentile(hundred, 0.99) == 99);
  CHECK(percentile(hundred, 1.00) == 100);
  CHECK(percentile(one_to(101), 0.99) == 100);
  CHECK(percentile(one_to(1), 0.99) == 1);
  CHECK(percentile(std::vector<double>{3, 1, 2}, 0.5) == 2);
  CHECK(std::isnan(percentile({}, 0.5)));
}

TEST_CASE("colocate statistics: mean and median") {
  CHECK(mean(one_to(4)) == 2.5);
  CHECK(median(one_to(5)) == 3);
  CHECK(std::isnan(mean({})));
  CHECK(std::isnan(median({})));
}

TEST_CASE("colocate statistics: a ratio lies in its interval, which shrinks with the samples") {
  generator random(5);
  const auto draw = [&](int n, double scale) {
    std::vector<double> out;
    for (int i = 0; i < n; ++i) out.push_back(scale * (1.0 + random.exponential()));
    return out;
  };
  const ratio few = percentile_ratio(draw(300, 1.2), draw(300, 1.0), 0.99);
  const ratio many = percentile_ratio(draw(20000, 1.2), draw(20000, 1.0), 0.99);
  for (const ratio& r : {few, many}) {
    CHECK(r.low <= r.value);
    CHECK(r.value <= r.high);
    CHECK(r.low < 1.2);
    CHECK(r.high > 1.2);
  }
  CHECK(many.high - many.low < 0.5 * (few.high - few.low));
}

TEST_CASE("colocate statistics: the interval covers the true ratio about as often as it says") {
  generator random(11);
  int covered = 0;
  constexpr int trials = 60;
  for (int t = 0; t < trials; ++t) {
    std::vector<double> a;
    std::vector<double> b;
    for (int i = 0; i < 400; ++i) {
      a.push_back(random.uniform());
      b.push_back(random.uniform());
    }
    const ratio r = percentile_ratio(a, b, 0.9, static_cast<std::uint64_t>(t));
    if (r.low <= 1.0 && r.high >= 1.0) ++covered;
  }
  CHECK(covered >= trials * 85 / 100);
}

TEST_CASE("colocate statistics: identical samples have a ratio of one, no samples have none") {
  const std::vector<double> same(50, 2.0);
  const ratio r = percentile_ratio(same, same, 0.99);
  CHECK(r.value == 1.0);
  CHECK(r.low == 1.0);
  CHECK(r.high == 1.0);
  CHECK(std::isnan(percentile_ratio({}, same, 0.99).value));
  CHECK(std::isnan(percentile_ratio(same, {}, 0.99).low));
}
