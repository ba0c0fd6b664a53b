// SPDX-License-Identifier: Apache-2.0
// A baseline to measure against: nobody ever gives way.
#pragma once

#include <cede/config.hpp>
#include <cede/policy/policy.hpp>

#include <cstddef>

CEDE_BEGIN_NAMESPACE

namespace policy {

/// Lets every workload submit whenever it has something ready, whatever the latency-critical side
/// does, and raises no gate. Only suspension is respected: a suspended workload submits nothing,
/// and what it has in flight runs to its end.
///
/// One thread at a time; never waits; allocates only when the number of workloads grows.
class ungated final : public scheduling_policy {
 public:
  void decide(const view& v, verdict& out) override {
    out.actions.clear();
    out.again = nanoseconds::max();
    out.actions.reserve(v.workloads.size());
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      const workload_view& w = v.workloads[i];
      if (w.ready && !w.suspended) out.actions.push_back({verb::submit, i});
    }
  }

  [[nodiscard]] bool gives_way() const override { return false; }
};

}  // namespace policy

CEDE_END_NAMESPACE
