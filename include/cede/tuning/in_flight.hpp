// SPDX-License-Identifier: Apache-2.0
// How many launches to keep on the device, learned from how long they take.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/tuning/cost_model.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>

CEDE_BEGIN_NAMESPACE

namespace tuning {

struct in_flight_options {
  unsigned least = 2;  ///< at least 1
  unsigned most = 8;   ///< at least `least`; each of them has to fall through after a raise
  /// Time of what is queued, from which on no more is, `least` apart. Larger than 0.
  nanoseconds longest{2'000'000};
  /// From the end of a launch to the start of one submitted because of it, until it was measured.
  nanoseconds refill{20'000};
};

/// The device runs dry if what is queued behind a launch ends before the host has noticed that the
/// launch has ended and submitted another. As many are kept as bridge that, and no more: what is
/// queued has to be waited for when it is to leave.
///
/// One thread at a time; does not wait.
class in_flight {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit in_flight(in_flight_options o = {}) : options_(o) {
    if (o.least == 0 || o.most < o.least || o.longest.count() <= 0 || o.refill.count() < 0) {
      throw invalid_argument(
          "tuning::in_flight: least must be at least 1 and most at least that, longest larger than "
          "0, refill not negative");
    }
  }

  /// A launch took so long on the device, alone there, from its first tile to its last.
  void observe(nanoseconds kernel) {
    if (kernel.count() > 0) kernels_.add(cost_model::ns(kernel));
  }
  /// It took so long from the end of a launch until one submitted because of it could start.
  void observe_refill(nanoseconds t) {
    if (t.count() >= 0) refills_.add(cost_model::ns(t));
  }

  /// Launches to keep on the device.
  [[nodiscard]] unsigned count() const {
    if (kernels_.empty()) return options_.least;
    const double needed = std::ceil(refill() / kernels_.median()) + 1;
    return std::clamp(needed >= options_.most ? options_.most : static_cast<unsigned>(needed),
                      options_.least, options_.most);
  }
  /// What that many take, as far as is known; 0 before the first launch.
  [[nodiscard]] nanoseconds time() const { return queued(count()); }

  /// Whether one more may be submitted where so many are on the device.
  [[nodiscard]] bool admits(unsigned on_device) const {
    if (on_device >= count()) return false;
    return on_device < options_.least || queued(on_device + 1) <= options_.longest;
  }

 private:
  [[nodiscard]] nanoseconds queued(unsigned launches) const {
    if (kernels_.empty()) return nanoseconds{0};
    return nanoseconds{static_cast<std::int64_t>(std::min(launches * kernels_.median(), 9e18))};
  }
  /// Nearly the longest seen, so that the device seldom runs dry.
  [[nodiscard]] double refill() const {
    return refills_.empty() ? cost_model::ns(options_.refill) : refills_.high();
  }

  in_flight_options options_;
  recent<31> kernels_;
  recent<31> refills_;
};

}  // namespace tuning

CEDE_END_NAMESPACE
