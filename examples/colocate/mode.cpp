// SPDX-License-Identifier: Apache-2.0
#include "mode.hpp"

#include <cede/policy/ungated.hpp>
#include <cede/scheduler.hpp>

#include <chrono>

#include "cede_queue.hpp"
#include "plain_queue.hpp"

namespace colocate {
namespace {

constexpr std::chrono::microseconds training_turnaround{30};
constexpr unsigned host_sms = 2;

// Few workers per SM keep tiles short and leave room for the service's blocks to begin before the
// last worker has left.
cede::launch_options training_options(place where) {
  return {.form = cede::form::persistent,
          .workers_per_sm = where == place::cuda ? 4U : 1U,
          .tiles_per_claim = 1};
}

cede::scheduler make_scheduler(place where, const cede::scheduler_options& options) {
  if (where == place::cuda) return cede::scheduler(options);
  return cede::scheduler(cede::host_device{.sms = host_sms}, options);
}

// Through a scheduler of cede's; ungated, nobody ever gives way.
class scheduled final : public mode {
 public:
  scheduled(place where, bool gated, bool timeline)
      : scheduler_(make_scheduler(where, options(gated, timeline))),
        serving_(scheduler_.workload({.name = "serve", .priority = cede::latency_critical})),
        training_(scheduler_.workload({.name = "train",
                                       .priority = cede::best_effort,
                                       .turnaround = training_turnaround}),
                  training_options(where)),
        timeline_(timeline) {}

  queue& serving() override { return serving_; }
  queue& training() override { return training_; }

  [[nodiscard]] std::uint64_t yields() const override {
    std::uint64_t sum = 0;
    for (const auto& w : scheduler_.stats().workloads) sum += w.yields;
    return sum;
  }
  [[nodiscard]] bool has_timeline() const override { return timeline_; }
  void write_timeline(const std::string& path) const override { scheduler_.write_timeline(path); }

 private:
  static cede::scheduler_options options(bool gated, bool timeline) {
    cede::scheduler_options o;
    if (!gated) o.policy = std::make_shared<cede::policy::ungated>();
    o.timeline = timeline;
    return o;
  }

  cede::scheduler scheduler_;
  cede_queue serving_;
  cede_queue training_;
  bool timeline_;
};

#if CEDE_EXAMPLE_CUDA

// Two plain streams.
class streams final : public mode {
 public:
  explicit streams(importance of_service) : serving_(of_service), training_(importance::usual) {}

  queue& serving() override { return serving_; }
  queue& training() override { return training_; }

 private:
  plain_queue serving_;
  plain_queue training_;
};

#endif

}  // namespace

std::vector<std::string> mode_names(place where) {
  if (where == place::cuda) return {"alone", "equal", "priorities", "ungated", "cede"};
  return {"alone", "ungated", "cede"};
}

std::unique_ptr<mode> make_mode(place where, const std::string& name, bool timeline) {
#if CEDE_EXAMPLE_CUDA
  if (where == place::cuda) {
    if (name == "alone" || name == "equal") return std::make_unique<streams>(importance::usual);
    if (name == "priorities") return std::make_unique<streams>(importance::highest);
  }
#endif
  const bool gated = name == "cede";
  return std::make_unique<scheduled>(where, gated, gated && timeline);
}

}  // namespace colocate
