// SPDX-License-Identifier: Apache-2.0
// Work that is wanted by a time: who goes first, and what cannot be done in time.
#pragma once

#include <cede/config.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

CEDE_BEGIN_NAMESPACE

namespace policy {

using std::chrono::nanoseconds;

/// Work on one device that should be done by a time.
struct due_work {
  nanoseconds due{0};   ///< on the scheduler's clock
  nanoseconds left{0};  ///< GPU time it still needs; negative counts as 0
};

/// Whose turn it is: the one that is due first, of several the first in the list. On one device
/// that may be taken away at any time no other order keeps more: if any keeps all deadlines, this
/// one does (Horn, *Some simple scheduling algorithms*, 1974). None of none. Never waits.
inline std::optional<std::size_t> earliest_due(std::span<const due_work> work) {
  if (work.empty()) return std::nullopt;
  const auto first = std::ranges::min_element(work, {}, &due_work::due);
  return static_cast<std::size_t>(first - work.begin());
}

/// What becomes of work that is offered.
struct admission {
  enum class answer : std::uint8_t {
    taken,      ///< it and all that was in time before will be in time
    too_late,   ///< it would be late itself
    in_the_way  ///< it would make `victim` late
  };
  answer what = answer::taken;
  nanoseconds finish{0};   ///< when it would be done
  std::size_t victim = 0;  ///< index into what was accepted
  [[nodiscard]] explicit operator bool() const { return what == answer::taken; }
};

/// Whether `wanted` can be done in time in the order of deadlines beside what is `accepted`, on a
/// device that works on nothing else. Equal deadlines keep the order in which they came. What is
/// late already takes its time, but forbids nothing: nothing more is lost by it. Times that do not
/// fit saturate. O(n²); never allocates or waits.
inline admission admit(nanoseconds now, std::span<const due_work> accepted,
                       const due_work& wanted) {
  const auto add = [](nanoseconds a, nanoseconds b) {
    const nanoseconds more = std::max(b, nanoseconds{0});
    return a > nanoseconds::max() - more ? nanoseconds::max() : a + more;
  };
  admission a;
  a.finish = add(now, wanted.left);
  for (const due_work& w : accepted)
    if (w.due <= wanted.due) a.finish = add(a.finish, w.left);
  if (a.finish > wanted.due) {
    a.what = admission::answer::too_late;
    return a;
  }
  for (std::size_t i = 0; i < accepted.size(); ++i) {
    if (accepted[i].due <= wanted.due) continue;
    nanoseconds finish = now;
    for (std::size_t j = 0; j < accepted.size(); ++j) {
      const bool before =
          accepted[j].due < accepted[i].due || (accepted[j].due == accepted[i].due && j <= i);
      if (before) finish = add(finish, accepted[j].left);
    }
    if (finish <= accepted[i].due && add(finish, wanted.left) > accepted[i].due) {
      a.what = admission::answer::in_the_way;
      a.victim = i;
      return a;
    }
  }
  return a;
}

/// How long work of one kind takes, from how long it took: the value that 95 of 100 kept, over the
/// last ones; 0 while nothing is known, so that the first is always tried.
///
/// One thread at a time; never waits or allocates.
class expected_time {
 public:
  static constexpr std::size_t kept = 64;

  /// Negative times are left out: they are of two clocks.
  void observe(nanoseconds took) {
    if (took.count() < 0) return;
    times_[next_] = took;
    next_ = (next_ + 1) % kept;
    known_ = std::min(known_ + 1, kept);
    std::array<nanoseconds, kept> sorted = times_;
    const std::size_t rank = (known_ * 95 + 99) / 100;  // nearest rank
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(sorted.begin(), at, sorted.begin() + static_cast<std::ptrdiff_t>(known_));
    value_ = *at;
  }
  [[nodiscard]] nanoseconds value() const { return value_; }

 private:
  std::array<nanoseconds, kept> times_{};
  std::size_t next_ = 0;
  std::size_t known_ = 0;
  nanoseconds value_{0};
};

}  // namespace policy

CEDE_END_NAMESPACE
