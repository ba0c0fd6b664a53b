// SPDX-License-Identifier: Apache-2.0
// How much GPU time a gated workload may have, whoever else wants some: a token bucket.
#pragma once

#include <cede/config.hpp>

#include <algorithm>
#include <chrono>

CEDE_BEGIN_NAMESPACE

namespace policy {

/// A bound on a gated workload's GPU time.
struct rate_limit {
  /// Of all time; larger than 0, at most 1. 1 = no limit.
  double share = 1;
  /// GPU time it may have at once after it was away; larger than 0.
  std::chrono::nanoseconds burst = std::chrono::milliseconds{20};

  [[nodiscard]] bool limits() const { return share < 1; }
};

/// A bucket of GPU time. `share` of all time flows in, up to `burst`; what the workload uses flows
/// out. Empty, it keeps the workload out until it is half full, so that it does not come and go
/// with every launch. Begins full. What cannot be called back makes a debt, paid before the return.
///
/// So within any time `t` a workload uses at most `share * t + burst`, and what it used between the
/// last look that let it run and the next.
///
/// One thread at a time; never waits or allocates.
class token_bucket {
 public:
  using nanoseconds = std::chrono::nanoseconds;

  token_bucket() = default;
  explicit token_bucket(rate_limit limit) : limit_(limit), tokens_(double_of(limit.burst)) {}

  /// A look at the workload. `used`: GPU time it has had so far. Neither goes back; where one does,
  /// it counts as unchanged. Returns whether the workload may run until the next look.
  bool look(nanoseconds now, nanoseconds used) {
    if (!limit_.limits()) return true;
    if (!begun_) {
      begun_ = true;
      now_ = now;
      used_ = used;
    }
    const double burst = double_of(limit_.burst);
    const double flows = now > now_ ? limit_.share * double_of(now - now_) : 0;
    const double spent = used > used_ ? double_of(used - used_) : 0;
    // Out before the overflow is cut: time spent while the bucket was full does not spill.
    tokens_ = std::min(burst, tokens_ - spent + flows);
    now_ = std::max(now_, now);
    used_ = std::max(used_, used);
    if (tokens_ <= 0) {
      out_ = true;
    } else if (tokens_ >= burst / 2) {
      out_ = false;
    }
    return !out_;
  }

  /// GPU time it may have now; negative: a debt.
  [[nodiscard]] nanoseconds left() const {
    return nanoseconds{static_cast<nanoseconds::rep>(tokens_)};
  }

 private:
  static double double_of(nanoseconds t) { return static_cast<double>(t.count()); }

  rate_limit limit_;
  double tokens_ = 0;  ///< ns
  nanoseconds now_{0};
  nanoseconds used_{0};
  bool begun_ = false;
  bool out_ = false;
};

}  // namespace policy

CEDE_END_NAMESPACE
