// SPDX-License-Identifier: Apache-2.0
// The control words of a preemptible launch and every transition they make.
//
// One source, three machines: the CUDA device, the host device and the model driver of the tests
// instantiate it with their own atomics. Nothing here waits, allocates or looks at a clock.
//
// WHO. A *stream* has one chain word. Each launch of it in flight has a *slot*. A *submission* is
// one trip of a launch to the device; its *participants* are its workers (and, where the gate is
// forwarded, its watcher). Submissions of one stream are ordered on the device (same lane, or an
// event between lanes): the next begins when the last participant of the one before has left.
//
// WHY IT IS RIGHT, in the order of the rules the tests are named after:
//
//  order        A submission touches its slot only if chain == ordinal - 1 when a participant
//               enters. The chain moves to `ordinal` in one place: the last participant out, and
//               only if every tile is claimed by then. All claimed tiles have then run, because a
//               participant counts itself out after its last tile. As submissions of a stream do
//               not overlap, all participants of one see the same chain: either all enter or none.
//               So launch N+1, already queued behind a launch N that left early, falls through
//               whatever the gate says: order is read from a word, never inferred from the gate.
//  gate         A launch carries the epoch sampled before it was submitted and leaves if and only
//               if int(gate - epoch) > 0. Epochs only grow, so a late, repeated or stale raise can
//               cause an early yield and nothing else.
//  one word     Ticket counter and raised bit share one word. A claim is one fetch_add; if the bit
//               is in the value it returns, the claim is void. Whoever notices the gate sets the
//               bit with one fetch_or; of several, the one that finds it unset owns the stop and
//               keeps the value it saw as the exact cursor: every ticket below it was handed out,
//               and no valid one above it exists. Claims are ascending and unique since fetch_add
//               is.
//  given back   A claimed tile runs, or the worker that claimed it says so: told to leave in the
//               middle of what it claimed, it writes the rest into a record of its own and adds the
//               number of tiles to `set_aside`. In the next submission the records come first, each
//               read by one worker only, so none is taken twice; a launch is finished when the
//               cursor is at the end and nothing is set aside. Records change hands only from one
//               submission to the next, which are ordered, so they need no atomic claim.
//  publication  The noticer stores `stopped_at` before it counts itself out, the count is
//               acquire-release, and the last participant out reads it after the count: it sees the
//               store, and all tile writes of all participants. It first makes the slot ready for
//               the next submission, then (if finished) moves the chain with release, then
//               publishes cursor and, last, the id with release at system scope.
//  stale        A resubmission of a launch that has finished meanwhile, or of one behind a launch
//               that yielded, does not find chain == ordinal - 1 and leaves without a trace.
//  host         `sample` reads the epoch first and then checks that the latency-critical side is
//               idle; `begin` counts the request as submitted first and then advances the epoch,
//               both sequentially consistent. Whichever comes first, either the sampler sees the
//               request or the launch carries an epoch that is already over.
#pragma once

#include <cede/config.hpp>

#include <cstdint>

CEDE_BEGIN_NAMESPACE

