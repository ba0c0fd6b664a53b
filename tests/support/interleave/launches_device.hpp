// SPDX-License-Identifier: Apache-2.0
// The device's side of launches.hpp: lanes, workers, watchers, gated blocks and the step that
// closes them.
#pragma once

#include <bit>

#include "support/interleave/launches.hpp"

namespace interleave {

/// Starts what comes next in a lane: more kernels of its submission, its closing step, the next
/// one.
template <class M>
void launches::advance(M& m, std::uint8_t lane) {
  auto& s = m.now();
  lane_ghost& l = s.known.lane[lane];
  auto* const views = s.parked + parked_lane(lane);
  const auto start = [&](role r, unsigned limit, std::uint8_t number = 0) {
    locals own{};
    own.role = r;
    own.sub = l.sub[0];
    own.stream = static_cast<std::uint8_t>(lane / 2);
    own.lane = lane;
    own.limit = static_cast<std::uint8_t>(limit);
    own.number = own.record = number;
    auto seen = views[1];
    const bool whole = p_.gated || l.ordinal == l.sub[0].ordinal;
    whole ? seen.join(views[0]) : seen.join_words(views[0]);
    m.spawn(s, own, seen, false);
    ++l.alive;
  };
  if (l.running != 0) {
    const queued q = l.sub[0];
    if (p_.gated && l.next_block * p_.batch < q.end - q.start) {
      const unsigned all = (q.end - q.start + p_.batch - 1u) / p_.batch;
      const unsigned some = all - l.next_block < p_.workers ? all - l.next_block : p_.workers;
      for (unsigned i = 0; i < some; ++i) start(block, 0);
      l.next_block = static_cast<std::uint8_t>(l.next_block + some);
      const unsigned limit = q.start + l.next_block * p_.batch;
      if (p_.watcher) start(watcher, limit < p_.tiles ? limit : p_.tiles);
      return;
    }
    if (p_.gated && l.closing == 0) {
      l.closing = 1;
      return start(closer, 0);
    }
    require(l.entered == 0 || l.absent == 0, "participants of one submission see different chains");
    require(l.closed == (l.entered != 0), "a submission that entered is closed exactly once");
    for (unsigned i = 1; i < l.size; ++i) {
      l.sub[i - 1] = l.sub[i];
      views[i] = views[i + 1];
    }
    if (l.entered != 0) l.ordinal = q.ordinal;
    --l.size;
    l.sub[l.size] = {};
    views[1 + l.size] = {};
    l.running = l.entered = l.absent = l.closed = l.closing = l.next_block = 0;
  }
  if (l.size == 0) return;
  l.running = 1;
  if (p_.gated) return advance(m, lane);
  for (std::uint8_t i = 0; i < l.sub[0].workers; ++i) start(worker, 0, i);
  if (p_.watcher) start(watcher, p_.tiles);
}

template <class View, class M>
void launches::left(const locals& who, const View& seen, M& m) {
  if (who.role == dispatcher || who.role == source) return;
  auto& s = m.now();
  s.parked[parked_lane(who.lane)].join(seen);
  if (--s.known.lane[who.lane].alive == 0) advance(m, who.lane);
}

template <class M>
void launches::participate(locals& me, M& m) {
  auto& slot = slot_of(me.stream, me.sub.ordinal);
  const protocol::terms t = terms_of(me.sub);
  if (me.stage == 0) {
    const bool enters =
        p_.wrong == mistake::no_chain || protocol::enter(words_.chain[me.stream], t);
    m.attached([&](auto& s) {
      lane_ghost& l = s.known.lane[me.lane];
      return enters ? l.entered = 1 : l.absent = 1;
    });
    me.stage = 1;
    me.done = !enters;
    return;
  }
  if (me.count > 0 && (p_.wrong != mistake::leave_first || me.stage == 3)) {
    if (p_.gives_back && me.began == 0 && me.between != 0 && protocol::raised(slot))
      return give_back(me, m, false);
    run_tile(me, m);
    if (me.count == 0 && (me.role == block || me.stage == 3)) me.done = 1;
    return;
  }
  if (me.stage == 2) {
    if (me.role == block ||
        (me.role == watcher && (p_.gated || p_.wrong == mistake::uncounted_watcher))) {
      m.visible([](auto&) { return 0u; });
      me.done = 1;
      return;
    }
    if (p_.timed && me.longest > 0) {
      protocol::record_longest(slot, std::uint64_t{me.longest});
      me.longest = 0;
      return;
    }
    protocol::leave(slot, words_.chain[me.stream], published(me.stream, me.sub.id), t);
    if (me.count > 0) {
      me.stage = 3;
    } else {
      me.done = 1;
    }
    return;
  }
  if (me.role == watcher) {
    if (protocol::exhausted(slot, t, std::uint64_t{me.limit})) {
      me.stage = 2;
      return;
    }
    const std::uint32_t epoch =
        atomics::load<order::relaxed, scope::system>(words_.host_gate.epoch);
    if (protocol::passed(epoch, t.epoch)) {
      protocol::forward(words_.device_gate, epoch);
      protocol::stop(slot, t);
      me.stage = 2;
    }
    return;
  }
  if (p_.wrong != mistake::no_notice && !(p_.checks_once && me.looked != 0)) {
    me.looked = 1;
    const bool over = p_.watcher
                          ? protocol::notice<atomics, scope::device>(words_.device_gate, slot, t)
                          : protocol::notice<atomics, scope::system>(words_.host_gate, slot, t);
    if (over) {
      me.stage = 2;
      return;
    }
  }
  protocol::worker w{me.number, me.sub.workers, me.record, me.seen};
  protocol::holding h;
  if (me.role == worker) {
    h = protocol::next(slot, records_of(me.stream, me.sub.ordinal), t, w);
  } else {
    const protocol::claimed c = protocol::claim(slot, t);
    h = {c.first, c.count, 0, false};
  }
  const bool from_record = h.left != 0 && me.role == worker && w.seen == me.seen;
  me.record = static_cast<std::uint8_t>(w.record);
  me.seen = static_cast<std::uint8_t>(w.seen);
  if (h.left == 0) {
    me.stage = 2;
    return;
  }
  require(h.next + h.left <= p_.tiles, "a claim reaches beyond the grid");
  me.at = static_cast<std::uint8_t>(h.next);
  me.count = static_cast<std::uint8_t>(h.left);
  me.home = static_cast<std::uint8_t>(h.record);
  me.half_done = h.half_done ? 1 : 0;
  // How long a submission may go on: not at all once it is stopped; a worker that looks before each
  // claim may claim once more after the gate was raised.
  const std::uint64_t passed = m.attached([&](auto& s) {
    require(from_record || (m.newest(slot.cursor) & protocol::raised_bit) == 0,
            "a claim succeeds after the stop");
    if (std::remove_cvref_t<decltype(s.memory)>::weak || p_.checks_once) return 0u;
    const auto& gate = p_.watcher ? words_.device_gate.epoch : words_.host_gate.epoch;
    const auto now = static_cast<std::uint32_t>(m.newest(gate));
    return protocol::passed(now, me.sub.epoch) ? 1u : 0u;
  });
  me.late = static_cast<std::uint8_t>(me.late + passed);
  require(me.late <= 1, "a worker claims again after the gate was raised");
  if (p_.wrong == mistake::leave_first) me.stage = 2;
}

/// Told to leave, with tiles in hand.
template <class M>
void launches::give_back(locals& me, M& m, bool half_done) {
  if (half_done) {
    m.attached([&](auto& s) {
      stream_ghost& known = s.known.stream[me.stream];
      const unsigned bit = 1u << me.at;
      known.running = static_cast<std::uint8_t>(known.running & ~bit);
      known.half_done = static_cast<std::uint8_t>(known.half_done | bit);
      // The state it keeps.
      m.write_cell(cell(me.stream, me.sub.ordinal, me.at));
      return 0u;
    });
  }
  const protocol::holding h{me.at, me.count, me.home, half_done};
  protocol::give_back(slot_of(me.stream, me.sub.ordinal), records_of(me.stream, me.sub.ordinal), h);
  me.at = me.count = me.began = me.half_done = 0;
  me.stage = 2;
}

template <class M>
void launches::run_tile(locals& me, M& m) {
  const unsigned bit = 1u << me.at;
  if (me.began == 0) {
    const auto begun = m.visible([&](auto& s) -> std::uint64_t {
      stream_ghost& known = s.known.stream[me.stream];
      if (p_.look_back && me.at > 0 && (known.executed >> (me.at - 1) & 1u) == 0) return 0;
      require(known.finished + 1 == me.sub.ordinal,
              "a tile runs before the launch in front is finished");
      require((known.executed & bit) == 0 && (known.running & bit) == 0, "a tile runs twice");
      known.running = static_cast<std::uint8_t>(known.running | bit);
      require(((known.half_done & bit) != 0) == (me.half_done != 0),
              "a tile is re-entered that was not left, or begun anew");
      known.half_done = static_cast<std::uint8_t>(known.half_done & ~bit);
      if (me.half_done != 0) m.read_cell(cell(me.stream, me.sub.ordinal, me.at));
      if (me.sub.ordinal > 1) {
        for (unsigned k = 0; k < p_.tiles; ++k)
          m.read_cell(cell(me.stream, me.sub.ordinal - 1u, k));
        m.write_cell(mark(me.stream, me.sub.ordinal - 1u, me.at));
      }
      return 1;
    });
    me.began = static_cast<std::uint8_t>(begun);
    return;
  }
  if (p_.yields && protocol::raised(slot_of(me.stream, me.sub.ordinal)))
    return give_back(me, m, true);
  m.visible([&](auto& s) {
    stream_ghost& known = s.known.stream[me.stream];
    require((known.running & bit) != 0, "a tile ends that does not run");
    known.running = static_cast<std::uint8_t>(known.running & ~bit);
    known.executed = static_cast<std::uint8_t>(known.executed | bit);
    // Whoever read the buffer before must be done with it.
    if (me.sub.ordinal > 2) {
      for (unsigned k = 0; k < p_.tiles; ++k) m.read_cell(mark(me.stream, me.sub.ordinal, k));
    }
    m.write_cell(cell(me.stream, me.sub.ordinal, me.at));
    const auto ns = static_cast<std::uint8_t>(me.at + 1);
    if (p_.timed && ns > known.longest) known.longest = ns;
    return 0u;
  });
  me.began = me.half_done = 0;
  me.between = 1;
  if (p_.timed && me.at + 1 > me.longest) me.longest = static_cast<std::uint8_t>(me.at + 1);
  ++me.at;
  if (--me.count == 0) me.at = me.between = 0;
}

inline void launches::close(locals& me) {
  const protocol::terms t = terms_of(me.sub);
  if (me.stage == 0) {
    me.done = !protocol::enter(words_.chain[me.stream], t);
    me.stage = 1;
    return;
  }
  protocol::close(slot_of(me.stream, me.sub.ordinal), words_.chain[me.stream],
                  published(me.stream, me.sub.id), t);
  me.done = 1;
}

template <class M>
void launches::stored(const access& a, M& m) {
  auto& s = m.now();
  require(a.word < words_.used, "a word that is not in use is stored to");
  for (unsigned i = 0; i < p_.streams; ++i) {
    stream_ghost& known = s.known.stream[i];
    const auto all = static_cast<std::uint8_t>((1u << p_.tiles) - 1);
    const auto clean = [&](unsigned ordinal, std::uint64_t cursor) {
      const auto& slot = slot_of(i, ordinal);
      std::uint64_t aside = 0;
      for (unsigned w = 0; p_.gives_back && w < p_.workers; ++w)
        aside += m.newest(records_of(i, ordinal)[w].left);
      if (p_.gives_back && m.newest(slot.set_aside) != aside) return false;
      return m.newest(slot.left) == 0 && m.newest(slot.stopped_at) == 0 &&
             m.newest(slot.cursor) == cursor + aside;
    };
    if (a.word == words_.chain[i].last.number) {
      const std::uint64_t moved = m.newest(words_.chain[i].last);
      require(moved == known.finished + 1u, "the chain moves by one");
      require(known.executed == all && known.running == 0,
              "the chain moves before all tiles are done");
      // Whoever sees the new chain may use the slot for a later launch.
      require(clean(static_cast<unsigned>(moved), 0), "the chain moves before the slot is clean");
      require(m.newest(slot_of(i, static_cast<unsigned>(moved)).longest) == 0,
              "the chain moves before the slot is clean");
      known.finished = static_cast<std::uint8_t>(moved);
      known.executed = 0;
    }
    for (unsigned k = 0; k < control_words::publications(p_); ++k) {
      const auto& p = words_.published[i][k];
      if (a.word != p.id.number) continue;
      // Whoever sees the id may read the rest, and may submit the launch again, in any lane.
      unsigned at = 2 * i;
      if (s.known.lane[at].running == 0 || s.known.lane[at].sub[0].id != m.newest(p.id)) ++at;
      lane_ghost& lane = s.known.lane[at];
      const queued& q = lane.sub[0];
      require(lane.running != 0 && q.id == m.newest(p.id), "another submission's id is published");
      require(lane.closed == 0, "published twice");
      lane.closed = 1;
      const bool finished = known.finished == q.ordinal;
      const unsigned done = finished ? all : known.executed;
      const std::uint64_t cursor = m.newest(p.cursor);
      require(known.running == 0, "published while a tile runs");
      require(p_.gives_back ? std::popcount(done) == static_cast<int>(cursor)
                            : done == (1u << cursor) - 1u,
              "the published cursor is not the number of tiles done");
      require(finished || known.finished + 1 == q.ordinal, "published out of order");
      require(clean(q.ordinal, finished ? 0 : cursor), "published before the slot is ready");
      require(m.newest(p.longest) == known.longest, "the longest tile is not what was published");
      const auto gate = static_cast<std::uint32_t>(m.newest(words_.host_gate.epoch));
      const auto reason = static_cast<protocol::stop_reason>(m.newest(p.reason));
      require((reason == protocol::stop_reason::none) == finished, "the published reason is wrong");
      if (reason == protocol::stop_reason::gate) {
        require(protocol::passed(gate, q.epoch), "left though its epoch is not over");
      } else if (!finished) {
        require(reason == protocol::stop_reason::chunk && p_.gated && cursor < p_.tiles,
                "left for no reason");
      }
      known.told[q.id % 4] = static_cast<std::uint8_t>(cursor);
      known.told_id[q.id % 4] = q.id;
      known.told_longest[q.id % 4] = known.longest;
      if (finished) known.longest = 0;
    }
  }
}

}  // namespace interleave
