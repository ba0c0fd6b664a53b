// SPDX-License-Identifier: Apache-2.0
// What launches in one configuration showed.
#pragma once

#include <cede/config.hpp>
#include <cede/tuning/candidate.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

using std::chrono::nanoseconds;

/// What one submission of a launch showed.
struct observation {
  nanoseconds elapsed{0};  ///< on the device
  std::uint64_t tiles = 0;
  /// The longest stretch of it that a raise cannot cut: a tile (where several are claimed, the mean
  /// over the claim), or a slice or launch. 0 = not measured.
  nanoseconds longest{0};
  /// From its first tile to its last: neither left nor went on where an earlier one had left.
  bool complete = true;
  /// If it was told to leave: raise to last block out. 0 = it was not, or nobody looked.
  nanoseconds turnaround{0};
};

/// The last so many values.
template <std::size_t Size>
class recent {
 public:
  void add(double v) {
    if (values_.size() < Size) {
      values_.push_back(v);
    } else {
      values_[next_] = v;
    }
    next_ = (next_ + 1) % Size;
  }
  [[nodiscard]] std::size_t size() const { return values_.size(); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  void clear() {
    values_.clear();
    next_ = 0;
  }
  void scale(double by) {
    for (double& v : values_) v *= by;
  }
  [[nodiscard]] const std::vector<double>& values() const { return values_; }
  /// The middle one; of an even number the lower, since what disturbs a time makes it longer.
  [[nodiscard]] double median() const {
    std::vector<double> v = values_;
    const auto middle = v.begin() + static_cast<std::ptrdiff_t>((v.size() - 1) / 2);
    std::nth_element(v.begin(), middle, v.end());
    return *middle;
  }
  [[nodiscard]] double low() const { return *std::min_element(values_.begin(), values_.end()); }
  /// The largest; once there are eight, the one before: no single stall is to shut a body out.
  [[nodiscard]] double high() const {
    double first = 0;
    double second = 0;
    for (const double v : values_) {
      second = std::max(second, std::min(v, first));
      first = std::max(first, v);
    }
    return values_.size() >= 8 ? second : first;
  }

 private:
  std::vector<double> values_;
  std::size_t next_ = 0;
};

/// All that is known of one candidate.
struct record {
  candidate what;
  recent<9> elapsed;             ///< of complete launches, ns
  recent<16> longest;            ///< ns
  recent<64> turnaround;         ///< ns
  double doubtful = 0;           ///< a time set aside; 0 = none
  bool longest_guessed = false;  ///< nobody measured it: what the time of the launch lets expect
  unsigned launches = 0;         ///< submissions seen
  bool stale = false;            ///< from before the search was opened again
};

/// The longest stretch of a candidate that a raise cannot cut, as far as is known from its own
/// launches, in ns; 0 = not at all.
[[nodiscard]] inline double longest_known(const record& r) {
  if (r.longest.empty()) return 0;
  return r.longest_guessed ? r.longest.median() : r.longest.high();
}

}  // namespace tuning

CEDE_END_NAMESPACE
