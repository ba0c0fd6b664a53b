// SPDX-License-Identifier: Apache-2.0
// Each transition of the control words on its own, by one thread, on the library's atomics.
#include <cede/detail/atomics.hpp>
#include <cede/protocol.hpp>

#include <doctest/doctest.h>

#include <cstdint>

namespace {

namespace protocol = cede::protocol;
using cede::detail::atomics;
using protocol::raised_bit;
using protocol::stop_reason;

struct words {
  protocol::gate<atomics> gate{};
  protocol::slot<atomics> slot{};
  protocol::chain<atomics> chain{};
  protocol::publication<atomics> published{};
  protocol::activity<atomics> activity{};
  protocol::record<atomics> records[4]{};
};

// Launch 5 of its stream: 10 tiles, two at a time, one participant.
constexpr protocol::terms usual{
    .ordinal = 5, .tiles = 10, .id = 9, .epoch = 3, .participants = 1, .batch = 2};

bool enter(const words& w, const protocol::terms& t) {
  return protocol::enter<atomics>(w.chain, t);
}
protocol::claimed claim(words& w, const protocol::terms& t) {
  return protocol::claim<atomics>(w.slot, t);
}
protocol::holding next(words& w, const protocol::terms& t, protocol::worker& me) {
  return protocol::next<atomics>(w.slot, w.records, t, me);
}
void stop(words& w, const protocol::terms& t) { protocol::stop<atomics>(w.slot, t); }
void close(words& w, const protocol::terms& t) {
  protocol::close<atomics>(w.slot, w.chain, w.published, t);
}
void leave(words& w, const protocol::terms& t) {
  protocol::leave<atomics>(w.slot, w.chain, w.published, t);
}

}  // namespace

