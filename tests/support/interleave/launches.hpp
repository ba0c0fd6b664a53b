// SPDX-License-Identifier: Apache-2.0
// The protocol at work: lanes with submissions, their participants, a dispatcher per stream and
// latency-critical sources, all of them threads of a machine, and what must hold of them.
//
// A lane starts a submission when all participants of the one before have ended. As on a device,
// the control words are coherent from kernel to kernel. The tiles' plain data is so only between
// submissions of one launch and between gated blocks; from launch to launch the chain has to carry
// it, and to the host the publication (stricter than a GPU, which flushes at each kernel's end).
#pragma once

#include <cede/protocol.hpp>

#include <array>
#include <cstdint>
#include <string>

#include "support/interleave/machine.hpp"

namespace interleave {

namespace protocol = cede::protocol;

/// Mistakes that are not in the protocol but in how it is used; each must be found.
enum class mistake : std::uint8_t {
  none,
  no_chain,            ///< participants do not ask the chain: order left to the gate
  no_notice,           ///< workers do not look at the gate
  leave_first,         ///< a worker counts itself out before it runs the tiles it claimed
  uncounted_watcher,   ///< the watcher is not a participant
  raise_first,         ///< the gate is raised before the request is counted
  check_first,         ///< idle is checked before the epoch is sampled
  shared_publication,  ///< two submissions in flight publish to the same words
  lanes_apart,         ///< a resume takes another lane though submissions wait in the old one
  fresh_epoch,         ///< two submissions of one launch in flight carry different epochs
};

/// One case.
struct plan {
  std::uint8_t streams = 1;
  std::uint8_t launches = 2;  ///< per stream
  std::uint8_t tiles = 2;     ///< per launch, at most 8
  std::uint8_t workers = 2;
  std::uint8_t batch = 1;
  std::uint8_t depth = 2;     ///< submissions in flight per stream, at most 2
  bool watcher = false;       ///< one more participant moves the gate to the device's copy
  bool checks_once = false;   ///< workers look at the gate when they enter, then trust the watcher
  bool gated = false;         ///< native blocks, `workers` to a kernel, instead of workers
  std::uint8_t kernels = 8;   ///< gated: most kernels of one submission
  std::uint8_t sources = 1;   ///< latency-critical threads
  std::uint8_t requests = 1;  ///< of each
  bool look_back = false;     ///< tile k waits for tile k - 1
  bool gives_back = false;    ///< workers give back what is left of a claim when told to leave
  bool yields = false;        ///< and leave a tile half done
  bool fewer = false;         ///< what was stopped goes on with one worker less
  std::uint8_t guide = 0;
  bool timed = false;      ///< workers record their longest tile
  bool twice = false;      ///< every submission is queued twice, the second to resume or be stale
  bool two_lanes = false;  ///< resumes change lanes, ordered by the host alone
  std::uint32_t first_epoch = 7;
  mistake wrong = mistake::none;
};

/// The control words of a case, numbered densely.
struct control_words {
  static constexpr unsigned streams = 2, depth = 2;
  protocol::gate<atomics> host_gate, device_gate;
  protocol::activity<atomics> activity;
  protocol::chain<atomics> chain[streams];
  protocol::slot<atomics> slot[streams][depth];
  protocol::publication<atomics> published[streams][2 * depth];
  protocol::record<atomics> records[streams][depth][4];
  std::array<std::string, 128> names;
  unsigned used = 0;

  explicit control_words(const plan& p) {
    add(host_gate.epoch, "gate");
    if (p.watcher) add(device_gate.epoch, "device gate");
    add(activity.submitted, "submitted");
    add(activity.completed, "completed");
    for (unsigned i = 0; i < p.streams; ++i) {
      const std::string s = " of stream " + std::to_string(i);
      add(chain[i].last, "chain" + s);
      for (unsigned k = 0; k < p.depth; ++k) {
        const std::string t = " in slot " + std::to_string(k) + s;
        add(slot[i][k].cursor, "cursor" + t);
        add(slot[i][k].stopped_at, "stopped_at" + t);
        add(slot[i][k].longest, "longest" + t);
        add(slot[i][k].left, "left" + t);
        if (!p.gives_back) continue;
        add(slot[i][k].set_aside, "set_aside" + t);
        for (unsigned w = 0; w < p.workers; ++w) {
          const std::string r = " of record " + std::to_string(w) + t;
          add(records[i][k][w].next, "next" + r);
          add(records[i][k][w].left, "left" + r);
          add(records[i][k][w].half_done, "half_done" + r);
        }
      }
      for (unsigned k = 0; k < publications(p); ++k) {
        const std::string t = " published " + std::to_string(k) + s;
        add(published[i][k].cursor, "cursor" + t);
        add(published[i][k].longest, "longest" + t);
        add(published[i][k].reason, "reason" + t);
        add(published[i][k].id, "id" + t);
      }
    }
  }
  static unsigned publications(const plan& p) {
    return p.wrong == mistake::shared_publication ? 1u : p.twice ? 2u * p.depth : p.depth;
  }