namespace protocol {

/// Memory orders an `Atomics` provides.
enum class order { relaxed, acquire, release, acq_rel, seq_cst };
/// Scopes an `Atomics` provides. `system` reaches the host.
enum class scope { device, system };

/// Set in `slot::cursor` when a submission has been told to leave.
inline constexpr std::uint64_t raised_bit = std::uint64_t{1} << 63;
/// Why a submission ended.
enum class stop_reason : std::uint32_t {
  none = 0,     ///< ran out of tiles: the launch is finished
  gate = 1,     ///< the gate was raised
  chunk = 2,    ///< the submission's chunks are used up, tiles are left (gated form)
  workers = 3,  ///< fewer workers are allowed (share of the GPU)
  fault = 4,    ///< the device gave up
};

// An `Atomics` A provides, for W in {uint32_t, uint64_t}:
//   template <class W> using word = ...;                      an atomic object of type W
//   A::load<order, scope>(const word<W>&) -> W
//   A::store<order, scope>(word<W>&, W)
//   A::fetch_add<order, scope>(word<W>&, W) -> W              value before
//   A::fetch_or<order, scope>(word<W>&, W) -> W               value before
//   A::fetch_max<order, scope>(word<W>&, W) -> W              value before

/// The gate of a workload. The host's copy lives in memory the device can read; `epoch` has one
/// writer route, the host's atomic increment. The device's copy only ever moves forward
/// (`forward`).
template <class A>
struct gate {
  typename A::template word<std::uint32_t> epoch;            ///< advances at every raise
  typename A::template word<std::uint32_t> level;            ///< priority of the last raiser
  typename A::template word<std::uint32_t> allowed_workers;  ///< share of the GPU; 0 = no limit
  typename A::template word<std::uint32_t> reason;           ///< why it was raised last
};

/// State of one launch in flight; device memory; zero when free.
template <class A>
struct slot {
  typename A::template word<std::uint64_t> cursor;      ///< next ticket, in tiles, and `raised_bit`
  typename A::template word<std::uint64_t> stopped_at;  ///< exact cursor at the raise
  typename A::template word<std::uint64_t> longest;     ///< longest tile so far, ns
  typename A::template word<std::uint64_t> set_aside;   ///< tiles in records, below the cursor
  typename A::template word<std::uint32_t> left;  ///< participants that counted themselves out
};

/// What one worker of an `independent` body had claimed and not executed when it was told to leave;
/// device memory; empty (`left` = 0) when the launch is finished.
template <class A>
struct record {
  typename A::template word<std::uint64_t> next;       ///< the first of these tiles
  typename A::template word<std::uint32_t> left;       ///< how many
  typename A::template word<std::uint32_t> half_done;  ///< 1: the first is to be re-entered
};

/// Number of the last launch of the stream that is finished; device memory.
template <class A>
struct chain {
  typename A::template word<std::uint64_t> last;  ///< that number; 0: none yet
};

/// What the host reads; memory both sides see. `id` is written last.
template <class A>
struct publication {
  typename A::template word<std::uint64_t> cursor;    ///< tiles executed so far
  typename A::template word<std::uint64_t> longest;   ///< longest tile so far, ns
  typename A::template word<std::uint32_t> reason;    ///< a `stop_reason`
  typename A::template word<std::uint32_t> reserved;  ///< so that `id` is aligned
  typename A::template word<std::uint64_t> id;        ///< submission this speaks of
};

/// Counters of one latency-critical source; active while `completed` is behind. `completed` may
/// run ahead where work was held back by a dependency and so not counted yet. Host memory; the
/// device may advance `completed`.
template <class A>
struct activity {
  typename A::template word<std::uint64_t> submitted;  ///< so far
  typename A::template word<std::uint64_t> completed;  ///< so far
};

/// The constants of one submission, passed by value.
struct terms {
  std::uint64_t ordinal = 0;       ///< the launch's number in its stream, from 1
  std::uint64_t tiles = 0;         ///< of the whole launch
  std::uint64_t id = 0;            ///< the submission's number in its stream, from 1
  std::uint32_t epoch = 0;         ///< of the gate, sampled before submitting
  std::uint32_t participants = 1;  ///< that count themselves out
  std::uint32_t batch = 1;         ///< most tiles per claim
  std::uint32_t guide = 0;         ///< a claim takes at most (tiles left) / 2^guide, and one
  std::uint32_t records = 0;       ///< of the launch; 0: every claimed tile is executed
};

/// A claimed range of tiles; empty when there is nothing (more) to do.
struct claimed {
  std::uint64_t first = 0;  ///< number of the first tile
  std::uint32_t count = 0;  ///< tiles; 0: nothing
};

/// A worker's place among those of its submission, and how far it has seen the cursor.
struct worker {
  std::uint32_t number = 0;   ///< from 0
  std::uint32_t workers = 1;  ///< of the submission
  std::uint32_t record = 0;   ///< the next of its records to look at; begins at `number`
  std::uint64_t seen = 0;     ///< the tile behind its last claim
};

/// Tiles a worker holds: claimed, not executed.
struct holding {
  std::uint64_t next = 0;    ///< number of the next tile
  std::uint32_t left = 0;    ///< tiles not executed yet
  std::uint32_t record = 0;  ///< where they go if the worker is told to leave
  bool half_done = false;    ///< the first was left half done and is re-entered
};

/// True if a launch of `epoch` must give way to a gate at `now`. Right across wrap-around.
CEDE_BODY constexpr bool passed(std::uint32_t now, std::uint32_t epoch) {
  return static_cast<std::int32_t>(now - epoch) > 0;
}

/// Which submission enters: exactly the one whose predecessor is finished.
template <class A>
CEDE_BODY bool enter(const chain<A>& c, const terms& t) {
  return A::template load<order::acquire, scope::device>(c.last) == t.ordinal - 1;
}

/// Tells the submission to leave; idempotent. The first caller records the exact cursor. Only
/// participants call it, before they count themselves out.
template <class A>
CEDE_BODY void stop(slot<A>& s, const terms& t) {
  const std::uint64_t before =
      A::template fetch_or<order::relaxed, scope::device>(s.cursor, raised_bit);
  if ((before & raised_bit) == 0) {
    A::template store<order::relaxed, scope::device>(s.stopped_at,
                                                     before < t.tiles ? before : t.tiles);
  }
}

/// Looks at a gate and stops the submission if its epoch is over; true if it did.
template <class A, scope S>
CEDE_BODY bool notice(const gate<A>& g, slot<A>& s, const terms& t) {
  if (!passed(A::template load<order::relaxed, S>(g.epoch), t.epoch)) return false;
  stop<A>(s, t);
  return true;
}

/// Moves the device's copy of a gate forward to `epoch`, never back.
template <class A>
CEDE_BODY void forward(gate<A>& g, std::uint32_t epoch) {
  A::template fetch_max<order::relaxed, scope::device>(g.epoch, epoch);
}

/// Takes the next `most` tiles, fewer at the end of the grid, none after a stop.
template <class A>
CEDE_BODY claimed claim(slot<A>& s, const terms& t, std::uint32_t most) {
  const std::uint64_t first =
      A::template fetch_add<order::relaxed, scope::device>(s.cursor, std::uint64_t{most});
  if (first >= t.tiles) return {};  // the raised bit makes every ticket larger than any grid
  const std::uint64_t rest = t.tiles - first;
  return {first, rest < most ? static_cast<std::uint32_t>(rest) : most};
}
/// Takes the next batch.
template <class A>
CEDE_BODY claimed claim(slot<A>& s, const terms& t) {
  return claim<A>(s, t, t.batch);
}

/// How many tiles to claim for a worker that has seen the cursor at `seen`: batches that shrink
/// towards the end, so that the workers end together.
CEDE_BODY constexpr std::uint32_t share(const terms& t, std::uint64_t seen) {
  const std::uint64_t part = (t.tiles - seen) >> t.guide;
  return part >= t.batch ? t.batch : part == 0 ? 1 : static_cast<std::uint32_t>(part);
}

/// True once the submission has been told to leave.
template <class A>
CEDE_BODY bool raised(const slot<A>& s) {
  return (A::template load<order::relaxed, scope::device>(s.cursor) & raised_bit) != 0;
}

/// What a worker does next: first what its records hold, then what it can claim. Nothing
/// (`left` = 0): it leaves.
template <class A>
CEDE_BODY holding next(slot<A>& s, record<A>* records, const terms& t, worker& w) {
  while (w.record < t.records) {
    if (raised<A>(s)) return {};
    record<A>& r = records[w.record];
    holding h;
    h.record = w.record;
    h.left = A::template load<order::relaxed, scope::device>(r.left);
    w.record += w.workers;
    if (h.left == 0) continue;
    h.next = A::template load<order::relaxed, scope::device>(r.next);
    h.half_done = A::template load<order::relaxed, scope::device>(r.half_done) != 0;
    A::template store<order::relaxed, scope::device>(r.left, std::uint32_t{0});
    A::template fetch_add<order::relaxed, scope::device>(s.set_aside, std::uint64_t{0} - h.left);
    return h;
  }
  const claimed c = claim<A>(s, t, share(t, w.seen));
  w.seen = c.first + c.count;
  return {c.first, c.count, w.number, false};
}

/// Gives back what a worker holds. Only after a stop, and before it counts itself out.
template <class A>
CEDE_BODY void give_back(slot<A>& s, record<A>* records, const holding& h) {
  record<A>& r = records[h.record];
  A::template store<order::relaxed, scope::device>(r.next, h.next);
  A::template store<order::relaxed, scope::device>(r.half_done, std::uint32_t{h.half_done});
  A::template store<order::relaxed, scope::device>(r.left, h.left);
  A::template fetch_add<order::relaxed, scope::device>(s.set_aside, std::uint64_t{h.left});
}

/// True once a raise would change nothing any more: a watcher may leave. Where workers can give
/// back what they hold, that is when all have left.
template <class A>
CEDE_BODY bool exhausted(const slot<A>& s, const terms& t, std::uint64_t limit) {
  if (t.records != 0) {
    return A::template load<order::relaxed, scope::device>(s.left) + 1 == t.participants;
  }
  return A::template load<order::relaxed, scope::device>(s.cursor) >= limit;
}

/// Keeps the longest tile time seen by a worker. Call before counting out.
template <class A>
CEDE_BODY void record_longest(slot<A>& s, std::uint64_t ns) {
  A::template fetch_max<order::relaxed, scope::device>(s.longest, ns);
}

/// Ends a submission nobody works on any more: makes the slot ready for the next one, moves the
/// chain if the launch is finished, publishes. Called once per submission that entered, by the last
/// participant out or by the closing kernel behind the gated blocks.
template <class A>
CEDE_BODY void close(slot<A>& s, chain<A>& c, publication<A>& p, const terms& t) {
  const std::uint64_t word = A::template load<order::relaxed, scope::device>(s.cursor);
  const bool raised = (word & raised_bit) != 0;
  const std::uint64_t reached =
      raised ? A::template load<order::relaxed, scope::device>(s.stopped_at) : word;
  const std::uint64_t aside =
      t.records != 0 ? A::template load<order::relaxed, scope::device>(s.set_aside) : 0;
  const bool finished = reached >= t.tiles && aside == 0;
  const std::uint64_t executed = finished ? t.tiles : reached - aside;
  const std::uint64_t longest = A::template load<order::relaxed, scope::device>(s.longest);

  A::template store<order::relaxed, scope::device>(s.left, std::uint32_t{0});
  A::template store<order::relaxed, scope::device>(s.stopped_at, std::uint64_t{0});
  A::template store<order::relaxed, scope::device>(s.cursor, finished ? std::uint64_t{0} : reached);
  if (finished) {
    A::template store<order::relaxed, scope::device>(s.longest, std::uint64_t{0});
    A::template store<order::release, scope::device>(c.last, t.ordinal);
  }
  const stop_reason why = finished ? stop_reason::none
                          : raised ? stop_reason::gate
                                   : stop_reason::chunk;
  A::template store<order::relaxed, scope::system>(p.cursor, executed);
  A::template store<order::relaxed, scope::system>(p.longest, longest);
  A::template store<order::relaxed, scope::system>(p.reason, static_cast<std::uint32_t>(why));
  A::template store<order::release, scope::system>(p.id, t.id);
}

/// Counts a participant out; the last one closes the submission. All of the participant's tiles are
/// done and, on a block of several threads, a barrier lies between them and this call.
template <class A>
CEDE_BODY void leave(slot<A>& s, chain<A>& c, publication<A>& p, const terms& t) {
  const std::uint32_t before =
      A::template fetch_add<order::acq_rel, scope::device>(s.left, std::uint32_t{1});
  if (before + 1 == t.participants) close<A>(s, c, p, t);
}

// ---- the host's side ----------------------------------------------------------------------------
#if !CEDE_RTC

/// Counts work of the latency-critical side as submitted; call before `raise` and before launching.
template <class A>
std::uint64_t begin(activity<A>& a) {
  return A::template fetch_add<order::seq_cst, scope::system>(a.submitted, std::uint64_t{1}) + 1;
}

/// Counts work as completed where the host itself knows.
template <class A>
void finish(activity<A>& a) {
  A::template fetch_add<order::seq_cst, scope::system>(a.completed, std::uint64_t{1});
}

/// True while work is submitted that has not completed.
template <class A>
bool active(const activity<A>& a) {
  // `completed` first: it can only be behind, so that a difference is never missed.
  const std::uint64_t completed = A::template load<order::seq_cst, scope::system>(a.completed);
  return completed < A::template load<order::seq_cst, scope::system>(a.submitted);
}

/// Raises a gate: every launch that carries an earlier epoch leaves. Needs no lock and no driver.
template <class A>
std::uint32_t raise(gate<A>& g) {
  return A::template fetch_add<order::seq_cst, scope::system>(g.epoch, std::uint32_t{1}) + 1;
}

/// The epoch a submission must carry. Sample it first, then check that the latency-critical side is
/// idle, then submit: in that order.
template <class A>
std::uint32_t sample(const gate<A>& g) {
  return A::template load<order::seq_cst, scope::system>(g.epoch);
}

/// What a submission ended with, as far as it is published.
struct outcome {
  bool published = false;                  ///< false: the others say nothing
  std::uint64_t cursor = 0;                ///< tiles executed so far
  std::uint64_t longest = 0;               ///< longest tile so far, ns
  stop_reason reason = stop_reason::none;  ///< why it left
};

/// Reads a publication; `published` only if it speaks of submission `id`.
template <class A>
outcome read(const publication<A>& p, std::uint64_t id) {
  if (A::template load<order::acquire, scope::system>(p.id) != id) return {};
  return {true, A::template load<order::relaxed, scope::system>(p.cursor),
          A::template load<order::relaxed, scope::system>(p.longest),
          static_cast<stop_reason>(A::template load<order::relaxed, scope::system>(p.reason))};
}

#endif

}  // namespace protocol

CEDE_END_NAMESPACE