TEST_SUITE("protocol, one transition at a time") {
  TEST_CASE("an epoch is over once the gate is ahead of it") {
    CHECK_FALSE(protocol::passed(3, 3));
    CHECK(protocol::passed(4, 3));
    CHECK(protocol::passed(3 + 0x7fffffffu, 3));
    CHECK_FALSE(protocol::passed(2, 3));
    // Half the range and more ahead counts as behind.
    CHECK_FALSE(protocol::passed(3 + 0x80000001u, 3));
  }
  TEST_CASE("an epoch is over once the gate is ahead of it, across the end of the range") {
    CHECK(protocol::passed(0, 0xffffffffu));
    CHECK(protocol::passed(5, 0xfffffffeu));
    CHECK_FALSE(protocol::passed(0xffffffffu, 0));
    CHECK(protocol::passed(0x80000000u, 0x7fffffffu));
  }

  TEST_CASE("a submission enters when the launch in front is finished, and only then") {
    words w;
    w.chain.last = 3;
    CHECK_FALSE(enter(w, usual));
    w.chain.last = 4;
    CHECK(enter(w, usual));
    w.chain.last = 5;  // finished meanwhile: a stale submission
    CHECK_FALSE(enter(w, usual));
    w.chain.last = 6;
    CHECK_FALSE(enter(w, usual));
  }

  TEST_CASE("claims ascend and end with the grid") {
    words w;
    protocol::terms t = usual;
    t.tiles = 5;
    std::uint64_t next = 0;
    for (const std::uint32_t expected : {2u, 2u, 1u}) {
      const protocol::claimed c = claim(w, t);
      CHECK(c.first == next);
      CHECK(c.count == expected);
      next += c.count;
    }
    CHECK(claim(w, t).count == 0);
    CHECK(claim(w, t).count == 0);
  }
  TEST_CASE("a last claim that fits exactly is whole") {
    words w;
    w.slot.cursor = 8;
    const protocol::claimed c = claim(w, usual);
    CHECK(c.first == 8);
    CHECK(c.count == 2);
    CHECK(claim(w, usual).count == 0);
  }
  TEST_CASE("claims at the end of the largest grid") {
    // 2^31 - 1 by 65535 by 65535 tiles, the most CUDA takes, and more than 32 bits of everything.
    words w;
    protocol::terms t = usual;
    t.tiles = std::uint64_t{0x7fffffff} * 65535 * 65535;
    t.batch = 0xffffffffu;
    w.slot.cursor = t.tiles - t.batch - 1;
    CHECK(claim(w, t).count == 0xffffffffu);
    const protocol::claimed last = claim(w, t);
    CHECK(last.first == t.tiles - 1);
    CHECK(last.count == 1);
    // Claims beyond the end must not reach the raised bit.
    bool more = false;
    for (int i = 0; i < 60'000; ++i) more = claim(w, t).count != 0 || more;
    CHECK_FALSE(more);
    CHECK((w.slot.cursor & raised_bit) == 0);
    close(w, t);
    CHECK(w.published.cursor == t.tiles);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::none));
  }
  TEST_CASE("after a stop every claim is void") {
    words w;
    CHECK(claim(w, usual).count == 2);
    stop(w, usual);
    for (int i = 0; i < 100; ++i) CHECK(claim(w, usual).count == 0);
    CHECK(w.slot.stopped_at == 2);
  }

  TEST_CASE("the first stop records the exact cursor, later ones change nothing") {
    words w;
    claim(w, usual);
    claim(w, usual);
    stop(w, usual);
    CHECK(w.slot.stopped_at == 4);
    claim(w, usual);  // void, yet the counter moves
    stop(w, usual);
    CHECK(w.slot.stopped_at == 4);
  }
  TEST_CASE("a stop before the first claim leaves everything to do") {
    words w;
    stop(w, usual);
    CHECK(w.slot.cursor == raised_bit);
    CHECK(w.slot.stopped_at == 0);
  }
  TEST_CASE("a stop after the last claim records the end of the grid") {
    words w;
    w.slot.cursor = 10;
    stop(w, usual);
    CHECK(w.slot.stopped_at == 10);
    words beyond;
    beyond.slot.cursor = 14;  // claims in vain
    stop(beyond, usual);
    CHECK(beyond.slot.stopped_at == 10);
  }

  TEST_CASE("the gate is noticed if the epoch is over, and only then") {
    words w;
    w.gate.epoch = 3;
    CHECK_FALSE(protocol::notice<atomics, protocol::scope::system>(w.gate, w.slot, usual));
    CHECK(w.slot.cursor == 0);
    w.gate.epoch = 2;  // a copy that lags behind
    CHECK_FALSE(protocol::notice<atomics, protocol::scope::device>(w.gate, w.slot, usual));
    CHECK(w.slot.cursor == 0);
    w.gate.epoch = 4;
    CHECK(protocol::notice<atomics, protocol::scope::system>(w.gate, w.slot, usual));
    CHECK(w.slot.cursor == raised_bit);
    CHECK(protocol::notice<atomics, protocol::scope::device>(w.gate, w.slot, usual));
  }
  TEST_CASE("the device's copy of a gate moves forward only") {
    protocol::gate<atomics> copy{};
    copy.epoch = 5;
    protocol::forward<atomics>(copy, 4);
    CHECK(copy.epoch == 5);
    protocol::forward<atomics>(copy, 5);
    CHECK(copy.epoch == 5);
    protocol::forward<atomics>(copy, 7);
    CHECK(copy.epoch == 7);
    copy.epoch = 0xfffffffeu;
    protocol::forward<atomics>(copy, 1);
    CHECK(copy.epoch == 1);
    protocol::forward<atomics>(copy, 0xffffffffu);
    CHECK(copy.epoch == 1);
  }

  TEST_CASE("a watcher may leave once nothing can be claimed") {
    words w;
    CHECK_FALSE(protocol::exhausted<atomics>(w.slot, usual, 10));
    w.slot.cursor = 9;
    CHECK_FALSE(protocol::exhausted<atomics>(w.slot, usual, 10));
    w.slot.cursor = 10;
    CHECK(protocol::exhausted<atomics>(w.slot, usual, 10));
    w.slot.cursor = 11;
    CHECK(protocol::exhausted<atomics>(w.slot, usual, 10));
    w.slot.cursor = raised_bit;
    CHECK(protocol::exhausted<atomics>(w.slot, usual, 10));
  }
  TEST_CASE("a watcher of workers that can give back stays until they have all left") {
    words w;
    protocol::terms t = usual;
    t.records = 3;
    t.participants = 4;
    w.slot.cursor = 12;
    w.slot.left = 2;
    CHECK_FALSE(protocol::exhausted<atomics>(w.slot, t, 10));
    w.slot.left = 3;
    CHECK(protocol::exhausted<atomics>(w.slot, t, 10));
  }
  TEST_CASE("claims shrink towards the end, to one tile") {
    protocol::terms t = usual;
    t.tiles = 100;
    t.batch = 8;
    t.guide = 3;
    CHECK(protocol::share(t, 0) == 8);
    CHECK(protocol::share(t, 36) == 8);
    CHECK(protocol::share(t, 37) == 7);
    CHECK(protocol::share(t, 84) == 2);
    CHECK(protocol::share(t, 85) == 1);
    CHECK(protocol::share(t, 99) == 1);
    CHECK(protocol::share(t, 100) == 1);
    t.guide = 0;
    CHECK(protocol::share(t, 95) == 5);
    t.tiles = std::uint64_t{1} << 62;
    CHECK(protocol::share(t, 0) == 8);
  }
  TEST_CASE("a worker claims by what it has seen of the cursor") {
    words w;
    protocol::terms t = usual;
    t.tiles = 8;
    t.batch = 4;
    t.guide = 1;
    protocol::worker me;
    protocol::holding h = next(w, t, me);
    CHECK(h.next == 0);
    CHECK(h.left == 4);
    CHECK(me.seen == 4);
    h = next(w, t, me);
    CHECK(h.next == 4);
    CHECK(h.left == 2);
    w.slot.cursor = 7;  // others claim as well
    h = next(w, t, me);
    CHECK(h.next == 7);
    CHECK(h.left == 1);
    CHECK_FALSE(h.half_done);
    CHECK(next(w, t, me).left == 0);
  }
  TEST_CASE("a stop shows") {
    words w;
    w.slot.cursor = 5;
    CHECK_FALSE(protocol::raised<atomics>(w.slot));
    stop(w, usual);
    CHECK(protocol::raised<atomics>(w.slot));
  }
  TEST_CASE("what is given back comes first, once, and to one worker") {
    words w;
    protocol::terms t = usual;
    t.records = 4;
    w.slot.cursor = 6;
    protocol::give_back<atomics>(w.slot, w.records, {.next = 1, .left = 2, .record = 1});
    protocol::give_back<atomics>(w.slot, w.records,
                                 {.next = 4, .left = 1, .record = 3, .half_done = true});
    CHECK(w.slot.set_aside == 3);
    CHECK(w.records[1].half_done == 0);

    // Two workers now: the second has records 1 and 3.
    protocol::worker first{.number = 0, .workers = 2, .record = 0};
    protocol::worker second{.number = 1, .workers = 2, .record = 1};
    protocol::holding h = next(w, t, first);
    CHECK(h.next == 6);  // none of its own: a claim
    CHECK(h.left == 2);
    CHECK(h.record == 0);
    h = next(w, t, second);
    CHECK(h.next == 1);
    CHECK(h.left == 2);
    CHECK(h.record == 1);
    CHECK_FALSE(h.half_done);
    CHECK(w.records[1].left == 0);
    CHECK(w.slot.set_aside == 1);
    h = next(w, t, second);
    CHECK(h.next == 4);
    CHECK(h.left == 1);
    CHECK(h.record == 3);
    CHECK(h.half_done);
    CHECK(w.slot.set_aside == 0);
    h = next(w, t, second);
    CHECK(h.next == 8);
    CHECK(h.record == 1);
    CHECK_FALSE(h.half_done);
  }
  TEST_CASE("after a stop, what is given back stays where it is") {
    words w;
    protocol::terms t = usual;
    t.records = 1;
    w.slot.cursor = 6;
    protocol::give_back<atomics>(w.slot, w.records, {.next = 4, .left = 2});
    stop(w, t);
    protocol::worker me;
    CHECK(next(w, t, me).left == 0);
    CHECK(w.records[0].left == 2);
    CHECK(w.slot.set_aside == 2);
  }
  TEST_CASE("a launch with tiles set aside is not finished") {
    words w;
    w.chain.last = 4;
    protocol::terms t = usual;
    t.records = 1;
    w.slot.cursor = 10;
    stop(w, t);
    protocol::give_back<atomics>(w.slot, w.records, {.next = 8, .left = 2});
    close(w, t);
    CHECK(w.chain.last == 4);
    CHECK(w.published.cursor == 8);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::gate));
    CHECK(w.slot.cursor == 10);
    CHECK(w.slot.set_aside == 2);

    protocol::worker me;
    CHECK(next(w, t, me).left == 2);
    CHECK(next(w, t, me).left == 0);
    close(w, t);
    CHECK(w.chain.last == 5);
    CHECK(w.published.cursor == 10);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::none));
    CHECK(w.slot.cursor == 0);
    CHECK(w.slot.set_aside == 0);
  }
  TEST_CASE("the longest tile is kept") {
    words w;
    protocol::record_longest<atomics>(w.slot, 70);
    protocol::record_longest<atomics>(w.slot, 30);
    CHECK(w.slot.longest == 70);
    protocol::record_longest<atomics>(w.slot, 90);
    CHECK(w.slot.longest == 90);
  }

  TEST_CASE("closing a finished launch moves the chain, publishes and frees the slot") {
    words w;
    w.chain.last = 4;
    w.slot.cursor = 12;
    w.slot.longest = 77;
    w.slot.left = 1;
    close(w, usual);
    CHECK(w.chain.last == 5);
    CHECK(w.published.cursor == 10);
    CHECK(w.published.longest == 77);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::none));
    CHECK(w.published.id == 9);
    CHECK(w.slot.cursor == 0);
    CHECK(w.slot.stopped_at == 0);
    CHECK(w.slot.longest == 0);
    CHECK(w.slot.left == 0);
  }
  TEST_CASE("closing a stopped launch keeps the cursor and leaves the chain alone") {
    words w;
    w.chain.last = 4;
    claim(w, usual);
    claim(w, usual);
    stop(w, usual);
    claim(w, usual);
    w.slot.longest = 77;
    w.slot.left = 1;
    close(w, usual);
    CHECK(w.chain.last == 4);
    CHECK(w.published.cursor == 4);
    CHECK(w.published.longest == 77);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::gate));
    CHECK(w.published.id == 9);
    CHECK(w.slot.cursor == 4);
    CHECK(w.slot.stopped_at == 0);
    CHECK(w.slot.longest == 77);  // of the whole launch
    CHECK(w.slot.left == 0);
  }
  TEST_CASE("a launch stopped after its last claim is finished") {
    words w;
    w.chain.last = 4;
    w.slot.cursor = 12;
    stop(w, usual);
    close(w, usual);
    CHECK(w.chain.last == 5);
    CHECK(w.slot.cursor == 0);
    CHECK(w.published.cursor == 10);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::none));
  }
  TEST_CASE("chunks that are used up leave the rest to the next submission") {
    words w;
    w.chain.last = 4;
    w.slot.cursor = 6;
    close(w, usual);
    CHECK(w.chain.last == 4);
    CHECK(w.slot.cursor == 6);
    CHECK(w.published.cursor == 6);
    CHECK(w.published.reason == static_cast<std::uint32_t>(stop_reason::chunk));
  }
  TEST_CASE("the last participant out closes the submission, no other") {
    words w;
    w.chain.last = 4;
    w.slot.cursor = 10;
    protocol::terms t = usual;
    t.participants = 3;
    leave(w, t);
    leave(w, t);
    CHECK(w.chain.last == 4);
    CHECK(w.published.id == 0);
    CHECK(w.slot.left == 2);
    leave(w, t);
    CHECK(w.chain.last == 5);
    CHECK(w.published.id == 9);
    CHECK(w.slot.left == 0);
  }
  TEST_CASE("a stopped launch resumes where it stopped") {
    words w;
    w.chain.last = 4;
    protocol::terms t = usual;
    CHECK(claim(w, t).first == 0);
    stop(w, t);
    CHECK(claim(w, t).count == 0);
    leave(w, t);
    t.id = 10;
    t.epoch = 4;
    CHECK(enter(w, t));
    for (const std::uint64_t first : {2u, 4u, 6u, 8u}) CHECK(claim(w, t).first == first);
    CHECK(claim(w, t).count == 0);
    leave(w, t);
    CHECK(w.chain.last == 5);
    CHECK(w.published.cursor == 10);
    CHECK(w.published.id == 10);
  }

  TEST_CASE("a raise advances the epoch by one, also across the end of the range") {
    words w;
    w.gate.epoch = 0xffffffffu;
    const std::uint32_t sampled = protocol::sample<atomics>(w.gate);
    CHECK(protocol::raise<atomics>(w.gate) == 0);
    CHECK(protocol::sample<atomics>(w.gate) == 0);
    CHECK(protocol::passed(protocol::sample<atomics>(w.gate), sampled));
    CHECK(protocol::raise<atomics>(w.gate) == 1);
  }
  TEST_CASE("a source is active while its counters differ") {
    words w;
    CHECK_FALSE(protocol::active<atomics>(w.activity));
    CHECK(protocol::begin<atomics>(w.activity) == 1);
    CHECK(protocol::active<atomics>(w.activity));
    CHECK(protocol::begin<atomics>(w.activity) == 2);
    protocol::finish<atomics>(w.activity);
    CHECK(protocol::active<atomics>(w.activity));
    protocol::finish<atomics>(w.activity);
    CHECK_FALSE(protocol::active<atomics>(w.activity));
    // Work that the device completed before the host counted it keeps nobody out.
    w.activity.completed = 3;
    CHECK_FALSE(protocol::active<atomics>(w.activity));
    w.activity.completed = 2;
    CHECK(w.activity.submitted == 2);
    CHECK(w.activity.completed == 2);
  }
  TEST_CASE("a publication is read if it speaks of the submission asked for") {
    words w;
    CHECK_FALSE(protocol::read<atomics>(w.published, 9).published);
    w.published.cursor = 4;
    w.published.longest = 77;
    w.published.reason = static_cast<std::uint32_t>(stop_reason::gate);
    w.published.id = 9;
    const protocol::outcome o = protocol::read<atomics>(w.published, 9);
    CHECK(o.published);
    CHECK(o.cursor == 4);
    CHECK(o.longest == 77);
    CHECK(o.reason == stop_reason::gate);
    CHECK_FALSE(protocol::read<atomics>(w.published, 8).published);
    CHECK_FALSE(protocol::read<atomics>(w.published, 10).published);
  }
}
