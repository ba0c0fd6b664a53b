// SPDX-License-Identifier: Apache-2.0
// A small stage for the strict-priority policy: workloads whose flags a test sets by hand, and the
// decisions in words.
#pragma once

#include <cede/policy/strict_priority.hpp>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace cede_test {

struct stage {
  using nanoseconds = std::chrono::nanoseconds;
  using workload_view = cede::policy::workload_view;
  static constexpr nanoseconds default_quantum = std::chrono::milliseconds{2};

  cede::policy::strict_priority policy;
  std::vector<workload_view> workloads;
  nanoseconds now{0};
  bool active = false;
  nanoseconds idle_since{0};
  cede::policy::verdict last;

  explicit stage(std::size_t n, nanoseconds q = default_quantum)
      : policy({.quantum = q}), workloads(n) {}

  workload_view& operator[](std::size_t i) { return workloads[i]; }

  /// Lets time pass: who runs uses it.
  void pass(nanoseconds span) {
    now += span;
    for (workload_view& w : workloads)
      if (w.in_flight && !w.raised) w.used += span;
  }

  std::string decide() {
    policy.decide({now, active, idle_since, workloads}, last);
    std::string words;
    for (const auto& a : last.actions) {
      if (!words.empty()) words += ", ";
      words += (a.what == cede::policy::verb::submit ? "submit " : "raise ") +
               std::to_string(a.workload);
    }
    return words;
  }

  /// The same, carried out: what is raised leaves at once and is ready again.
  std::string step() {
    std::string words = decide();
    for (const auto& a : last.actions) {
      workload_view& w = workloads[a.workload];
      w.in_flight = a.what == cede::policy::verb::submit;
      w.ready = a.what == cede::policy::verb::raise;
    }
    return words;
  }
};

}  // namespace cede_test