 private:
  void add(auto& word, std::string name) {
    names[used] = std::move(name);
    word.number = static_cast<std::uint16_t>(used++);
  }
};

/// A submission as a lane holds it.
struct queued {
  std::uint32_t epoch;
  std::uint8_t ordinal, id;
  std::uint8_t start, end;  ///< tiles the host expects it to run, if nothing stops it
  std::uint8_t workers, pad[3];
};

class launches {
 public:
  static constexpr unsigned lanes = 4, queue = 6, parked = lanes * (queue + 1);
  enum role : std::uint8_t { dispatcher, source, worker, watcher, block, closer };

  struct locals {
    queued sub;     ///< participants; dispatcher: the oldest in flight
    queued behind;  ///< dispatcher: the one after it
    std::uint8_t role, done, stream, lane, index;
    std::uint8_t stage;      ///< participants: 0 to enter, 1 at work, 2 to leave
    std::uint8_t at, count;  ///< participants: claimed tiles still to run
    std::uint8_t began;      ///< the tile `at` has begun
    std::uint8_t late;       ///< claims since the gate was up
    std::uint8_t limit;      ///< watcher: cursor at which its kernel is used up
    std::uint8_t longest;
    std::uint8_t looked;                ///< has looked at the gate
    std::uint8_t number, record, seen;  ///< workers: as in protocol::worker
    std::uint8_t home, half_done;       ///< where what it holds goes; the first is half done
    std::uint8_t in_flight, next_ordinal, next_start, last_id;  // dispatcher
    std::uint8_t next_workers;
    std::uint8_t between;  ///< workers: between two tiles of what they hold
  };

  /// What only the properties know.
  struct lane_ghost {
    queued sub[queue];
    std::uint8_t size, running, alive, entered, absent, closed, closing, next_block;
    std::uint8_t ordinal, pad[3];  ///< of the last submission that entered
  };
  struct stream_ghost {
    std::uint8_t finished;  ///< launches
    std::uint8_t executed;  ///< tiles of the next launch, one bit each
    std::uint8_t running;
    std::uint8_t half_done;                             ///< tiles left half done
    std::uint8_t longest;                               ///< of the next launch
    std::uint8_t told[4], told_id[4], told_longest[4];  ///< published cursor and id, by id modulo 4
    std::uint8_t pad[3];
  };
  struct request_ghost {
    std::uint32_t raised;  ///< the epoch it raised the gate to
    std::uint8_t begun, is_raised, pad[2];
  };
  struct ghost {
    lane_ghost lane[lanes];
    stream_ghost stream[control_words::streams];
    std::uint8_t pad[4];
    request_ghost request[4];
  };

  launches(const plan& p) : p_(p), words_(p) {}

  [[nodiscard]] unsigned words() const { return words_.used; }
  [[nodiscard]] const plan& of() const { return p_; }

  template <class M>
  typename M::state initial(M& m) {
    typename M::state s;
    s.memory.set(words_.host_gate.epoch.number, p_.first_epoch);
    if (p_.watcher) s.memory.set(words_.device_gate.epoch.number, p_.first_epoch);
    for (std::uint8_t i = 0; i < p_.streams; ++i) {
      locals own{};
      own.role = dispatcher;
      own.stream = i;
      own.lane = static_cast<std::uint8_t>(2 * i);
      own.next_ordinal = 1;
      own.next_workers = p_.workers;
      m.spawn(s, own, {}, true);
    }
    for (std::uint8_t i = 0; i < p_.sources; ++i) {
      locals own{};
      own.role = source;
      own.index = i;
      if (p_.requests > 0) m.spawn(s, own, {}, true);
    }
    return s;
  }

  /// What holds when every thread has ended.
  template <class State>
  void at_end(const State& s) const {
    for (unsigned i = 0; i < p_.streams; ++i) {
      require(s.known.stream[i].finished == p_.launches, "not every launch is finished");
      require(s.memory.newest(words_.chain[i].last.number) == p_.launches,
              "the chain is not at the end");
      for (unsigned k = 0; k < p_.depth; ++k) {
        const auto& slot = words_.slot[i][k];
        for (const unsigned w :
             {slot.cursor.number, slot.stopped_at.number, slot.longest.number, slot.left.number}) {
          require(s.memory.newest(w) == 0, "a free slot is not clean");
        }
        if (!p_.gives_back) continue;
        require(s.memory.newest(slot.set_aside.number) == 0, "a free slot is not clean");
        for (unsigned w = 0; w < p_.workers; ++w) {
          require(s.memory.newest(words_.records[i][k][w].left.number) == 0,
                  "a record of a free slot is not empty");
        }
      }
    }
    require(s.memory.newest(words_.activity.submitted.number) ==
                static_cast<std::uint64_t>(p_.sources * p_.requests),
            "requests are miscounted");
    require(s.memory.newest(words_.activity.completed.number) ==
                static_cast<std::uint64_t>(p_.sources * p_.requests),
            "requests are miscounted");
  }

