// SPDX-License-Identifier: Apache-2.0
// The host's threads of launches.hpp: dispatchers and latency-critical sources.
#pragma once

#include "support/interleave/launches.hpp"

namespace interleave {

template <class M>
void launches::dispatch(locals& me, M& m) {
  if (me.in_flight > 0) {
    const protocol::outcome o = protocol::read(published(me.stream, me.sub.id), me.sub.id);
    if (o.published) return settle(me, m, o);
    if (p_.twice) {
      // The first of the two has published, and it has finished the launch: the second is stale.
      const unsigned first = me.sub.id - 1u;
      const protocol::outcome before = protocol::read(published(me.stream, first), first);
      if (before.published && before.reason == protocol::stop_reason::none)
        return settle(me, m, before);
    }
  }
  if (me.next_ordinal > p_.launches || me.in_flight == p_.depth) return;
  std::uint32_t epoch = 0;
  if (p_.wrong == mistake::check_first) {
    if (protocol::active(words_.activity)) return;
    epoch = protocol::sample(words_.host_gate);
  } else {
    epoch = protocol::sample(words_.host_gate);
    if (protocol::active(words_.activity)) return;
  }
  // Submissions of one launch in flight carry one epoch: what stops the first stops the second.
  // After a raise the second is not submitted before the first has published.
  const bool continues = me.in_flight > 0 && me.sub.ordinal == me.next_ordinal;
  if (continues && epoch != me.sub.epoch && p_.wrong != mistake::fresh_epoch) return;
  submit(me, m, epoch);
}

template <class M>
void launches::submit(locals& me, M& m, std::uint32_t epoch) {
  queued q{};
  q.epoch = epoch;
  q.ordinal = me.next_ordinal;
  q.start = me.next_start;
  q.workers = me.next_workers;
  unsigned end = p_.tiles;
  const unsigned most = me.next_start + unsigned{p_.kernels} * p_.workers * p_.batch;
  if (p_.gated && most < end) end = most;
  q.end = static_cast<std::uint8_t>(end);
  const std::uint8_t copies = p_.twice ? 2 : 1;
  m.visible([&](auto& s) {
    for (const auto& r : s.known.request) {
      // A request that raised the gate and is not complete: the launch must carry an epoch that is
      // over.
      require(r.is_raised == 0 || protocol::passed(r.raised, q.epoch),
              "submitted unnoticed beside latency-critical work");
    }
    lane_ghost& lane = s.known.lane[me.lane];
    for (std::uint8_t i = 1; i <= copies; ++i) {
      require(lane.size < queue, "the model's lane is too short");
      s.parked[parked_lane(me.lane) + 1 + lane.size] = m.seen();
      lane.sub[lane.size] = q;
      lane.sub[lane.size].id = static_cast<std::uint8_t>(me.last_id + i);
      ++lane.size;
    }
    if (lane.running == 0) advance(m, me.lane);
    return 0u;
  });
  me.last_id = static_cast<std::uint8_t>(me.last_id + copies);
  q.id = me.last_id;
  (me.in_flight == 0 ? me.sub : me.behind) = q;
  ++me.in_flight;
  if (q.end < p_.tiles) {
    me.next_start = q.end;
  } else {
    ++me.next_ordinal;
    me.next_start = 0;
    me.next_workers = p_.workers;
  }
}

/// The oldest submission in flight has published.
template <class M>
void launches::settle(locals& me, M& m, const protocol::outcome& o) {
  const bool finished = o.reason == protocol::stop_reason::none;
  m.attached([&](auto& s) {
    const stream_ghost& known = s.known.stream[me.stream];
    const unsigned told = me.sub.id % 4;
    if (!p_.twice) {
      require(known.told_id[told] == me.sub.id, "published without having been closed");
      require(known.told[told] == o.cursor, "the host reads another cursor than was published");
      require(known.told_longest[told] == o.longest,
              "the host reads another tile time than was published");
    }
    require(finished == (o.cursor == p_.tiles), "the host reads another reason than was published");
    // What the publication says is done can be used.
    if (p_.gives_back && !finished) return 0u;  // which ones, only the records say
    for (unsigned k = 0; k < o.cursor; ++k) m.read_cell(cell(me.stream, me.sub.ordinal, k));
    return 0u;
  });
  const bool as_expected = o.cursor == me.sub.end;
  const queued ended = me.sub;
  const bool alone = me.in_flight == 1;
  me.sub = me.behind;
  me.behind = {};
  --me.in_flight;
  if (finished && ended.ordinal == p_.launches) {
    me.done = 1;
    return;
  }
  if (as_expected) return;
  // Stopped: it goes again, and so does all behind it, in order. (One behind it of the same launch
  // does enter and publishes on its own.)
  if (me.in_flight > 0 && me.sub.ordinal != ended.ordinal) {
    me.sub = {};
    me.in_flight = 0;
  }
  if (me.in_flight == 0 || p_.gated) {
    me.next_ordinal = finished ? static_cast<std::uint8_t>(ended.ordinal + 1) : ended.ordinal;
    me.next_start = finished ? std::uint8_t{0} : static_cast<std::uint8_t>(o.cursor);
    const bool less = p_.fewer && !finished && p_.workers > 1;
    me.next_workers = static_cast<std::uint8_t>(p_.workers - less);
  }
  if (p_.two_lanes && (alone || p_.wrong == mistake::lanes_apart)) me.lane ^= 1u;
}

template <class M>
void launches::request(locals& me, M& m) {
  const auto begin = [&] {
    protocol::begin(words_.activity);
    m.attached([&](auto& s) { return s.known.request[me.index].begun = 1; });
  };
  const auto raise = [&] {
    const std::uint32_t epoch = protocol::raise(words_.host_gate);
    m.attached([&](auto& s) {
      s.known.request[me.index].raised = epoch;
      return s.known.request[me.index].is_raised = 1;
    });
  };
  if (p_.wrong == mistake::raise_first) {
    raise();
    begin();
  } else {
    begin();
    raise();
  }
  protocol::finish(words_.activity);
  m.attached([&](auto& s) {
    s.known.request[me.index] = {};
    return 0u;
  });
  if (++me.count == p_.requests) me.done = 1;
}

}  // namespace interleave
