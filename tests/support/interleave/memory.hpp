// SPDX-License-Identifier: Apache-2.0
// The memories a model run can have. Both are plain values: copied, compared by hash, stepped back
// to.
//
// `sequential_memory`: every load sees the last store.
//
// `weak_memory`: every word keeps its last stores as messages. A thread has a view: per word the
// oldest message it may still read. A relaxed load may read any message from there on; an acquire
// load also takes over the view that a release store put into its message. A read-modify-write
// reads the newest message and passes the view of the message it replaced on (release sequence).
// A sequentially consistent operation is taken for an acquire-release one: weaker than it is, so
// that what holds here holds without any total order of such operations. Stores are appended in the
// order in which they are executed; load buffering is not modelled. Data that is not atomic is a
// set of cells: a thread may touch a cell only if the last write to it is in the thread's view, all
// else is a race.
#pragma once

#include <cede/protocol.hpp>

#include <cstdint>
#include <cstring>

namespace interleave {

using cede::protocol::order;
using cede::protocol::scope;

enum class kind : std::uint8_t { load, store, add, bit_or, max };

/// One atomic operation, as the protocol asked for it.
struct access {
  kind what;
  order how;
  scope reach;
  std::uint8_t bits;  ///< width of the word
  std::uint16_t word;
  std::uint64_t operand;
};

/// What a read-modify-write leaves in the word.
inline std::uint64_t apply(const access& a, std::uint64_t before) {
  const std::uint64_t mask = a.bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << a.bits) - 1;
  switch (a.what) {
    case kind::add:
      return (before + a.operand) & mask;
    case kind::bit_or:
      return before | a.operand;
    case kind::max: {
      // Larger means ahead by less than half the range, as for the counters that wrap.
      const std::uint64_t ahead = (a.operand - before) & mask;
      return ahead != 0 && ahead <= mask / 2 ? a.operand : before;
    }
    default:
      return a.operand;
  }
}

inline bool acquires(order o) {
  return o == order::acquire || o == order::acq_rel || o == order::seq_cst;
}
inline bool releases(order o) {
  return o == order::release || o == order::acq_rel || o == order::seq_cst;
}

/// Mixes `bytes` bytes at `from` into `seed`; `bytes` need not be a multiple of 8.
inline std::uint64_t mix(std::uint64_t seed, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(from);
  std::uint64_t h = seed;
  while (bytes > 0) {
    std::uint64_t part = 0;
    const std::size_t n = bytes < 8 ? bytes : 8;
    std::memcpy(&part, at, n);
    h = (h ^ part) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    at += n;
    bytes -= n;
  }
  h *= 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 32);
}

template <unsigned Words>
struct sequential_memory {
  static constexpr bool weak = false;
  static constexpr unsigned words = Words;

  struct view {
    std::uint8_t nothing = 0;
    void join(const view&) {}
    void join_words(const view&) {}
  };

  std::uint64_t value[Words] = {};

  void set(unsigned word, std::uint64_t v) { value[word] = v; }
  [[nodiscard]] std::uint64_t newest(unsigned word) const { return value[word]; }

  /// Messages a thread may read here; 1 = no choice.
  [[nodiscard]] unsigned choices(const access&, const view&) const { return 1; }

  std::uint64_t perform(const access& a, view&, bool, unsigned) {
    const std::uint64_t before = value[a.word];
    if (a.what != kind::load) value[a.word] = apply(a, before);
    return before;
  }

  template <class Views>
  void normalise(unsigned, const Views&) {}
  [[nodiscard]] bool sees(unsigned, const view&) const { return true; }
  template <class Views>
  void write_cell(unsigned, view&, const Views&) {}

  [[nodiscard]] std::uint64_t hash() const { return mix(1, value, sizeof value); }
};

template <unsigned Words>
struct weak_memory {
  static constexpr bool weak = true;
  static constexpr unsigned words = Words;
  /// Stores a thread may lag behind; older ones are forgotten.
  static constexpr unsigned kept = 3;

  struct view {
    std::uint8_t at[Words] = {};              ///< per word: oldest message this view may read
    std::uint64_t cells = ~std::uint64_t{0};  ///< per cell: the last write is known

