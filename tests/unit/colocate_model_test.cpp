// SPDX-License-Identifier: Apache-2.0
// Profiles, fits and the partition model, on data whose truth is known.
#include <cede/colocate/folds.hpp>
#include <cede/colocate/least_squares.hpp>
#include <cede/colocate/model.hpp>
#include <cede/colocate/partition_model.hpp>
#include <cede/colocate/profile.hpp>
#include <cede/colocate/solo_curve.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <support/sentence.hpp>

using cede_test::says;
using cede_test::sentence_of;
using namespace cede::colocate;
using doctest::Approx;

namespace {

workload_profile workload(int family, double busy, double dram, double l2) {
  workload_profile w;
  w.name = "w" + std::to_string(family) + "/" + std::to_string(dram);
  w.family = "f" + std::to_string(family);
  w.busy = busy;
  w.of.dram = dram;
  w.of.l2 = l2;
  w.curve = solo_curve({{.share = 0.5, .speed = 0.7}});
  return w;
}

struct world {
  std::vector<workload_profile> workloads;
  std::vector<observation> seen;
};

// All ordered pairs at three shares, with the progress that a model says.
world made_by(const partition_model& truth) {
  world w;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> any(0.1, 0.9);
  for (int i = 0; i < 8; ++i) {
    const double busy = any(random);
    const double dram = any(random);
    w.workloads.push_back(workload(i / 2, busy, dram, any(random)));
  }
  for (const workload_profile& a : w.workloads) {
    for (const workload_profile& b : w.workloads) {
      if (&a == &b) continue;
      for (const double share : {0.25, 0.5, 0.75}) {
        observation o{.together = {{&a, share}, {&b, 1 - share}}};
        o.progress = truth.progress(o.together, 0).value->progress;
        w.seen.push_back(o);
      }
    }
  }
  return w;
}

const partition_model::coefficients known{
    .base = 0.98, .own_dram = 0.05, .other_dram = 0.2, .own_l2 = 0.1, .other_l2 = 0.3};

}  // namespace

TEST_CASE("a solo curve goes through its points and never falls") {
  const solo_curve c(
      {{.share = 0.5, .speed = 0.8}, {.share = 0.25, .speed = 0.4}, {.share = 0.75, .speed = 0.7}});
  CHECK(c.at(0.125) == Approx(0.2));
  CHECK(c.at(0.25) == Approx(0.4));
  CHECK(c.at(0.375) == Approx(0.6));
  CHECK(c.at(0.75) == Approx(0.8));
  CHECK(c.at(1) == 1);
  CHECK(solo_curve{}.at(0.3) == Approx(0.3));
  CHECK(says(sentence_of([&] { (void)c.at(0); }), "a share is above 0"));
  CHECK(says(sentence_of([] { solo_curve({{0.5, 0.1}, {0.5, 0.2}}); }), "two points"));
  CHECK(says(sentence_of([] { solo_curve({{50, 0.1}}); }), "SMs used by SMs"));
  CHECK(says(sentence_of([] { solo_curve({{0.5, -1}}); }), "give the speed"));
}

TEST_CASE("a workload's profile is the mean of its launches, by duration") {
  launch_profile one{.duration_ns = 300};
  one.of.dram = 0.8;
  launch_profile two{.duration_ns = 100};
  two.of.threads = 400;
  const std::vector<launch_profile> both{one, two};
  const workload_profile w = summarize("train", "mlp", both, 800);
  CHECK(w.busy == Approx(0.5));
  CHECK(w.of.dram == Approx(0.6));
  CHECK(w.of.threads == Approx(100));

  CHECK(says(sentence_of([&] { (void)summarize("x", "", {}, 1); }), "no launch"));
  CHECK(says(sentence_of([&] { (void)summarize("x", "", both, 399); }), "give both in ns"));
  const std::vector<launch_profile> none{{.duration_ns = 0}};
  CHECK(says(sentence_of([&] { (void)summarize("x", "", none, 1); }), "not timed"));
  std::vector<launch_profile> percent{one};
  percent[0].of.dram = 80;
  CHECK(says(sentence_of([&] { (void)summarize("x", "", percent, 300); }), "not a percentage"));
}

TEST_CASE("fits that were computed by hand") {
  table line(2);
  for (const double x : {0.0, 1.0, 2.0}) line.add(std::vector<double>{1, x});
  // Normal equations: 3 a + 3 b = 6, 3 a + 5 b = 8.
  const std::vector<double> y{1, 2, 3};
  const auto fit = least_squares(line, y);
  CHECK(fit.coefficients[0] == Approx(1));
  CHECK(fit.coefficients[1] == Approx(1));
  // With the penalty 1: 4 a + 3 b = 6, 3 a + 6 b = 8.
  const auto ridge = least_squares(line, y, 1);
  CHECK(ridge.coefficients[0] == Approx(0.8));
  CHECK(ridge.coefficients[1] == Approx(14.0 / 15));
  // Falling values: the slope must be 0, and the rest their mean.
  const auto held = non_negative_least_squares(line, std::vector<double>{3, 2, 1});
  CHECK(held[0] == Approx(2));
  CHECK(held[1] == 0);

  table twice(2);
  for (const double x : {1.0, 2.0}) twice.add(std::vector<double>{x, 2 * x});
  const auto same = least_squares(twice, std::vector<double>{3, 6});
  CHECK(same.coefficients[0] == Approx(3));
  CHECK(same.coefficients[1] == 0);
  CHECK_FALSE(same.kept[1]);
  CHECK(says(sentence_of([&] { (void)least_squares(twice, std::vector<double>{1}); }),
             "one value for each row"));
  CHECK(says(sentence_of([&] { (void)least_squares(line, y, -1); }), "give 0 for none"));
  CHECK(says(sentence_of([&] { twice.add(std::vector<double>{1}); }), "one number for each"));
}

