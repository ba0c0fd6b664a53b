// SPDX-License-Identifier: Apache-2.0
#include "model_fits.hpp"

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "../colocate/input_error.hpp"
#include "least_squares.hpp"
#include "regression.hpp"

namespace plan {
namespace {

using colocate::input_error;
using colocate::shown;

const std::string& victim_of(const observation& o) { return o.together[o.victim].who->name; }

shared_model line_through(std::span<const observation> seen, const shared_options& o, double p95) {
  table features;
  features.columns.resize(2 * shared_model::fields);
  std::vector<double> target;
  for (const observation& each : seen) {
    check(each);
    for (const auto& r : each.together) {
      if (r.share < 1) {
        throw input_error("An observation of workload " + shown(victim_of(each)) + " has " +
                          shown(r.who->name) +
                          " confined to a part of the SMs; the shared model learns from workloads "
                          "that have all of them.");
      }
    }
    const auto f = shared_model::features(each.together, each.victim);
    for (std::size_t i = 0; i < f.size(); ++i) features.columns[i].push_back(f[i]);
    target.push_back(each.progress);
  }
  const line l = fit(features, target, o.penalty);
  shared_model::coefficients c{.base = l.intercept};
  for (std::size_t i = 0; i < l.coefficients.size(); ++i) {
    if (!(l.deviations[i] > 0)) continue;  // constant: nothing is known of it
    c.of[i] = l.coefficients[i] / l.deviations[i];
    c.base -= c.of[i] * l.means[i];
  }
  shared_model::range r = shared_model::range_of(seen);
  for (std::size_t i = 0; i < r.least.size(); ++i) {
    r.least[i] -= std::log(o.beyond);
    r.most[i] += std::log(o.beyond);
  }
  return {c, r, p95};
}

}  // namespace

partition_model::coefficients fit_coefficients(std::span<const observation> seen) {
  std::vector<std::vector<double>> features(5);
  std::vector<double> target;
  for (const observation& o : seen) {
    check(o);
    if (!partition_model::disjoint(o.together)) {
      throw input_error("An observation of workload " + shown(victim_of(o)) +
                        " has shares that add up to more than 1; the partition model learns from "
                        "disjoint shares alone.");
    }
    const auto f = partition_model::features(o.together, o.victim);
    for (std::size_t i = 0; i < f.size(); ++i) features[i].push_back(f[i]);
    target.push_back(o.progress);
  }
  const std::vector<double> x = non_negative_least_squares(features, target);
  return {.base = x[0], .own_dram = x[1], .other_dram = x[2], .own_l2 = x[3], .other_l2 = x[4]};
}

partition_model fit_partition(std::span<const observation> seen) {
  const auto c = fit_coefficients(seen);
  return partition_model(c, p95_without_family(seen, [](const std::vector<observation>& some) {
                           return partition_model(fit_coefficients(some));
                         }));
}

shared_model fit_shared(std::span<const observation> seen, const shared_options& o) {
  const auto without = [&](const std::vector<observation>& some) {
    return line_through(some, o, 1);
  };
  (void)without({seen.begin(), seen.end()});  // for what it throws, before any fold
  return line_through(seen, o, p95_without_family(seen, without));
}

}  // namespace plan
