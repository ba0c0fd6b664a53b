// SPDX-License-Identifier: Apache-2.0
// Threads of a model run, one operation at a time.
//
// The code under test is ordinary functions, so a thread cannot be stopped inside them and copied.
// Instead each step runs the thread's current turn again from its start: operations done in earlier
// steps answer from a log, the next one is performed, and the one after that jumps out. A state is
// therefore a plain value, which an exploration copies, compares by hash and steps back to.
#pragma once

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>

#include "support/interleave/memory.hpp"

namespace interleave {

/// A property does not hold.
struct violation {
  std::string what;
};
inline void require(bool holds, const char* what) {
  if (!holds) throw violation{what};
}

/// Receives the operations of the code under test.
class executor {
 public:
  virtual std::uint64_t perform(const access& a) = 0;

 protected:
  ~executor() = default;
};
inline executor* current = nullptr;
inline std::uint16_t words_made = 0;

/// The `Atomics` of the model: words are numbers, their values live in the state of the run.
struct atomics {
  template <class W>
  struct word {
    std::uint16_t number = words_made++;
  };

  template <order O, scope S, class W>
  static W load(const word<W>& w) {
    return ask<O, S>(kind::load, w, W{0});
  }
  template <order O, scope S, class W>
  static void store(word<W>& w, W v) {
    ask<O, S>(kind::store, w, v);
  }
  template <order O, scope S, class W>
  static W fetch_add(word<W>& w, W v) {
    return ask<O, S>(kind::add, w, v);
  }
  template <order O, scope S, class W>
  static W fetch_or(word<W>& w, W v) {
    return ask<O, S>(kind::bit_or, w, v);
  }
  template <order O, scope S, class W>
  static W fetch_max(word<W>& w, W v) {
    return ask<O, S>(kind::max, w, v);
  }

 private:
  template <order O, scope S, class W>
  static W ask(kind what, const word<W>& w, W v) {
    return static_cast<W>(current->perform({what, O, S, sizeof(W) * 8, w.number, v}));
  }
};

/// Runs the threads of a `World`, which provides
///   locals                              state of a thread between two turns; `done` ends the
///   thread ghost                               what only the properties know void turn(locals&,
///   machine&)        one turn: at least one operation void stored(const access&, machine&)  called
///   after every store to a word void left(const locals&, const view&, machine&)  called when a
///   thread has ended bool may_be_private(const locals&, const state&), bool is_private(const
///   locals&, const access&)
///                                       which steps no other thread can notice
///   static string describe(const locals&), string name(word number)     for traces
template <class World, class Memory, unsigned Threads, unsigned Parked>
class machine final : public executor {
 public:
  using locals = typename World::locals;
  using ghost = typename World::ghost;
  using view = typename Memory::view;
  static constexpr unsigned longest_turn = 32;

  struct thread {
    locals own{};
    std::uint64_t log[longest_turn] = {};
    view seen{};
    std::uint8_t logged = 0;
    std::uint8_t alive = 0;
    std::uint8_t host = 0;
  };
  /// One step, for a trace.
  struct note {
    locals who{};
    access what{};
    std::uint64_t value = 0;  ///< before the operation
    bool host = false;
    bool ended = false;
  };
  struct state {
    Memory memory{};
    thread threads[Threads]{};
    view parked[Parked]{};  ///< views that wait for a thread, numbered by the world
    ghost known{};
  };
  static_assert(std::is_trivially_copyable_v<state>);
  static_assert(std::has_unique_object_representations_v<locals>);
  static_assert(std::has_unique_object_representations_v<ghost>);

  explicit machine(World& w) : world_(w) {}

  // ---- for the exploration ----

  /// Where the next step is noted.
  void note_to(note& n) { note_ = &n; }
  std::string describe(const note& n) const {
    static const char* const kinds[] = {"load", "store", "add", "or", "max"};
    static const char* const orders[] = {"relaxed", "acquire", "release", "acq_rel", "seq_cst"};
    std::string line = World::describe(n.who);
    if (n.what.bits != 0) {
      line += std::string(" ") + kinds[static_cast<unsigned>(n.what.what)] + " " +
              orders[static_cast<unsigned>(n.what.how)] + " " + world_.name(n.what.word);
      if (n.what.what != kind::load) line += " with " + std::to_string(n.what.operand);
      line += ": " + std::to_string(n.value);
    } else {
      line += " acts: " + std::to_string(n.value);
    }
    return line + (n.ended ? ", ends\n" : "\n");
  }

  /// One operation of thread `i`; of the messages it may read, number `choice` (modulo their
  /// number). Returns how many there were.
  unsigned step(state& s, unsigned i, unsigned choice) {
    now_ = &s;
    self_ = i;
    replayed_ = 0;
    choice_ = choice;
    choices_ = 1;
    performed_ = false;
    touched_ = Memory::words;
    scratch_ = s.threads[i].own;
    if (note_ != nullptr) *note_ = {scratch_, {}, 0, s.threads[i].host != 0, false};
    executor* const before = current;
    current = this;
    struct restore {
      executor* to;
      ~restore() { current = to; }
    } const restored{before};
    ended_ = false;
    if (_setjmp(back_) == 0) {
      world_.turn(scratch_, *this);
      thread& done = now_->threads[self_];
      done.own = scratch_;
      done.logged = 0;
      for (auto& value : done.log) value = 0;
      ended_ = scratch_.done != 0;
    }
    if (note_ != nullptr) note_->ended = ended_;
    if (ended_) end_thread();
    normalise(ended_);
    return choices_;
  }

