// SPDX-License-Identifier: Apache-2.0
// A stream of a workload of cede's.
#pragma once

#include <cede/scheduler.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "queue.hpp"

namespace colocate {

class cede_queue final : public queue {
 public:
  explicit cede_queue(cede::workload work, const cede::launch_options& options = {})
      : queue(work.stream(), options), work_(std::move(work)) {}

  void begin_request(steady::time_point arrived) override {
    request_.emplace(work_.request({.arrived = arrived}));
  }
  void end_request() override {
    request_->close();
    request_.reset();
  }
  void wait() override { through_.synchronize(); }
  std::uint64_t mark() override {
    pending_.push_back(through_.record());
    return passed_ + pending_.size();
  }
  bool wait_for(std::uint64_t point, std::chrono::nanoseconds limit) override {
    const auto end = steady::now() + limit;
    for (; passed_ < point; ++passed_) {
      const auto left = std::max(end - steady::now(), steady::duration::zero());
      if (!pending_.front().synchronize_for(left)) return false;
      pending_.pop_front();
    }
    return true;
  }

 private:
  cede::workload work_;
  std::optional<cede::request> request_;
  std::deque<cede::event> pending_;
  std::uint64_t passed_ = 0;
};

}  // namespace colocate