    void join(const view& v) {
      join_words(v);
      cells |= v.cells;
    }
    /// The part of `join` that a kernel boundary gives for control words.
    void join_words(const view& v) {
      for (unsigned i = 0; i < Words; ++i) at[i] = at[i] < v.at[i] ? v.at[i] : at[i];
    }
  };
  struct message {
    std::uint64_t value = 0;
    view carried{};            ///< what an acquire load of it learns
    std::uint8_t carries = 0;  ///< 0 if nothing
    std::uint8_t by_host = 0;
    std::uint8_t system = 0;  ///< scope of the store
  };
  struct word_state {
    message messages[kept + 1];
    std::uint8_t count = 1;
  };

  word_state word[Words];

  void set(unsigned w, std::uint64_t v) { word[w].messages[0].value = v; }
  [[nodiscard]] std::uint64_t newest(unsigned w) const {
    return word[w].messages[word[w].count - 1].value;
  }

  [[nodiscard]] unsigned choices(const access& a, const view& v) const {
    if (a.what != kind::load) return 1;
    return word[a.word].count - unsigned{v.at[a.word]};
  }

  /// Choice 0 is the newest message.
  std::uint64_t perform(const access& a, view& mine, bool host, unsigned choice) {
    word_state& w = word[a.word];
    const unsigned index = w.count - 1u - choice;
    const message read = w.messages[index];
    const bool reads = a.what != kind::store;
    const bool writes =
        a.what != kind::load && !(a.what == kind::max && apply(a, read.value) == read.value);
    const bool in_scope =
        (read.by_host != 0) == host || (read.system != 0 && a.reach == scope::system);
    mine.at[a.word] = static_cast<std::uint8_t>(index);
    if (reads && acquires(a.how) && read.carries != 0 && in_scope) mine.join(read.carried);
    if (writes) {
      message& m = w.messages[w.count];
      mine.at[a.word] = w.count;
      ++w.count;
      m = message{};
      m.value = a.what == kind::store ? a.operand : apply(a, read.value);
      m.by_host = host;
      m.system = a.reach == scope::system;
      const bool inherits = reads && read.carries != 0 && in_scope;
      m.carried.cells = 0;
      if (inherits) m.carried = read.carried;
      if (releases(a.how)) m.carried.join(mine);
      m.carries = inherits || releases(a.how);
    }
    return read.value;
  }

  /// Forgets the messages of `w` that no view reaches any more, so that equal states look equal.
  /// `views` calls its argument with every view outside this memory.
  template <class Views>
  void normalise(unsigned w, const Views& views) {
    word_state& s = word[w];
    std::uint8_t oldest = s.count - 1;
    views([&](const view& v) { oldest = v.at[w] < oldest ? v.at[w] : oldest; });
    if (s.count - oldest > static_cast<int>(kept))
      oldest = static_cast<std::uint8_t>(s.count - kept);
    if (oldest == 0) return;
    const auto lower = [&](view& v) {
      v.at[w] = static_cast<std::uint8_t>(v.at[w] > oldest ? v.at[w] - oldest : 0);
    };
    for (unsigned i = oldest; i < s.count; ++i) s.messages[i - oldest] = s.messages[i];
    s.count = static_cast<std::uint8_t>(s.count - oldest);
    for (auto& each : word) {
      for (unsigned i = 0; i < each.count; ++i) {
        if (each.messages[i].carries != 0) lower(each.messages[i].carried);
      }
    }
    views(lower);
  }

  [[nodiscard]] bool sees(unsigned cell, const view& v) const {
    return (v.cells >> cell & 1u) != 0;
  }
  template <class Views>
  void write_cell(unsigned cell, view& mine, const Views& views) {
    const auto forget = [&](view& v) { v.cells &= ~(std::uint64_t{1} << cell); };
    for (auto& each : word) {
      for (unsigned i = 0; i < each.count; ++i) forget(each.messages[i].carried);
    }
    views(forget);
    mine.cells |= std::uint64_t{1} << cell;
  }

  [[nodiscard]] std::uint64_t hash() const {
    std::uint64_t h = 2;
    for (const auto& each : word) {
      h = mix(h, &each.count, 1);
      for (unsigned i = 0; i < each.count; ++i) {
        const message& m = each.messages[i];
        const std::uint8_t marks[3] = {m.carries, m.by_host, m.system};
        h = mix(h, &m.value, sizeof m.value);
        h = mix(h, marks, sizeof marks);
        if (m.carries != 0) h = hash(m.carried, h);
      }
    }
    return h;
  }
  static std::uint64_t hash(const view& v, std::uint64_t seed) {
    return mix(mix(seed, v.at, sizeof v.at), &v.cells, sizeof v.cells);
  }
};

}  // namespace interleave
