// SPDX-License-Identifier: Apache-2.0
// Profiles and the partition model, by hand and by what must always hold.
#include <cede/colocate/model.hpp>
#include <cede/colocate/partition_model.hpp>
#include <cede/colocate/profile.hpp>
#include <cede/colocate/solo_curve.hpp>

#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <support/sentence.hpp>
#include <support/workloads.hpp>

using cede_test::known;
using cede_test::says;
using cede_test::sentence_of;
using cede_test::workload;
using namespace cede::colocate;
using doctest::Approx;

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
}
