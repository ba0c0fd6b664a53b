// SPDX-License-Identifier: Apache-2.0
// Fits: by hand, by the conditions of an optimum, and on observations whose truth is known.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <support/sentence.hpp>
#include <support/workloads.hpp>

#include "../examples/plan/folds.cpp"
#include "../examples/plan/least_squares.cpp"
#include "../examples/plan/model_fits.cpp"
#include "../examples/plan/quality.cpp"
#include "../examples/plan/regression.cpp"

using cede::colocate::resident;
using cede::colocate::workload_profile;
using cede_test::known;
using cede_test::made_by;
using cede_test::says;
using cede_test::workload;
using cede_test::world;
using doctest::Approx;
using namespace plan;

namespace {

template <class F>
std::string refusal(F&& f) {
  return cede_test::sentence_of<colocate::input_error>(f);
}

/// Observations by a law of the shared model's own form.
struct shared_world {
  std::vector<workload_profile> workloads;
  std::vector<observation> seen;

  /// ln(threads of the victim / threads of the neighbour), a tenth of it.
  static double law(const workload_profile& victim, const workload_profile& other) {
    return 0.5 + 0.1 * std::log(victim.of.threads / (other.busy * other.of.threads));
  }
  shared_world() {
    std::mt19937 random(19);
    std::uniform_real_distribution<double> any(0.2, 0.9);
    for (int i = 0; i < 12; ++i) {
      const double busy = any(random);
      const double dram = any(random);
      workloads.push_back(workload(i / 3, busy, dram, any(random)));
      workloads.back().of.threads = 1e5 * any(random);
    }
    for (const auto& a : workloads) {
      for (const auto& b : workloads) {
        seen.push_back({.together = {{&a}, {&b}}, .victim = 0, .progress = law(a, b)});
      }
    }
  }
};

}  // namespace

TEST_CASE("fits that were computed by hand") {
  const std::vector<std::vector<double>> line{{1, 1, 1}, {0, 1, 2}};
  // Normal equations: 3 a + 3 b = 6, 3 a + 5 b = 8.
  const std::vector<double> y{1, 2, 3};
  const auto fit = least_squares(line, y);
  CHECK(fit[0] == Approx(1));
  CHECK(fit[1] == Approx(1));
  // With the penalty 1: 4 a + 3 b = 6, 3 a + 6 b = 8.
  const auto ridge = least_squares(line, y, 1);
  CHECK(ridge[0] == Approx(0.8));
  CHECK(ridge[1] == Approx(14.0 / 15));
  // Falling values: the slope must be 0, and the rest their mean.
  const auto held = non_negative_least_squares(line, {3, 2, 1});
  CHECK(held[0] == Approx(2));
  CHECK(held[1] == 0);
  // The second column is twice the first: the shortest solution of a + 2 b = 3.
  const auto same = least_squares(std::vector<std::vector<double>>{{1, 2}, {2, 4}}, {3, 6});
  CHECK(same[0] == Approx(0.6));
  CHECK(same[1] == Approx(1.2));
  CHECK(says(refusal([&] { (void)least_squares(line, {1}); }), "column 1 has 3 rows"));
  CHECK(says(refusal([] { (void)non_negative_least_squares({}, {}); }), "one row at least"));
}

TEST_CASE("coefficients that are not negative satisfy the conditions of an optimum") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<std::vector<double>> a(4);
    std::vector<double> y;
    for (int r = 0; r < 9; ++r) {
      const double x = normal(random);
      for (const std::size_t c : {0U, 1U, 2U}) a[c].push_back(c == 0 ? x : normal(random));
      a[3].push_back(repeat % 3 == 0 ? x : normal(random));
      y.push_back(normal(random));
    }
    const auto x = non_negative_least_squares(a, y);
    for (std::size_t c = 0; c < 4; ++c) {
      double slope = 0;
      for (std::size_t r = 0; r < 9; ++r) {
        double rest = y[r];
        for (std::size_t k = 0; k < 4; ++k) rest -= a[k][r] * x[k];
        slope += a[c][r] * rest;
      }
      CHECK(x[c] >= 0);
      CHECK(slope < 1e-8);                 // no larger coefficient helps,
      if (x[c] > 0) CHECK(slope > -1e-8);  // nor a smaller one
    }
  }
}