TEST_CASE("coefficients that are not negative satisfy the conditions of an optimum") {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (int repeat = 0; repeat < 300; ++repeat) {
    table a(4);
    std::vector<double> y;
    for (int r = 0; r < 9; ++r) {
      const double x = normal(random);
      a.add(std::vector<double>{x, normal(random), normal(random),
                                repeat % 3 == 0 ? x : normal(random)});
      y.push_back(normal(random));
    }
    const auto x = non_negative_least_squares(a, y);
    for (std::size_t c = 0; c < 4; ++c) {
      double slope = 0;
      for (std::size_t r = 0; r < 9; ++r) {
        double rest = y[r];
        for (std::size_t k = 0; k < 4; ++k) rest -= a.at(r, k) * x[k];
        slope += a.at(r, c) * rest;
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

TEST_CASE("a prediction that was computed by hand") {
  const workload_profile a = workload(0, 0.5, 0.4, 0.8);
  const workload_profile b = workload(1, 1, 0.6, 0.2);
  const std::vector<resident> pair{{&a, 0.5}, {&b, 0.25}};
  // 0.7 (0.98 - 0.05 * 0.4 * 0.5 * 0.5 - 0.2 * 0.6 * 0.25 - 0.1 * 0.8 * 0.5 * 0.5
  //      - 0.3 * 0.2 * 0.25)
  CHECK(partition_model(known).progress(pair, 0).value->progress == Approx(0.637));
  // 0.35 (0.98 - 0.05 * 0.6 * 0.25 - 0.2 * 0.4 * 0.25 - 0.1 * 0.2 * 0.25 - 0.3 * 0.8 * 0.25)
  CHECK(partition_model(known).progress(pair, 1).value->progress == Approx(0.310625));
}

TEST_CASE("of one family nothing can be held out, and nothing is promised") {
  world w = made_by(partition_model(known));
  for (workload_profile& each : w.workloads) each.family = "same";
  const partition_model m = fit_partition(w.seen);
  const answer a = m.progress(w.seen[0].together, 0);
  CHECK(m.p95() == 1);
  CHECK(a.value->bound() == 0);
}

TEST_CASE("one more workload never raises the progress of another") {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> any(0, 1);
  for (int repeat = 0; repeat < 1000; ++repeat) {
    const partition_model m(
        {any(random) + 0.5, any(random), any(random), any(random), any(random)});
    const workload_profile a = workload(0, any(random), any(random), any(random));
    const workload_profile b = workload(1, any(random), any(random), any(random));
    const workload_profile c = workload(2, any(random), any(random), any(random));
    const std::vector<resident> three{{&a, 0.3}, {&b, 0.4}, {&c, 0.3}};
    const double all = m.progress(three, 0).value->progress;
    const double two = m.progress({three.data(), 2}, 0).value->progress;
    CHECK(all <= two);
    CHECK(two <= m.progress({three.data(), 1}, 0).value->progress);
  }
}

TEST_CASE("the partition model says what it cannot be used for") {
  const workload_profile a = workload(0, 1, 0.5, 0.5);
  const partition_model m(known);
  const std::vector<resident> overlap{{&a, 0.8}, {&a, 0.8}};
  const answer refused = m.progress(overlap, 0);
  CHECK_FALSE(refused.value);
  CHECK(says(refused.refusal, "SMs of their own"));
  CHECK(says(sentence_of([&] { (void)m.progress(overlap, 2); }), "does not exist"));
  const std::vector<resident> nobody{{nullptr, 1}};
  CHECK(says(sentence_of([&] { (void)m.progress(nobody, 0); }), "no profile"));
  const std::vector<resident> wide{{&a, 2}};
  CHECK(says(sentence_of([&] { (void)m.progress(wide, 0); }), "at most 1"));
  CHECK(says(sentence_of([] { partition_model({.other_l2 = -1}); }), "numbers from 0"));
  CHECK(says(sentence_of([] { partition_model({}, 2); }), "p95"));
  CHECK(says(sentence_of([] { (void)fit_partition({}); }), "one row at least"));
  const std::vector<observation> shared{{overlap, 0, 0.5}};
  CHECK(says(sentence_of([&] { (void)fit_partition(shared); }), "disjoint shares alone"));
}

TEST_CASE("the p95 of few errors is not known, of many it is one of them") {
  CHECK(p95_of(std::vector<double>(18, 0.1)) == 1);
  std::vector<double> errors;
  for (int i = 100; i > 0; --i) errors.push_back(i);
  CHECK(p95_of(errors) == 96);  // ceil(0.95 * 101)
}
