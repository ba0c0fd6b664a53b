// SPDX-License-Identifier: Apache-2.0
// A device in virtual time whose costs are known: what a launch takes in any configuration, with
// noise, and what it would take without. Its formulas are not those of the library's cost model.
#pragma once

#include <cede/tuning/candidate.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/random.hpp"

namespace cede_test {

using cede::form;
using cede::tuning::candidate;
using cede::tuning::launch_facts;
using cede::tuning::machine_facts;
using std::chrono::nanoseconds;

/// Times in ns.
struct simulated_body {
  std::string name;
  launch_facts launch;
  double alone = 1000;     ///< a tile, one block on its SM
  double saturated = 300;  ///< a tile's share of an SM's time when many run there
  double skew = 1.5;       ///< longest tile by mean tile
  double loop = 50;     ///< what a persistent worker adds to a tile; negative: it saves that much
  double crowding = 0;  ///< share by which each block beyond saturation makes all slower
  double claim = 300;
};

struct simulated_noise {
  double spread = 0.02;    ///< deviation of the logarithm of a time
  double outliers = 0.03;  ///< share of launches that something else disturbs
  double yields = 0.15;    ///< share of launches that leave in the middle
};

class tuning_simulator {
 public:
  tuning_simulator(simulated_body b, machine_facts m, simulated_noise n, std::uint64_t seed)
      : body_(std::move(b)), machine_(m), noise_(n), random_(seed) {}

  static constexpr double flag = 5000;
  static constexpr double empty_launch = 4000;

  [[nodiscard]] const simulated_body& body() const { return body_; }
  [[nodiscard]] const machine_facts& machine() const { return machine_; }
  void become(const simulated_body& b) { body_ = b; }

  /// Mean time of a tile with so many blocks on an SM.
  [[nodiscard]] double tile(double blocks) const {
    const double p = 6;
    const double t =
        std::pow(std::pow(body_.alone, p) + std::pow(body_.saturated * blocks, p), 1 / p);
    const double knee = body_.alone / body_.saturated;
    return t * (1 + body_.crowding * std::max(0.0, blocks - knee));
  }
  /// Time of a whole launch without noise.
  [[nodiscard]] double time(const candidate& c) const {
    const auto tiles = static_cast<double>(body_.launch.tiles);
    const double native = std::max(1U, body_.launch.native_fit);
    switch (c.how) {
      case form::persistent: {
        const auto workers = static_cast<double>(workers_of(c, body_.launch, machine_));
        const double per_sm = workers / machine_.sms;
        const double one = std::max(tile(std::max(per_sm, 1.0)) + body_.loop, 50.0);
        const double share = tiles / workers;
        const double claims = share / c.batch;
        const double even = share < 10 ? std::ceil(share) * one : (share + 0.6) * one;
        return empty_launch + std::max(even + claims * body_.claim, tiles / c.batch);
      }
      case form::gated: {
        const double groups = std::ceil(tiles / static_cast<double>(c.chunk) / 8);
        return empty_launch + 3000 * groups +
               std::max(waves(tiles, native) * (tile(native) + 350), tiles * 1.1);
      }
      case form::sliced: {
        const auto k = static_cast<double>(c.slices);
        return k * (4500 + waves(std::ceil(tiles / k), native) * tile(native));
      }
      default:
        return empty_launch + std::max(waves(tiles, native) * tile(native), 0.7 * tiles);
    }
  }
  /// The longest stretch that a raise cannot cut; where a whole claim is, the mean of its tiles.
  [[nodiscard]] double longest(const candidate& c) const {
    if (c.how == form::whole) return time(c);
    if (c.how == form::sliced) return time(c) / static_cast<double>(c.slices);
    return longest(c, c.how == form::persistent && !gives_back(c, body_.launch) ? c.batch : 1);
  }
  /// Of so many tiles, the mean.
  [[nodiscard]] double longest(const candidate& c, double b) const {
    const double blocks =
        c.how == form::persistent
            ? static_cast<double>(workers_of(c, body_.launch, machine_)) / machine_.sms
            : body_.launch.native_fit;
    return tile(std::max(blocks, 1.0)) * (1 + (body_.skew - 1) / std::sqrt(b));
  }
  /// What a raise may have to wait for.
  [[nodiscard]] double bound(const candidate& c) const {
    return flag + pieces_after_raise(c, body_.launch, machine_) * longest(c) +
           0.65 * static_cast<double>(blocks_after_raise(c, body_.launch, machine_));
  }