TEST_CASE("a fold's training knows nothing of what is left out") {
  const world w = made_by(partition_model(known));
  std::vector<int> tested(w.seen.size(), 0);
  const auto folds = leave_out(w.seen, held_out::family);
  CHECK(folds.size() == 4);
  CHECK(leave_out(w.seen, held_out::workload).size() == 8);
  for (const fold& f : folds) {
    CHECK_FALSE(f.train.empty());
    for (const std::size_t i : f.test) ++tested[i];
    for (const std::size_t i : f.train) {
      for (const resident& r : w.seen[i].together) CHECK(r.who->family != f.group);
    }
  }
  CHECK(std::all_of(tested.begin(), tested.end(), [](int n) { return n == 1; }));
}

TEST_CASE("the partition model finds the coefficients its data were made with") {
  const world w = made_by(partition_model(known));
  const partition_model m = fit_partition(w.seen);
  CHECK(m.fitted().base == Approx(known.base));
  CHECK(m.fitted().own_dram == Approx(known.own_dram));
  CHECK(m.fitted().other_dram == Approx(known.other_dram));
  CHECK(m.fitted().own_l2 == Approx(known.own_l2));
  CHECK(m.fitted().other_l2 == Approx(known.other_l2));
  CHECK(m.p95() < 1e-6);

  world noisy = made_by(partition_model(known));
  for (std::size_t i = 0; i < noisy.seen.size(); ++i)
    noisy.seen[i].progress += i % 2 ? 0.03 : -0.03;
  const double p95 = fit_partition(noisy.seen).p95();
  CHECK(p95 > 0.02);
  CHECK(p95 < 0.06);
}

TEST_CASE("of one family nothing can be held out, and nothing is promised") {
  world w = made_by(partition_model(known));
  for (workload_profile& each : w.workloads) each.family = "same";
  const partition_model m = fit_partition(w.seen);
  const cede::colocate::answer a = m.progress(w.seen[0].together, 0);
  CHECK(m.p95() == 1);
  CHECK(a.value->bound() == 0);
}

TEST_CASE("the p95 of few errors is not known, of many it is one of them") {
  CHECK(p95_of(std::vector<double>(18, 0.1)) == 1);
  std::vector<double> errors;
  for (int i = 100; i > 0; --i) errors.push_back(i);
  CHECK(p95_of(errors) == 96);  // ceil(0.95 * 101)
}

TEST_CASE("the shared model finds the law its data were made with, and keeps its range") {
  const shared_world w;
  const shared_model m = fit_shared(w.seen, {.penalty = 1e-9, .beyond = 2});
  for (const observation& o : w.seen)
    CHECK(m.progress(o.together, 0).value->progress == Approx(std::clamp(o.progress, 0.0, 1.0)));
  workload_profile large = w.workloads[0];
  double most = 0;
  for (const auto& each : w.workloads) most = std::max(most, each.of.threads);
  const std::vector<resident> together{{&large}, {&w.workloads[1]}};
  large.of.threads = 1.9 * most;
  CHECK(m.progress(together, 0).value);
  large.of.threads = 2.1 * most;
  CHECK_FALSE(m.progress(together, 0).value);
  CHECK(says(refusal([] { (void)fit_shared({}); }), "needs two"));
  observation confined = w.seen[1];
  confined.together[1].share = 0.5;
  CHECK(says(refusal([&] { (void)fit_shared({{confined, confined}}); }), "confined to a part"));
}

TEST_CASE("the penalty of the shared model draws it to the mean") {
  const shared_world w;
  double mean = 0;
  for (const observation& o : w.seen) mean += o.progress / static_cast<double>(w.seen.size());
  const auto far = [&](double penalty) {
    const shared_model m = fit_shared(w.seen, {.penalty = penalty});
    double sum = 0;
    for (const observation& o : w.seen)
      sum += std::fabs(m.progress(o.together, 0).value->progress - mean);
    return sum;
  };
  CHECK(far(1) > far(100));
  CHECK(far(100) > far(1e4));
  CHECK(far(1e12) == Approx(0).epsilon(1e-3));
}

TEST_CASE("what no model can learn from is refused in a sentence") {
  CHECK(says(refusal([] { (void)fit_partition({}); }), "one row at least"));
  const workload_profile a = workload(0, 1, 0.5, 0.5);
  const std::vector<observation> shared{{{{&a, 0.8}, {&a, 0.8}}, 0, 0.5}};
  CHECK(says(refusal([&] { (void)fit_partition(shared); }), "disjoint shares alone"));
  CHECK(says(cede_test::sentence_of([&] { (void)fit_partition({{{{{&a, 1}}, 0, -1}}}); }),
             "give its speed in company"));
}