  static std::uint64_t hash(const state& s) {
    std::uint64_t h = s.memory.hash();
    for (const auto& v : s.parked) h = hash_view(v, h);
    h = mix(h, &s.known, sizeof s.known);
    // Threads are told apart by what they are, not by their place.
    std::uint64_t all = 0;
    for (const auto& t : s.threads) {
      if (t.alive == 0) continue;
      std::uint64_t one = mix(3, &t.own, sizeof t.own);
      one = mix(one, t.log, t.logged * sizeof t.log[0]);
      const std::uint8_t marks[2] = {t.logged, t.host};
      one = mix(one, marks, sizeof marks);
      all += hash_view(t.seen, one);
    }
    return mix(h, &all, sizeof all);
  }

  /// A thread whose next step may be explored alone (`Threads` if there is none). The step must be
  /// invisible to all others, leave them as they are, and never lie on a cycle of such steps.
  unsigned alone(const state& s) {
    for (unsigned i = 0; i < Threads; ++i) {
      if (s.threads[i].alive == 0 || !world_.may_be_private(s.threads[i].own, s)) continue;
      note n;
      note* const before = std::exchange(note_, &n);
      state trial = s;
      const unsigned choices = step(trial, i, 0);
      note_ = before;
      if (choices == 1 && !n.ended && world_.is_private(n.who, n.what)) return i;
    }
    return Threads;
  }

  static bool quiet(const state& s) {
    for (const auto& t : s.threads) {
      if (t.alive != 0) return false;
    }
    return true;
  }

  // ---- for the world, within a turn ----

  std::uint64_t perform(const access& a) override {
    return once(false, [&] {
      thread& t = now_->threads[self_];
      choices_ = now_->memory.choices(a, t.seen);
      touched_ = a.word;
      const std::uint64_t before = now_->memory.perform(a, t.seen, t.host != 0, choice_ % choices_);
      if (note_ != nullptr) {
        note_->what = a;
        note_->value = before;
      }
      if (a.what != kind::load) world_.stored(a, *this);
      return before;
    });
  }
  /// Something the model adds, as an operation of its own.
  template <class F>
  std::uint64_t visible(F&& f) {
    return once(false, [&] {
      const std::uint64_t value = f(*now_);
      if (note_ != nullptr) note_->value = value;
      return value;
    });
  }
  /// Something the model notes, in one step with the operation before it.
  template <class F>
  std::uint64_t attached(F&& f) {
    return once(true, [&] { return f(*now_); });
  }

  state& now() { return *now_; }
  [[nodiscard]] std::uint64_t newest(const auto& word) const {
    return now_->memory.newest(word.number);
  }
  view& seen() { return now_->threads[self_].seen; }

  void spawn(state& s, const locals& own, const view& seen, bool host) {
    for (auto& t : s.threads) {
      if (t.alive != 0) continue;
      t = thread{};
      t.own = own;
      t.seen = seen;
      t.alive = 1;
      t.host = host;
      return;
    }
    throw violation{"the model has too few threads"};
  }

  /// Plain data: the caller must know the last write to `cell`.
  void read_cell(unsigned cell) {
    if constexpr (Memory::weak) require(now_->memory.sees(cell, seen()), "data race");
  }
  void write_cell(unsigned cell) {
    read_cell(cell);
    now_->memory.write_cell(cell, seen(), all_views());
  }

 private:
  template <class F>
  std::uint64_t once(bool attached, F&& f) {
    thread& t = now_->threads[self_];
    if (replayed_ < t.logged) return t.log[replayed_++];
    if (performed_ && !attached) longjmp(back_, 1);
    performed_ = true;
    require(t.logged < longest_turn, "a turn of a thread does not end");
    const std::uint64_t value = f();
    t.log[t.logged++] = value;
    ++replayed_;
    return value;
  }

  auto all_views() {
    return [this](auto&& f) {
      for (auto& t : now_->threads) {
        if (t.alive != 0) f(t.seen);
      }
      for (auto& v : now_->parked) f(v);
    };
  }
  void normalise(bool all) {
    if constexpr (Memory::weak) {
      if (all) {
        for (unsigned w = 0; w < Memory::words; ++w) now_->memory.normalise(w, all_views());
      } else if (touched_ < Memory::words) {
        now_->memory.normalise(touched_, all_views());
      }
    }
  }
  void end_thread() {
    const locals own = scratch_;
    left_view_ = now_->threads[self_].seen;
    now_->threads[self_] = thread{};
    world_.left(own, left_view_, *this);
  }
  static std::uint64_t hash_view(const view& v, std::uint64_t seed) {
    if constexpr (Memory::weak) {
      return Memory::hash(v, seed);
    } else {
      return seed;
    }
  }

  World& world_;
  state* now_ = nullptr;
  unsigned self_ = 0, choice_ = 0, choices_ = 1, replayed_ = 0, touched_ = 0;
  bool performed_ = false, ended_ = false;
  locals scratch_{};
  view left_view_{};
  note* note_ = nullptr;
  std::jmp_buf back_;
};

}  // namespace interleave