  /// Submissions a run needed beyond one per launch.
  template <class State>
  [[nodiscard]] unsigned resubmitted(const State& s) const {
    unsigned extra = 0;
    for (unsigned i = 0; i < p_.streams; ++i) {
      unsigned last = 0;
      for (const unsigned id : s.known.stream[i].told_id) last = id > last ? id : last;
      extra += last - p_.launches;
    }
    return extra;
  }

  /// True if nobody else can notice the step of a thread of `who`: the only participant left
  /// touches what only participants of its stream touch. Exploring that step alone is then enough.
  template <class State>
  [[nodiscard]] bool may_be_private(const locals& who, const State& s) const {
    return who.role >= worker && s.known.lane[who.lane].alive == 1 && !p_.two_lanes;
  }
  [[nodiscard]] bool is_private(const locals& who, const access& a) const {
    if (a.bits == 0 || a.word == words_.chain[who.stream].last.number) return true;
    for (const auto& slot : words_.slot[who.stream]) {
      if (a.word == slot.cursor.number || a.word == slot.stopped_at.number ||
          a.word == slot.longest.number || a.word == slot.left.number ||
          (p_.gives_back && a.word == slot.set_aside.number)) {
        return true;
      }
    }
    return false;
  }

  // ---- turns ----

  template <class M>
  void turn(locals& me, M& m) {
    switch (me.role) {
      case dispatcher:
        return dispatch(me, m);
      case source:
        return request(me, m);
      case closer:
        return close(me);
      default:
        return participate(me, m);
    }
  }

  /// Checks at the stores that others act upon.
  template <class M>
  void stored(const access& a, M& m);
  /// A participant has ended.
  template <class View, class M>
  void left(const locals& who, const View& seen, M& m);

  static std::string describe(const locals& who) {
    static const char* const roles[] = {"dispatcher", "source", "worker",
                                        "watcher",    "block",  "closer"};
    std::string name = roles[who.role];
    if (who.role == source) return name + " " + std::to_string(who.index);
    name += " of stream " + std::to_string(who.stream);
    if (who.role == dispatcher) return name;
    return name + " (launch " + std::to_string(who.sub.ordinal) + ", id " +
           std::to_string(who.sub.id) + ")";
  }
  [[nodiscard]] std::string name(unsigned word) const {
    return word < words_.used ? words_.names[word] : "a word that is not in use";
  }

 private:
  template <class M>
  void dispatch(locals& me, M& m);
  template <class M>
  void submit(locals& me, M& m, std::uint32_t epoch);
  template <class M>
  void settle(locals& me, M& m, const protocol::outcome& o);
  template <class M>
  void request(locals& me, M& m);
  template <class M>
  void participate(locals& me, M& m);
  template <class M>
  void run_tile(locals& me, M& m);
  template <class M>
  void give_back(locals& me, M& m, bool half_done);
  void close(locals& me);
  template <class M>
  void advance(M& m, std::uint8_t lane);

  [[nodiscard]] protocol::terms terms_of(const queued& q) const {
    const unsigned counted = q.workers + (p_.watcher && p_.wrong != mistake::uncounted_watcher);
    return {q.ordinal, p_.tiles, q.id,     q.epoch,
            counted,   p_.batch, p_.guide, p_.gives_back ? p_.workers : 0u};
  }
  auto& slot_of(unsigned stream, unsigned ordinal) {
    return words_.slot[stream][ordinal % p_.depth];
  }
  auto* records_of(unsigned stream, unsigned ordinal) {
    return words_.records[stream][ordinal % p_.depth];
  }
  auto& published(unsigned stream, unsigned id) {
    return words_.published[stream][id % control_words::publications(p_)];
  }
  // Launch N reads what N - 1 wrote; two buffers by turns. A tile also leaves a mark that it has
  // read.
  [[nodiscard]] unsigned cell(unsigned stream, unsigned ordinal, unsigned tile) const {
    return (stream * 2 + ordinal % 2) * p_.tiles + tile;
  }
  [[nodiscard]] unsigned mark(unsigned stream, unsigned ordinal, unsigned tile) const {
    return p_.streams * 2 * p_.tiles + cell(stream, ordinal, tile);
  }
  static unsigned parked_lane(unsigned lane) { return lane * (queue + 1); }

  plan p_;
  control_words words_;
};

}  // namespace interleave

#include "support/interleave/launches_device.hpp"
#include "support/interleave/launches_host.hpp"
