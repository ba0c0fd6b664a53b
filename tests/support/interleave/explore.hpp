// SPDX-License-Identifier: Apache-2.0
// Ways through the states of a machine: all of them, or many at random.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "support/interleave/machine.hpp"

namespace interleave {

struct result {
  bool holds = true;
  std::uint64_t states = 0;  ///< different ones (`all`), or steps (`at_random`)
  std::uint64_t ends = 0;    ///< states in which every thread has ended (`all`), or runs
  std::string what;          ///< the property that does not hold, and how it came to that
};

namespace detail {

/// Hashes of visited states, each with the order in which it was found. Open addressing.
class visited {
 public:
  visited() : slots_(1u << 12) {}

  struct entry {
    std::uint64_t hash = 0;  ///< 0: empty
    std::uint32_t index = 0;
  };
  /// The entry of `hash`, new ones with index 0.
  entry& find(std::uint64_t hash) {
    if (hash == 0) hash = 1;
    if (used_ * 2 >= slots_.size()) grow();
    entry& e = place(slots_, hash);
    if (e.hash == 0) {
      e.hash = hash;
      ++used_;
    }
    return e;
  }

 private:
  static entry& place(std::vector<entry>& in, std::uint64_t hash) {
    std::size_t at = hash & (in.size() - 1);
    while (in[at].hash != 0 && in[at].hash != hash) at = (at + 1) & (in.size() - 1);
    return in[at];
  }
  void grow() {
    std::vector<entry> larger(slots_.size() * 2);
    for (const auto& e : slots_) {
      if (e.hash != 0) place(larger, e.hash) = e;
    }
    slots_.swap(larger);
  }
  std::vector<entry> slots_;
  std::size_t used_ = 0;
};

}  // namespace detail

/// Visits every reachable state once. Beside what the world requires, it finds states from which
/// the threads cannot all end any more, whatever the schedule: deadlocks, lost wake-ups, endless
/// loops. (Strongly connected components after Tarjan: one that nothing leaves must be a quiet
/// end.)
template <class Machine>
result explore_all(Machine& m, const typename Machine::state& initial, auto&& at_end,
                   std::uint64_t limit = 40'000'000) {
  using state = typename Machine::state;
  constexpr std::uint32_t closed = ~std::uint32_t{0};
  struct frame {
    state s;
    std::uint32_t index, low;
    unsigned thread = 0, last = 0, choice = 0, choices = 1;
    bool leaves = false;  ///< something leads out of its component, or it is an end
    typename Machine::note taken{};
  };

  result r;
  detail::visited seen;
  std::deque<frame> path;
  // Indices of open states: found, their component not complete. One entry of `pending` each.
  struct open_state {
    std::uint64_t hash;
    bool leaves;
  };
  std::vector<open_state> open;
  std::uint32_t next_index = 1;

  const auto push = [&](const state& s, std::uint64_t h) {
    auto& e = seen.find(h);
    e.index = next_index++;
    ++r.states;
    path.push_back({s, e.index, e.index});
    const unsigned alone = m.alone(s);
    const auto threads = static_cast<unsigned>(std::size(s.threads));
    if (alone < threads) path.back().thread = alone;
    path.back().last = alone < threads ? alone : threads - 1;
    open.push_back({h, false});
    if (Machine::quiet(s)) {
      ++r.ends;
      path.back().leaves = true;
      at_end(s);
    }
  };

  try {
    push(initial, Machine::hash(initial));
    while (!path.empty()) {
      frame& f = path.back();
      if (f.choice >= f.choices) {
        ++f.thread;
        f.choice = 0;
        f.choices = 1;
      }
      while (f.thread <= f.last && f.s.threads[f.thread].alive == 0) ++f.thread;
      if (f.thread <= f.last) {
        state s = f.s;
        m.note_to(f.taken);
        f.choices = m.step(s, f.thread, f.choice++);
        const std::uint64_t h = Machine::hash(s);
        const auto& e = seen.find(h);
        if (e.index == 0) {
          if (r.states >= limit) throw violation{"more states than expected"};
          push(s, h);
        } else if (e.index == closed) {
          f.leaves = true;
        } else if (e.index < f.low) {
          f.low = e.index;
        }
        continue;
      }
      // All successors seen.
      const frame& done = path.back();
      const bool root = done.low == done.index;
      const bool leaves = done.leaves;
      const std::uint32_t low = done.low;
      if (root) {
        if (!leaves) throw violation{"from here on the threads can never all end"};
        // Members are found after their root: the open states from its place on.
        while (!open.empty()) {
          auto& member = seen.find(open.back().hash);
          const bool last = member.index == done.index;
          member.index = closed;
          open.pop_back();
          if (last) break;
        }
      }
      path.pop_back();
      if (!path.empty()) {
        frame& parent = path.back();
        if (root) {
          parent.leaves = true;
        } else {
          parent.leaves = parent.leaves || leaves;
          if (low < parent.low) parent.low = low;
        }
      }
    }
  } catch (const violation& v) {
    r.holds = false;
    r.what = v.what + "\n";
    for (const auto& f : path) r.what += m.describe(f.taken);
  }
  return r;
}

/// Runs from the start to the end `runs` times, with threads and messages drawn at random.
template <class Machine>
result explore_at_random(Machine& m, const typename Machine::state& initial, auto&& at_end,
                         std::uint64_t runs, std::uint64_t seed, unsigned longest = 100'000) {
  using state = typename Machine::state;
  result r;
  std::vector<typename Machine::note> taken;
  std::uint64_t run = 0;
  try {
    for (; run < runs; ++run) {
      std::minstd_rand random(static_cast<std::uint_fast32_t>(seed + run + 1));
      random.discard(2);
      state s = initial;
      taken.clear();
      unsigned stay = 0, thread = 0, steps = 0;
      // How long a thread runs on, how readily it reads old messages and who is slow differs from
      // run to run.
      const auto slow = static_cast<unsigned>(random() % std::size(s.threads));
      const unsigned patience = 1 + static_cast<unsigned>(random() % 12);
      const unsigned stale = 2 + static_cast<unsigned>(random() % 6);
      while (!Machine::quiet(s)) {
        if (++steps > longest) throw violation{"the run does not end"};
        if (stay == 0 || s.threads[thread].alive == 0) {
          do {
            thread = static_cast<unsigned>(random() % std::size(s.threads));
          } while (s.threads[thread].alive == 0 || (thread == slow && random() % 64 != 0));
          stay = 1 + static_cast<unsigned>(random() % patience);
        }
        --stay;
        m.note_to(taken.emplace_back());
        m.step(s, thread, random() % stale == 0 ? static_cast<unsigned>(random()) : 0);
        ++r.states;
      }
      at_end(s);
      ++r.ends;
    }
  } catch (const violation& v) {
    r.holds = false;
    r.what = v.what + "\nrun " + std::to_string(run) + " of seed " + std::to_string(seed) + "\n";
    // The last steps; a run that never ends has very many.
    const std::size_t shown = taken.size() < 100 ? taken.size() : 100;
    for (std::size_t i = taken.size() - shown; i < taken.size(); ++i)
      r.what += m.describe(taken[i]);
  }
  return r;
}

}  // namespace interleave
