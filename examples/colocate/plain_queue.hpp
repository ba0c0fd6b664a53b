// SPDX-License-Identifier: Apache-2.0
// A plain CUDA stream, without a scheduler. Only in programs built with CUDA.
#pragma once

#include <cstdint>

#include "memory.hpp"
#include "queue.hpp"

namespace colocate {

enum class importance : std::uint8_t { usual, highest };

/// Done-ness is told as cede tells it: the stream writes a word that the host reads.
class plain_queue final : public queue {
 public:
  /// `highest`: of the stream priorities the device has.
  explicit plain_queue(importance how);
  ~plain_queue() override;

  void begin_request(steady::time_point) override {}
  void end_request() override { mark(); }
  void wait() override;
  std::uint64_t mark() override;
  bool wait_for(std::uint64_t point, std::chrono::nanoseconds limit) override;

 private:
  [[nodiscard]] std::uint64_t written() const;
  void check() const;

  array<std::uint64_t> word_;
  std::uint64_t marks_ = 0;
};

}  // namespace colocate
