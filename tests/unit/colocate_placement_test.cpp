// SPDX-License-Identifier: Apache-2.0
// Placements against all that could have been chosen.
#include <cede/colocate/partition_model.hpp>
#include <cede/colocate/placement.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace cede::colocate;
using doctest::Approx;

namespace {

std::vector<workload_profile> some(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> any(0, 1);
  std::vector<workload_profile> all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i].name = "w" + std::to_string(i);
    all[i].busy = any(random);
    all[i].of.dram = any(random);
    all[i].of.l2 = any(random);
    all[i].curve = solo_curve({{.share = 0.5, .speed = 0.5 + any(random) / 2}});
  }
  return all;
}
std::vector<candidate> candidates(const std::vector<workload_profile>& all) {
  std::vector<candidate> c;
  for (const workload_profile& w : all) c.push_back({.who = &w});
  return c;
}

// Every assignment of workloads to devices, one by one; pairs at most, in halves.
double by_hand(const std::vector<workload_profile>& all, const model& m, unsigned devices,
               objective goal) {
  double best = -1;
  std::size_t count = 1;
  for (std::size_t i = 0; i < all.size(); ++i) count *= devices;
  for (std::size_t code = 0; code < count; ++code) {
    std::vector<std::vector<resident>> on(devices);
    std::size_t rest = code;
    for (const workload_profile& w : all) {
      on[rest % devices].push_back({&w, 0.5});
      rest /= devices;
    }
    double sum = 0;
    double least = 1;
    bool fits = true;
    for (const auto& d : on) {
      fits = fits && d.size() <= 2;
      for (std::size_t v = 0; fits && v < d.size(); ++v) {
        const double p = d.size() == 1 ? 1 : m.progress(d, v).value->progress;
        sum += p;
        least = std::min(least, p);
      }
    }
    if (fits) best = std::max(best, goal == objective::minimum_progress ? least : sum);
  }
  return best;
}

const partition_model contended({1, 0.05, 0.3, 0.05, 0.4}, 0.03);

}  // namespace

TEST_CASE("no assignment is better than the one chosen") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto all = some(seed, 3 + seed % 3);
    for (const objective goal : {objective::weighted_speedup, objective::minimum_progress}) {
      const auto p = place(candidates(all), contended,
                           {.devices = 3, .most_together = 2, .share_steps = 2, .goal = goal});
      REQUIRE(p);
      CHECK(p->value == Approx(by_hand(all, contended, 3, goal)));
      std::vector<int> times(all.size(), 0);
      double sum = 0;
      double least = 1;
      for (const auto& device : p->devices) {
        double shares = 0;
        for (const placed& each : device) {
          ++times[each.candidate];
          shares += each.share;
          sum += each.expected.progress;
          least = std::min(least, each.expected.progress);
        }
        CHECK(shares == Approx(1));
      }
      CHECK(std::count(times.begin(), times.end(), 1) == static_cast<int>(all.size()));
      CHECK(p->value == Approx(goal == objective::minimum_progress ? least : sum));
    }
  }
}

TEST_CASE("finer shares and more devices are never worse") {
  for (unsigned seed = 0; seed < 10; ++seed) {
    const auto all = some(seed, 4);
    double before = 0;
    for (const unsigned steps : {2U, 4U, 8U}) {
      const double v =
          place(candidates(all), contended, {.devices = 2, .share_steps = steps})->value;
      CHECK(v >= before);
      before = v;
    }
    CHECK(place(candidates(all), contended, {.devices = 3})->value >= before - 1e-12);
    CHECK(place(candidates(all), contended, {.devices = 4})->value == Approx(4));
  }
}

TEST_CASE("what is required is kept by the bound, or nothing is placed") {
  const auto all = some(1, 2);
  auto c = candidates(all);
  const auto free = place(c, contended, {.devices = 1});
  REQUIRE(free);
  const auto& first = *std::find_if(free->devices[0].begin(), free->devices[0].end(),
                                    [](const placed& p) { return p.candidate == 0; });
  c[0].least_progress = first.expected.bound();
  CHECK(place(c, contended, {.devices = 1}));
  // In halves alone there is one division: between bound and mean nothing may be placed.
  c[0].least_progress = 0;
  const auto halves = place(c, contended, {.devices = 1, .share_steps = 2});
  REQUIRE(halves);
  const auto& half = halves->devices[0][0];
  REQUIRE(half.candidate == 0);
  c[0].least_progress = half.expected.bound() + 0.01;
  CHECK(c[0].least_progress < half.expected.progress);
  CHECK_FALSE(place(c, contended, {.devices = 1, .share_steps = 2}));
  c[0].least_progress = 0.99;  // which the mean of no pair reaches, less its p95
  CHECK_FALSE(place(c, contended, {.devices = 1}));
  CHECK(place(c, contended, {.devices = 2})->value == Approx(2));
  CHECK_FALSE(place(c, contended, {.devices = 1, .most_together = 1}));
}

TEST_CASE("whom the model refuses nobody is put beside") {
  const auto all = some(2, 2);
  CHECK_FALSE(place(candidates(all), contended, {.devices = 1, .share_steps = 0}));
  CHECK(place(candidates(all), contended, {.devices = 2, .share_steps = 0})->devices.size() == 2);
}

TEST_CASE("placements that make no sense are refused in a sentence") {
  const auto all = some(3, 13);
  auto one = candidates(some(3, 1));
  one[0].who = &all[0];
  const auto say = [](const std::vector<candidate>& c, const placement_options& o) -> std::string {
    try {
      (void)place(c, contended, o);
    } catch (const cede::invalid_argument& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  CHECK(say(candidates(all), {}).find("place 12 at a time") != std::string::npos);
  CHECK(say(one, {.devices = 0}).find("needs a device") != std::string::npos);
  one[0].weight = -1;
  CHECK(say(one, {}).find("'w0' has a negative weight") != std::string::npos);
  one[0].who = nullptr;
  CHECK(say(one, {}).find("has no profile") != std::string::npos);
  CHECK(place({}, contended, {})->devices.empty());
}
