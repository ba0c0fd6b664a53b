// SPDX-License-Identifier: Apache-2.0
// A policy of one's own: jobs run one after the other, each to its end, in the order in which their
// workloads were made. Prints who finished when.
#include <cede/cede.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace {

/// The rules that any policy should keep: latency-critical work drives the rest off the device, and
/// a suspended workload leaves and submits nothing. What remains to decide is who comes next.
class one_after_the_other final : public cede::scheduling_policy {
 public:
  void decide(const cede::policy::view& v, cede::policy::verdict& out) override {
    bool busy = v.active;
    for (std::size_t i = 0; i < v.workloads.size(); ++i) {
      const cede::policy::workload_view& w = v.workloads[i];
      if (busy || w.suspended) {
        if (w.in_flight && !w.raised) out.actions.push_back({cede::policy::verb::raise, i});
      } else if (w.ready || w.in_flight) {
        busy = true;
        if (w.ready) out.actions.push_back({cede::policy::verb::submit, i});
      }
    }
  }
};

struct add_one {
  int* values;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) b.atomic_add(&values[b.index().x], 1);
  }
};

}  // namespace

int main() {
  constexpr int launches = 40;
  cede::scheduler cpu(cede::host_device{.sms = 2},
                      {.policy = std::make_shared<one_after_the_other>()});
  std::vector<cede::workload> jobs;
  std::vector<cede::stream> streams;
  for (const char* name : {"first", "second", "third"}) {
    jobs.push_back(cpu.workload({.name = name}));
    streams.push_back(jobs.back().stream());
    jobs.back().suspend();  // until all have something to do
  }
  std::array<std::vector<int>, 3> values;
  std::array<int, 3> place{};
  std::atomic<int> finished{0};
  for (std::size_t i = jobs.size(); i-- > 0;) {  // the last one's work comes first
    values[i].resize(64);
    for (int n = 0; n < launches; ++n) streams[i].launch({.grid = 64}, add_one{values[i].data()});
    streams[i].defer([&, i](cudaStream_t) { place[i] = ++finished; });
  }
  for (cede::workload& job : jobs) job.resume();
  for (cede::workload& job : jobs) job.synchronize();

  bool right = true;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    right = right && place[i] == static_cast<int>(i) + 1;
    for (const int v : values[i]) right = right && v == launches;
    std::printf("%s: finished as number %d\n", jobs[i].name().c_str(), place[i]);
  }
  std::printf("%s\n", right ? "one after the other, every tile as often as it was launched"
                            : "wrong order or results");
  return right ? 0 : 1;
}
