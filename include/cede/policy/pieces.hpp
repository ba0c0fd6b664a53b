// SPDX-License-Identifier: Apache-2.0
// How much of a best-effort copy or fill goes to the device at once.
#pragma once

#include <cede/config.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

CEDE_BEGIN_NAMESPACE

namespace policy {

using std::chrono::nanoseconds;

/// Cuts one copy or fill into pieces. What is on the device cannot be called back, so a piece is as
/// large as half the turnaround allows at the best rate seen: two are in flight, so that the device
/// need not wait for the next. A rate is seen too low, never too high (its time ends when somebody
/// looks), so the first pieces are small and what follows grows towards the bound from below. It is
/// forgotten by and by: the bus gets slower when others use it.
///
/// One thread at a time; never waits or allocates.
class pieces {
 public:
  /// Nothing is known of a copy's direction: 1 MiB takes 20 us over PCIe 5 x16, 42 over PCIe 4.
  static constexpr std::uint64_t first = std::uint64_t{1} << 20U;
  /// Below this the cost of a call, some 5 us, is more than that of the bytes.
  static constexpr std::uint64_t least = std::uint64_t{1} << 18U;
  static constexpr std::uint64_t most = std::uint64_t{1} << 28U;

  /// Bytes of the next piece. `left`: not yet sent; `sent` and `completed`: of this copy, so far;
  /// `turnaround`: within which the device must be free again.
  std::uint64_t next(nanoseconds now, std::uint64_t left, std::uint64_t sent,
                     std::uint64_t completed, nanoseconds turnaround) {
    if (const nanoseconds elapsed = now - since_; completed > counted_ && elapsed.count() > 0) {
      rate_ =
          std::max(static_cast<double>(completed - counted_) / double_of(elapsed), rate_ * keeps);
    }
    if (sent == completed) {  // the device waits: its time counts from this piece on
      begin_count(now, completed);
    } else if (++looks_ >= window) {
      begin_count(handed_, completed);  // the piece on the device was not handed over before
    }
    handed_ = now;
    const double fits = rate_ > 0 ? rate_ * double_of(turnaround) / 2 : double{first};
    const double bounded = std::clamp(fits, double{least}, double{most});
    constexpr std::uint64_t grain = std::uint64_t{1} << 16U;
    return std::min(left, static_cast<std::uint64_t>(bounded) / grain * grain);
  }

 private:
  static constexpr double keeps = 0.75;  ///< of the best rate, from piece to piece
  static constexpr unsigned window = 4;  ///< pieces a rate is taken over

  static double double_of(nanoseconds t) { return static_cast<double>(t.count()); }
  /// From `since` on, when `completed` bytes were over, whatever completes began later.
  void begin_count(nanoseconds since, std::uint64_t completed) {
    since_ = since;
    counted_ = completed;
    looks_ = 0;
  }

  double rate_ = 0;  ///< bytes per ns
  nanoseconds since_{0};
  std::uint64_t counted_ = 0;
  unsigned looks_ = 0;
  nanoseconds handed_{0};  ///< when the newest piece was
};

}  // namespace policy

CEDE_END_NAMESPACE
