// SPDX-License-Identifier: Apache-2.0
// When latency-critical work that stands still stops keeping the rest out.
#pragma once

#include <cede/config.hpp>
#include <cede/policy/policy.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace policy {

/// A source of latency-critical work at one moment: a stream, or what a workload's requests and
/// callables of `run` hold. Both counts only grow; it is active while `completed` is behind.
struct source_view {
  std::uint64_t submitted = 0;
  std::uint64_t completed = 0;
  nanoseconds max_hold{0};  ///< of its workload

  [[nodiscard]] bool active() const { return completed < submitted; }
};

/// Latency-critical work may wait for gated work in a way the scheduler cannot see, by a call on
/// the raw stream: it would then wait for ever for what it keeps out itself. So a source that has
/// been active for longer than its `max_hold`, with nothing of it completed meanwhile, is *lifted*:
/// it keeps nobody out until something of it completes.
///
/// - Each source is judged by itself: what stands still must not keep others out because a
///   neighbour moves, and the neighbour keeps them out all the same while it is active.
/// - Its time begins at the first look that finds it active with this count of completions, never
///   before there was such a look. That nobody looked for a while changes nothing: a count that
///   is still behind was behind all the time.
/// - It is lifted only while gated work would go on for it.
///
/// By index: sources are appended, never removed. One thread at a time; never waits; allocates only
/// when the number of sources grows.
class lift {
 public:
  /// Takes a look at all sources. `others_wait`: some gated work is ready and not suspended.
  /// Returns those lifted by this look; valid until the next one.
  std::span<const std::size_t> look(nanoseconds now, bool others_wait,
                                    std::span<const source_view> sources) {
    if (notes_.size() < sources.size()) {
      notes_.resize(sources.size());
      lifted_now_.reserve(sources.size());
    }
    lifted_now_.clear();
    any_ = false;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const source_view& s = sources[i];
      note& n = notes_[i];
      if (!s.active()) {
        n = {};
        continue;
      }
      if (!n.active || n.completed != s.completed) n = {true, false, s.completed, now};
      if (!n.lifted && others_wait && now - n.since > s.max_hold) {
        n.lifted = true;
        lifted_now_.push_back(i);
      }
      any_ = any_ || n.lifted;
    }
    return lifted_now_;
  }

  /// Whether the last look found a source that is lifted.
  [[nodiscard]] bool any() const { return any_; }

  /// Whether source `i`, active with so many completions, is lifted. It is not from its next
  /// completion on, whether or not there has been a look since.
  [[nodiscard]] bool lifted(std::size_t i, std::uint64_t completed) const {
    return i < notes_.size() && notes_[i].lifted && notes_[i].completed == completed;
  }

 private:
  struct note {
    bool active = false;
    bool lifted = false;
    std::uint64_t completed = 0;
    nanoseconds since{0};
  };
  std::vector<note> notes_;
  std::vector<std::size_t> lifted_now_;
  bool any_ = false;
};

}  // namespace policy

CEDE_END_NAMESPACE
