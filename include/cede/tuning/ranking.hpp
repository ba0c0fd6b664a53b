// SPDX-License-Identifier: Apache-2.0
// What is to be expected of each candidate, and how sure that is: the cost model, corrected by how
// far it was off for those that were measured.
#pragma once

#include <cede/config.hpp>
#include <cede/tuning/candidate.hpp>
#include <cede/tuning/cost_model.hpp>
#include <cede/tuning/gaussian_process.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

struct prospect {
  candidate what;
  unsigned under_way = 0;  ///< launches in it that have not ended
  bool fits = false;       ///< the bound, as far as is known, is within the budget
  double expected = 0;     ///< log of time in ns, room included
  double deviation = 0;    ///< of `expected`
};

/// Where a candidate stands among those of its form.
[[nodiscard]] inline gaussian_process::point place(const candidate& c) {
  const auto log = [](double x) { return std::log2(std::max(x, 1.0)); };
  switch (c.how) {
    case form::persistent:
      return {3, {log(c.workers_per_sm), log(c.batch)}};
    case form::gated:
      return {2, {0, log(static_cast<double>(c.chunk))}};
    case form::sliced:
      return {1, {0, log(static_cast<double>(c.slices))}};
    default:
      return {0, {0, 0}};
  }
}

/// How much one launch's time differs from the next one's, as a share.
[[nodiscard]] inline double noise(const cost_model& model) {
  constexpr double first_noise = 0.03;  // before anything was repeated
  double sum = 2 * first_noise;
  double weight = 2;
  for (const record& r : model.records()) {
    if (r.elapsed.size() < 2) continue;
    const double middle = r.elapsed.median();
    recent<16> off;
    for (const double t : r.elapsed.values()) off.add(std::abs(std::log(t / middle)));
    const auto n = static_cast<double>(r.elapsed.size() - 1);
    sum += n * 1.5 * off.median();
    weight += n;
  }
  return std::clamp(sum / weight, 0.004, 0.1);
}

/// Computes what is expected of every candidate. `room`: what occupying all places for blocks
/// counts like, as a share of time.
inline void estimate(const cost_model& model, nanoseconds budget, double room,
                     std::vector<prospect>& of) {
  const double s = noise(model);
  gaussian_process process({.common = 0.05, .family = 0.1, .local = 0.2, .reach = {1, 2}});
  for (const record& r : model.records()) {
    const std::optional<double> t = model.time(r.what);
    if (r.elapsed.empty() || !t) continue;
    const double residual = std::log(r.elapsed.median() / *t);
    const auto n = static_cast<double>(r.elapsed.size());
    process.add(place(r.what), residual, s * s / n);
  }
  process.fit();
  for (prospect& e : of) {
    const std::optional<nanoseconds> b = model.bound(e.what);
    e.fits = b && *b <= budget;
    const std::optional<double> t = model.time(e.what);
    if (!t) continue;
    const auto v = process.predict(place(e.what));
    e.expected = std::log(*t) + v.mean + room * occupied(e.what, model.launch());
    e.deviation = v.deviation / std::sqrt(1.0 + e.under_way);
  }
}

}  // namespace tuning

CEDE_END_NAMESPACE
