// SPDX-License-Identifier: Apache-2.0
// Which requests arrive when: loads are met, traces wrap, processes have the gaps they should.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "../examples/colocate/arrivals.cpp"
#include "../examples/colocate/inputs.cpp"

using namespace colocate;

namespace {

// Every input costs as many microseconds as it has positions.
service_costs proportional() {
  service_costs c{input_lengths(), {}};
  for (const std::uint32_t n : c.lengths) c.seconds.push_back(n * 1e-6);
  return c;
}

double busy(const schedule& s, const service_costs& c) {
  double sum = 0.0;
  for (const arrival& a : s.arrivals) sum += c.seconds[a.input];
  return sum;
}

bool within_window_and_ordered(const schedule& s) {
  double last = 0.0;
  for (const arrival& a : s.arrivals) {
    if (!(a.at >= last && a.at < s.window)) return false;
    last = a.at;
  }
  return true;
}

// Coefficient of variation of the gaps.
double variation(const schedule& s) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < s.arrivals.size(); ++i) {
    gaps.push_back(s.arrivals[i].at - s.arrivals[i - 1].at);
  }
  const double n = static_cast<double>(gaps.size());
  const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / n;
  double squares = 0.0;
  for (const double g : gaps) squares += (g - mean) * (g - mean);
  return std::sqrt(squares / n) / mean;
}

trace small_trace() { return {{0, 10, 10, 70, 100}, {16 * 100, 16 * 10, 1, 16 * 512, 999999}}; }

}  // namespace

TEST_CASE("colocate random: the sequence is SplitMix64's") {
  generator g(1234567);
  CHECK(g.next() == 6457827717110365317U);
  CHECK(g.next() == 3203168211198807973U);
  CHECK(g.next() == 9817491932198370423U);
}

TEST_CASE("colocate random: the distributions have their moments") {
  generator g(7);
  constexpr int n = 200000;
  const auto moments = [&](auto draw) {
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < n; ++i) {
      const double x = draw();
      sum += x;
      squares += x * x;
    }
    return std::pair{sum / n, squares / n - sum / n * sum / n};
  };
  const auto near = [](double value, double expected, double slack) {
    return std::fabs(value - expected) < slack;
  };
  const auto [um, uv] = moments([&] { return g.uniform(); });
  CHECK(near(um, 0.5, 0.005));
  CHECK(near(uv, 1.0 / 12, 0.002));
  const auto [em, ev] = moments([&] { return g.exponential(); });
  CHECK(near(em, 1.0, 0.02));
  CHECK(near(ev, 1.0, 0.05));
  const auto [nm, nv] = moments([&] { return g.normal(); });
  CHECK(near(nm, 0.0, 0.02));
  CHECK(near(nv, 1.0, 0.02));
  for (const double shape : {0.25, 1.0, 3.5}) {
    CAPTURE(shape);
    const auto [gm, gv] = moments([&] { return g.gamma(shape); });
    CHECK(near(gm, shape, 0.03 * (1 + shape)));
    CHECK(near(gv, shape, 0.06 * (1 + shape)));
  }
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(g.below(5));
  CHECK(seen == std::set<std::uint64_t>{0, 1, 2, 3, 4});
}

TEST_CASE("colocate inputs: context tokens / 16, between 8 and 512") {
  CHECK(sequence_length(0) == 8);
  CHECK(sequence_length(8 * 16 + 15) == 8);
  CHECK(sequence_length(9 * 16) == 9);
  CHECK(sequence_length(1469) == 91);
  CHECK(sequence_length(512 * 16) == 512);
  CHECK(sequence_length(~std::uint64_t{0}) == 512);
}

TEST_CASE("colocate inputs: at most 64 lengths, every one within 5 % of its input") {
  const auto lengths = input_lengths();
  CHECK(lengths.size() <= most_inputs);
  CHECK(lengths.front() == 8);
  CHECK(lengths.back() == 512);
  CHECK(std::adjacent_find(lengths.begin(), lengths.end(), std::greater_equal<>()) ==
        lengths.end());
  for (std::uint32_t n = 8; n <= 512; ++n) {
    CAPTURE(n);
    const double ratio = static_cast<double>(lengths[nearest_input(lengths, n)]) / n;
    CHECK(ratio < 1.05);
    CHECK(ratio > 0.95);
  }
  CHECK(nearest_input(lengths, 1) == 0);
  CHECK(nearest_input(lengths, 100000) == lengths.size() - 1);
}

TEST_CASE("colocate inputs: drawn tokens have the trace's median and spread") {
  generator g(3);
  std::vector<double> logs;
  for (int i = 0; i < 100000; ++i)
    logs.push_back(std::log(static_cast<double>(draw_context_tokens(g)) + 0.5));
  std::nth_element(logs.begin(), logs.begin() + 50000, logs.end());
  CHECK(std::fabs(logs[50000] - std::log(1469.0)) < 0.03);
  const double mean = std::accumulate(logs.begin(), logs.end(), 0.0) / 1e5;
  double squares = 0.0;
  for (const double l : logs) squares += (l - mean) * (l - mean);
  CHECK(std::fabs(std::sqrt(squares / 1e5) - 1.36) < 0.03);
}

