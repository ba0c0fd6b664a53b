// SPDX-License-Identifier: Apache-2.0
// What is known of a workload from running it alone.
#pragma once

#include <cede/colocate/solo_curve.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace colocate {

/// What a kernel asks of the device while it runs. Utilizations are fractions, 0 to 1, of what the
/// device can sustain; a profiler's percentages have to be divided by 100.
struct demand {
  double threads = 0;        ///< of the grid
  double sm_active = 0;      ///< cycles in which an SM has work: how much of the device is covered
  double issue = 0;          ///< issue slots used
  double occupancy = 0;      ///< warps resident
  double tensor = 0;         ///< cycles of the tensor pipes
  double dram = 0;           ///< DRAM throughput
  double l2 = 0;             ///< L2 throughput, in sectors
  double registers = 0;      ///< of all threads of the grid
  double static_shared = 0;  ///< bytes, of all blocks of the grid
};

/// Every field of a demand with its name, for those who have to treat all of them alike.
inline constexpr std::pair<std::string_view, double demand::*> demand_fields[] = {
    {"threads", &demand::threads},
    {"sm_active", &demand::sm_active},
    {"issue", &demand::issue},
    {"occupancy", &demand::occupancy},
    {"tensor", &demand::tensor},
    {"dram", &demand::dram},
    {"l2", &demand::l2},
    {"registers", &demand::registers},
    {"static_shared", &demand::static_shared},
};

/// One launch, measured while nothing else ran.
struct launch_profile {
  double duration_ns = 0;
  demand of{};
};

/// One workload, measured while nothing else ran.
struct workload_profile {
  std::string name;
  std::string family;  ///< the kind of body or model it belongs to
  double busy = 0;     ///< fraction of the time in which a kernel of it runs, 0 to 1
  demand of{};         ///< mean while a kernel runs, weighted by duration
  solo_curve curve{};
};

/// Throws `invalid_argument`, naming workload and field, for what cannot have been measured.
inline void check(const workload_profile& w) {
  const auto refuse = [&](std::string_view field, double value, const char* range) {
    throw invalid_argument("the profile of workload '" + w.name + "' has " + std::string(field) +
                           " = " + std::to_string(value) + "; give " + range);
  };
  if (!(w.busy >= 0 && w.busy <= 1)) refuse("busy", w.busy, "a fraction from 0 to 1");
  for (const auto& [name, field] : demand_fields) {
    const double value = w.of.*field;
    if (!(value >= 0 && std::isfinite(value))) refuse(name, value, "a number from 0");
    const bool amount = name == "threads" || name == "registers" || name == "static_shared";
    // A counter may read a little above its peak.
    if (!amount && value > 1.05) refuse(name, value, "a fraction from 0 to 1, not a percentage");
  }
}

/// The mean over launches, weighted by duration: a kernel that runs long is met often. `elapsed_ns`
/// is the time of all of it, gaps included. Throws `invalid_argument` if there is no launch, if a
/// duration is not positive, or if the launches, one after another, take longer than all of it.
[[nodiscard]] inline workload_profile summarize(std::string name, std::string family,
                                                std::span<const launch_profile> launches,
                                                double elapsed_ns) {
  workload_profile w{.name = std::move(name), .family = std::move(family)};
  double total = 0;
  for (const launch_profile& l : launches) {
    if (!(l.duration_ns > 0 && std::isfinite(l.duration_ns))) {
      throw invalid_argument("a launch of workload '" + w.name + "' has a duration of " +
                             std::to_string(l.duration_ns) +
                             " ns; leave out launches that were not timed");
    }
    total += l.duration_ns;
    for (const auto& [field_name, field] : demand_fields)
      w.of.*field += l.duration_ns * (l.of.*field);
  }
  if (launches.empty()) {
    throw invalid_argument("workload '" + w.name +
                           "' has no launch to be profiled; run one iteration of it at least");
  }
  if (!(elapsed_ns >= total && std::isfinite(elapsed_ns))) {
    throw invalid_argument("the launches of workload '" + w.name + "' take " +
                           std::to_string(total) + " ns, all of it " + std::to_string(elapsed_ns) +
                           " ns; give both in ns and profile launches one after another");
  }
  for (const auto& [field_name, field] : demand_fields) w.of.*field /= total;
  w.busy = total / elapsed_ns;
  check(w);
  return w;
}

}  // namespace colocate

CEDE_END_NAMESPACE
