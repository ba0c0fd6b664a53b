// SPDX-License-Identifier: Apache-2.0
// The shared model, the trivial rules and the correction by what is observed, on data whose truth
// is known.
#include <cede/colocate/online.hpp>
#include <cede/colocate/rules.hpp>
#include <cede/colocate/shared_model.hpp>

#include <doctest/doctest.h>
#include <support/sentence.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using cede_test::says;
using cede_test::sentence_of;
using namespace cede::colocate;
using doctest::Approx;

namespace {

workload_profile workload(std::string name, double busy, double threads, double issue = 0.5) {
  workload_profile w;
  w.name = std::move(name);
  w.busy = busy;
  w.of.threads = threads;
  w.of.issue = issue;
  return w;
}

/// ln(threads of the victim / threads of its neighbours), a tenth of it.
shared_model::coefficients larger_grid_wins() {
  shared_model::coefficients c{.base = 0.5};
  c.of[0] = 0.1;
  c.of[shared_model::fields] = -0.1;
  return c;
}

}  // namespace

TEST_CASE("the shared model follows its formula, victim and neighbours apart") {
  const workload_profile a = workload("a", 1, 1000);
  const workload_profile b = workload("b", 0.5, 4000);
  const workload_profile c = workload("c", 0.25, 8000);
  const shared_model m(larger_grid_wins(), shared_model::range_of({}), 0.07);
  const std::vector<resident> both{{&a}, {&b}};
  CHECK(m.progress(both, 0).value->progress == Approx(0.5 + 0.1 * std::log(1000.0 / 2000)));
  CHECK(m.progress(both, 1).value->progress == Approx(0.5 + 0.1 * std::log(4000.0 / 1000)));
  CHECK(m.progress(both, 0).value->p95 == 0.07);
  // 0.5 × 4000 + 0.25 × 8000.
  const std::vector<resident> three{{&a}, {&b}, {&c}};
  CHECK(m.progress(three, 0).value->progress == Approx(0.5 + 0.1 * std::log(1000.0 / 4000)));
  const std::vector<resident> alone{{&a}};
  CHECK(m.progress(alone, 0).value->progress == 1);
  CHECK(m.progress(alone, 0).value->p95 == 0);
}

TEST_CASE("the shared model says no more than 0 to 1") {
  shared_model::coefficients c{.base = 3};
  const workload_profile a = workload("a", 1, 10);
  const std::vector<resident> both{{&a}, {&a}};
  CHECK(shared_model(c, shared_model::range_of({})).progress(both, 0).value->progress == 1);
  c.base = -3;
  CHECK(shared_model(c, shared_model::range_of({})).progress(both, 1).value->progress == 0);
}

TEST_CASE("the shared model refuses what it has not seen, and shares") {
  const workload_profile a = workload("a", 1, 1000);
  const workload_profile b = workload("b", 0.5, 4000);
  const workload_profile large = workload("large", 1, 9000);
  std::vector<observation> seen;
  seen.push_back({.together = {{&a}, {&b}}, .victim = 0, .progress = 0.5});
  seen.push_back({.together = {{&a}, {&b}}, .victim = 1, .progress = 0.5});
  const shared_model m(larger_grid_wins(), shared_model::range_of(seen));
  for (const std::size_t victim : {0U, 1U}) CHECK(m.progress(seen[0].together, victim).value);
  const std::vector<resident> new_victim{{&large}, {&b}};
  const answer one = m.progress(new_victim, 0);
  CHECK_FALSE(one.value);
  CHECK(says(one.refusal, "'large' the victim's threads is 9000"));
  const workload_profile small = workload("small", 1, 900);
  const std::vector<resident> small_victim{{&small}, {&b}};
  CHECK(says(m.progress(small_victim, 0).refusal, "the victim's threads is 900"));
  const std::vector<resident> new_neighbour{{&a}, {&large}};
  CHECK(says(m.progress(new_neighbour, 0).refusal, "the neighbours' threads"));
  const std::vector<resident> confined{{&a, 0.5}, {&b}};
  CHECK(says(m.progress(confined, 1).refusal, "'a' is confined"));
}