  cede::tuning::observation run(const candidate& c) {
    cede::tuning::observation o;
    double t = time(c) * std::exp(noise_.spread * normal());
    if (random_.chance(noise_.outliers)) t *= 1.3 + 1.7 * random_.unit();
    o.tiles = body_.launch.tiles;
    // Measured in the tiles of the launch, where it does not fall far from what is most.
    double l = longest(c, std::max(1U, c.batch)) * std::exp(-0.06 * random_.unit());
    if (c.how != form::whole && random_.chance(noise_.yields)) {
      const double share = 0.05 + 0.9 * random_.unit();
      o.complete = false;
      o.tiles = std::max<std::uint64_t>(
          1, static_cast<std::uint64_t>(share * static_cast<double>(o.tiles)));
      t *= share;
    }
    o.elapsed = nanoseconds(static_cast<std::int64_t>(t));
    // Nothing measures tiles in gated blocks.
    if (c.how == form::persistent) o.longest = nanoseconds(static_cast<std::int64_t>(l));
    return o;
  }

  /// The fastest of all candidates within a budget, by their true times; none: its time is 0.
  struct best {
    candidate what;
    double time = 0;
  };
  [[nodiscard]] best sweep(double budget) const {
    best b;
    for (const candidate& c : enumerate(body_.launch, machine_)) {
      if (bound(c) > budget) continue;
      if (b.time == 0 || time(c) < b.time) b = {c, time(c)};
    }
    return b;
  }

 private:
  [[nodiscard]] double waves(double tiles, double native) const {
    const double share = tiles / (native * machine_.sms);
    return share < 10 ? std::ceil(share) : share + 0.4;
  }
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random_.unit();
    return sum;
  }

  simulated_body body_;
  machine_facts machine_;
  simulated_noise noise_;
  random random_;
};

inline machine_facts large_gpu() { return {.sms = 132, .watchers = 1, .clusters = true}; }
inline machine_facts small_gpu() { return {.sms = 16, .watchers = 1, .clusters = false}; }

/// Bodies like those of the benchmarks, with times as they were measured on an H200.
inline std::vector<simulated_body> simulated_bodies() {
  const auto plain = [](std::uint64_t tiles, unsigned workers, unsigned native) {
    launch_facts l;
    l.tiles = tiles;
    l.workers_fit = workers;
    l.native_fit = native;
    return l;
  };
  std::vector<simulated_body> all{
      {"saxpy, medium", plain(32'768, 8, 8), 1400, 350, 2.0, 60},
      {"saxpy, large", plain(524'288, 8, 8), 1400, 350, 2.0, 60},
      {"one element, medium", plain(65'536, 8, 8), 1000, 150, 1.9, -60},
      {"block reduction, large", plain(2'097'152, 8, 8), 800, 120, 2.2, 70},
      {"layer norm, medium", plain(49'152, 8, 8), 1700, 270, 2.0, 120},
      {"adamw, large: fewer workers are faster", plain(280'000, 6, 6), 3000, 900, 1.8, 30, 0.05},
      {"attention, medium", plain(3960, 3, 3), 6000, 3500, 1.35, 300},
      {"tensor product, large", plain(19'000, 1, 1), 8500, 8000, 1.15, 250},
      {"product, large: long tiles", plain(40'000, 3, 6), 21'000, 6200, 1.15, 300},
      {"sparse product: skewed tiles", plain(35'000, 8, 8), 6200, 900, 8, 100},
      {"stencil: workers beat native blocks", plain(32'000, 6, 6), 3900, 900, 1.5, -500},
      {"short blocks, many fit", plain(1'000'000, 32, 32), 2000, 100, 1.6, 20},
      {"few tiles", plain(528, 4, 4), 5200, 1500, 1.3, 200},
      {"one short wave", plain(500, 8, 8), 2600, 500, 1.3, 60},
      {"latency-bound: more workers are faster", plain(60'000, 8, 8), 9000, 900, 1.2, 100},
      {"very long tiles", plain(2000, 2, 2), 400'000, 150'000, 1.2, 100},
  };
  simulated_body scan{"scan: looks back", plain(12'288, 5, 6), 6500, 1400, 2.4, 900};
  scan.launch.traits.looks_back = true;
  all.push_back(scan);
  simulated_body native{"native: gated or slices", plain(40'000, 0, 6), 5000, 1300, 1.4, 0};
  native.launch.traits.native = true;
  all.push_back(native);
  simulated_body independent{
      "independent, long tiles", plain(20'000, 4, 4), 10'000, 3000, 1.2, 150};
  independent.launch.traits.independent = true;
  all.push_back(independent);
  simulated_body whole{"whole: one form only", plain(1200, 0, 4), 8000, 2500, 1.2, 0};
  whole.launch.traits.whole = true;
  all.push_back(whole);
  simulated_body clusters{"clusters", plain(16'384, 2, 2), 9000, 5000, 1.2, 300};
  clusters.launch.cluster = 2;
  clusters.launch.traits.clustered = true;
  all.push_back(clusters);
  return all;
}

}  // namespace cede_test