TEST_CASE("colocate arrivals: a process fills the load and no more than one request over") {
  const auto costs = proportional();
  for (const auto process : {arrival_process::poisson, arrival_process::gamma}) {
    for (const double load : {0.1, 0.5, 1.0}) {
      CAPTURE(load);
      const schedule s = from_process(process, costs, load, 2.0, 1);
      CHECK(within_window_and_ordered(s));
      CHECK(busy(s, costs) >= load * 2.0);
      CHECK(busy(s, costs) < load * 2.0 + 512e-6);
      CHECK(std::fabs(s.load - busy(s, costs) / 2.0) < 1e-12);
      CHECK(s.rows == 0);
      CHECK(s.wraps == 0);
    }
  }
}

TEST_CASE("colocate arrivals: Poisson gaps vary by 1, gamma gaps by 2") {
  const auto costs = proportional();
  CHECK(std::fabs(variation(from_process(arrival_process::poisson, costs, 0.5, 10.0, 1)) - 1.0) <
        0.05);
  CHECK(std::fabs(variation(from_process(arrival_process::gamma, costs, 0.5, 10.0, 1)) - 2.0) <
        0.15);
}

TEST_CASE("colocate arrivals: a seed repeats, another one differs") {
  const auto costs = proportional();
  const auto at = [&](std::uint64_t seed, arrival_process p) {
    std::vector<double> out;
    for (const arrival& a : from_process(p, costs, 0.5, 1.0, seed).arrivals) out.push_back(a.at);
    return out;
  };
  CHECK(at(1, arrival_process::poisson) == at(1, arrival_process::poisson));
  CHECK(at(1, arrival_process::poisson) != at(2, arrival_process::poisson));
  CHECK(at(1, arrival_process::poisson) != at(1, arrival_process::gamma));
}

TEST_CASE("colocate arrivals: a trace keeps its pattern, rescaled to the window") {
  const auto costs = proportional();
  // 100 + 10 + 8 us of work: the load asks for three rows, the fourth would be the first one
  // outside.
  const schedule s = from_trace(small_trace(), costs, 0.113, 1e-3, 1);
  REQUIRE(s.arrivals.size() == 3);
  CHECK(s.rows == 3);
  CHECK(s.wraps == 0);
  CHECK(s.arrivals[0].at == 0.0);
  CHECK(std::fabs(s.arrivals[1].at - 1e-3 / 7) < 1e-12);
  CHECK(s.arrivals[2].at == s.arrivals[1].at);
  CHECK(costs.lengths[s.arrivals[0].input] == doctest::Approx(100).epsilon(0.05));
  CHECK(costs.lengths[s.arrivals[1].input] == 10);
  CHECK(costs.lengths[s.arrivals[2].input] == 8);
}

TEST_CASE("colocate arrivals: a trace wraps and says so") {
  const auto costs = proportional();
  const schedule s = from_trace(small_trace(), costs, 1.0, 5e-3, 1);
  CHECK(within_window_and_ordered(s));
  CHECK(s.rows == s.arrivals.size());
  CHECK(s.wraps == (s.rows - 1) / 5);
  CHECK(s.wraps > 2);
  CHECK(busy(s, costs) >= 5e-3);
  CHECK(busy(s, costs) < 5e-3 + 512e-6);
  for (std::size_t i = 5; i < s.rows; ++i) CHECK(s.arrivals[i].input == s.arrivals[i - 5].input);
  // One period is the trace and its mean gap: 100 + 25 ticks.
  const double period = s.arrivals[5].at - s.arrivals[0].at;
  CHECK(std::fabs((s.arrivals[3].at - s.arrivals[0].at) / period - 70.0 / 125.0) < 1e-9);
}

TEST_CASE("colocate arrivals: exactly one trace does not wrap") {
  service_costs costs{{8, 512}, {1.0, 1.0}};
  const schedule s = from_trace(small_trace(), costs, 0.5, 10.0, 1);
  CHECK(s.rows == 5);
  CHECK(s.wraps == 0);
  CHECK(from_trace(small_trace(), costs, 0.6, 10.0, 1).wraps == 1);
}

TEST_CASE("colocate arrivals: without a column of tokens lengths are drawn") {
  trace t = small_trace();
  t.tokens.clear();
  const auto costs = proportional();
  const schedule a = from_trace(t, costs, 0.5, 0.1, 1);
  const schedule b = from_trace(t, costs, 0.5, 0.1, 1);
  CHECK(a.arrivals.size() > 50);
  std::set<std::size_t> inputs;
  for (const arrival& x : a.arrivals) inputs.insert(x.input);
  CHECK(inputs.size() > 20);
  CHECK(a.arrivals.back().input == b.arrivals.back().input);
}

TEST_CASE("colocate arrivals: where a service alone would stand") {
  const std::vector<arrival> arrivals{{0.0, 0}, {0.5, 1}, {1.5, 0}, {9.0, 1}};
  const std::vector<double> costs{1.0, 2.0};
  CHECK(starts_alone(arrivals, costs) == std::vector<double>{0.0, 1.0, 3.0, 9.0});
  CHECK(starts_alone({}, costs).empty());
}
