// SPDX-License-Identifier: Apache-2.0
// What the tuner says to people: what was tried, and what would help a launch that is too coarse.
#pragma once

#include <cede/config.hpp>
#include <cede/stats.hpp>
#include <cede/tuning/candidate.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// Sentences: why a launch cannot keep a budget, or only slowly, and what would help. `slowdown`:
/// time of the choice against the fastest configuration known. Does not wait.
[[nodiscard]] inline std::string too_coarse_text(const cost_model& model, const candidate& choice,
                                                 nanoseconds budget, double slowdown) {
  using detail::short_time;
  const launch_facts& l = model.launch();
  const std::optional<nanoseconds> bound = model.bound(choice);
  const bool late = bound && *bound > budget;

  std::string text = "too coarse for a turnaround of " + short_time(budget) + ": ";
  if (late) {
    text += "what leaves soonest (" + to_text(choice) + ") may take " + short_time(*bound);
  } else {
    char times[32];
    std::snprintf(times, sizeof times, "%.1f", slowdown);
    text += "what leaves in time (" + to_text(choice) + ") takes " + times +
            " times as long as the fastest configuration";
  }
  const record* r = model.find(choice);
  const bool tiles = choice.how == form::persistent || choice.how == form::gated;
  if (r != nullptr && !r->longest.empty()) {
    const auto longest = nanoseconds{static_cast<std::int64_t>(longest_known(*r))};
    text +=
        std::string(tiles ? ", its longest tile " : ", its longest piece ") + short_time(longest);
  }
  text += ". What would help: ";

  std::vector<std::string> help;
  if (l.traits.whole) {
    help.emplace_back("a body that does without `whole` could leave after any tile");
  } else if (l.cluster > 1 && !l.traits.clustered) {
    help.emplace_back("declare the body `clustered`, if it keeps that contract, and it can leave");
  } else {
    help.emplace_back("tiles that do less each, in a larger grid");
    if (l.traits.native) {
      help.emplace_back("leave out `native`, if the body is safe in persistent workers");
    } else if (!l.traits.independent) {
      help.emplace_back(
          "declare the body `independent`, if its tiles may run in any order, and leave long tiles "
          "in the middle where should_yield() says so");
    } else if (l.state_bytes == 0) {
      help.emplace_back("leave long tiles in the middle where should_yield() says so");
    }
  }
  // Enough for what is nearly as fast as the fastest.
  nanoseconds enough = nanoseconds::max();
  const std::optional<double> mine = model.time(choice);
  for (const record& each : model.records()) {
    const auto b = model.bound(each.what);
    const auto t = model.time(each.what);
    if (b && t && mine && *t <= 1.1 * *mine / std::max(slowdown, 1.0))
      enough = std::min(enough, *b);
  }
  if (enough == nanoseconds::max() && bound) enough = *bound;
  if (enough > budget && enough < nanoseconds::max()) {
    help.push_back("allow a turnaround of " + short_time(enough));
  }
  for (std::size_t i = 0; i < help.size(); ++i) text += (i == 0 ? "" : "; or ") + help[i];
  return text + '.';
}

/// A line for the choice and one for each configuration that was launched, the fastest first.
/// Every line ends with a newline. Does not wait.
[[nodiscard]] inline std::string explain_text(const cost_model& model, const candidate& choice,
                                              std::string_view state, nanoseconds budget) {
  using detail::short_time;
  const auto time_of = [](double ns) {
    return short_time(nanoseconds{static_cast<std::int64_t>(ns)});
  };
  std::string text(state);
  text += ": " + to_text(choice) + ", turnaround within " + short_time(budget) + '\n';
  std::vector<const record*> order;
  for (const record& r : model.records()) order.push_back(&r);
  const auto key = [](const record* r) { return r->elapsed.empty() ? 1e300 : r->elapsed.median(); };
  std::stable_sort(order.begin(), order.end(),
                   [&](const record* a, const record* b) { return key(a) < key(b); });
  for (const record* r : order) {
    const auto bound = model.bound(r->what);
    text += r->what == choice ? " * " : "   ";
    text += to_text(r->what) + ": ";
    text += r->elapsed.empty() ? "no whole launch" : "takes " + time_of(r->elapsed.median());
    if (!r->longest.empty()) text += ", longest piece " + time_of(longest_known(*r));
    if (bound) {
      text += ", leaves within " + short_time(*bound);
      if (*bound > budget) text += " (too late)";
    }
    text += ", " + std::to_string(r->launches) + (r->launches == 1 ? " launch\n" : " launches\n");
  }
  return text;
}

}  // namespace tuning

CEDE_END_NAMESPACE