TEST_CASE("misuse of the shared model is said in a sentence") {
  const shared_model::range all = shared_model::range_of({});
  shared_model::coefficients c;
  c.of[3] = std::numeric_limits<double>::quiet_NaN();
  CHECK(says(sentence_of([&] { shared_model(c, all); }), "no finite number"));
  CHECK(says(sentence_of([&] { shared_model({}, all, 1.5); }), "p95 = 1.5"));
  shared_model::range none = all;
  none.least[shared_model::fields] = 2;
  none.most[shared_model::fields] = 1;
  CHECK(says(sentence_of([&] { shared_model({}, none); }), "the neighbours' threads"));
  const shared_model m({}, all);
  CHECK(says(sentence_of([&] { (void)m.progress({}, 0); }), "does not exist"));
  const std::vector<resident> nobody{{nullptr}, {nullptr}};
  CHECK(says(sentence_of([&] { (void)m.progress(nobody, 0); }), "no profile"));
}

TEST_CASE("rules choose the first of the best") {
  const std::vector<workload_profile> some{workload("a", 0.6, 1, 0.9), workload("b", 0.3, 1, 0.9),
                                           workload("c", 0.3, 1, 0.2), workload("d", 1, 1, 0.54)};
  CHECK(choose_by(rule::least_busy, some) == 1);
  CHECK(choose_by(rule::largest_sm, some) == 0);  // 0.54, as the last one's
  // Seldom there, however much it uses while it is.
  const std::vector<workload_profile> seldom{workload("e", 0.1, 1, 1), workload("f", 1, 1, 0.5)};
  CHECK(choose_by(rule::largest_sm, seldom) == 1);
  std::vector<int> hits(4);
  for (std::uint64_t n = 0; n < 4000; ++n) ++hits[choose_by(rule::random, some, n)];
  for (const int h : hits) CHECK(std::abs(h - 1000) < 150);
  CHECK(choose_by(rule::random, some, 5) == choose_by(rule::random, some, 5));
  CHECK(says(sentence_of([] { (void)choose_by(rule::random, {}); }), "no candidates"));
  const std::vector<workload_profile> wrong{workload("w", 60, 1)};
  CHECK(says(sentence_of([&] { (void)choose_by(rule::least_busy, wrong); }), "'w' has busy"));
}

TEST_CASE("the correction is none at first, finds a constant truth, and follows one that moves") {
  online_correction c;
  for (const double p : {0.0, 0.3, 1.0}) CHECK(c(p) == p);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(0.2, 0.9);
  std::normal_distribution<double> noise(0, 0.01);
  for (int i = 0; i < 2000; ++i) {
    const double p = any(random);
    c.observe(p, 0.1 + 0.7 * p + noise(random));
  }
  CHECK(c.offset() == Approx(0.1).epsilon(0.1));
  CHECK(c.factor() == Approx(0.7).epsilon(0.03));
  for (int i = 0; i < 2000; ++i) {
    const double p = any(random);
    c.observe(p, 0.9 * p);
  }
  CHECK(c(0.5) == Approx(0.45).epsilon(0.01));
  CHECK(c.seen() == 4000);
  CHECK(c(1e9) == 1);
  CHECK(c(-1e9) == 0);
}

TEST_CASE("the first observation moves it by hand-computed steps") {
  // Trust 1, no forgetting: covariance 1, k = (1, p) / (1 + 1 + p²); p = 1, error 0.3.
  online_correction c({.forgetting = 1, .trust = 1});
  c.observe(1, 0.7);
  CHECK(c.offset() == Approx(-0.1));
  CHECK(c.factor() == Approx(0.9));
  // Covariance now (2/3, -1/3; -1/3, 2/3). p = 0: k = (2/3, -1/3) / (5/3), error 0.2 + 0.1.
  c.observe(0, 0.2);
  CHECK(c.offset() == Approx(-0.1 + 0.4 * 0.3));
  CHECK(c.factor() == Approx(0.9 - 0.2 * 0.3));
}

TEST_CASE("a prediction that repeats for long does not make the correction run away") {
  online_correction c({.forgetting = 0.9, .trust = 10});
  for (int i = 0; i < 100000; ++i) c.observe(0.5, i % 2 == 0 ? 0.52 : 0.48);
  // Elsewhere it has learned nothing; what it now sees there is weighed, not swallowed.
  c.observe(0.9, 0.0);
  CHECK(c(0.5) > 0.3);
  CHECK(std::isfinite(c.factor()));
  c.observe(std::numeric_limits<double>::quiet_NaN(), 1);
  c.observe(1, std::numeric_limits<double>::infinity());
  CHECK(std::isfinite(c(0.5)));
  CHECK(c.seen() == 100001);
}

TEST_CASE("misuse of the correction is said in a sentence") {
  for (const double f : {0.0, -1.0, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(says(sentence_of([&] { online_correction({.forgetting = f}); }), "above 0"));
  }
  CHECK(says(sentence_of([] { online_correction({.trust = 0}); }), "positive number"));
}
