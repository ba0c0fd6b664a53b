// SPDX-License-Identifier: Apache-2.0
// Raw streams and events of the host device without its threads: what may start when.
#include <cede/detail/host_streams.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host_fixture.hpp"

namespace {

using namespace std::chrono_literals;
using cede_test::stream_class;
namespace detail = cede::detail;
using detail::host_op;
using detail::host_operation;

struct nothing {
  void operator()(cede::block) const {}
};

/// Streams with nobody behind them: the test plays SMs and copy engine.
struct bench {
  std::function<int(std::string_view, std::uint64_t)> fault{};
  std::function<std::chrono::nanoseconds(std::string_view, std::uint64_t)> delay{};
  detail::host_injector injector{fault, delay};
  detail::host_health health{};
  detail::host_streams streams{injector, health};

  cudaStream_t make(stream_class c = stream_class::lane) { return streams.make_stream(c); }
  std::shared_ptr<detail::host_stream> at(cudaStream_t s) { return streams.stream(s, "test"); }
  bool empty(cudaStream_t s) { return at(s)->queue.empty(); }

  void write(cudaStream_t s, std::uint64_t& word, std::uint64_t value) {
    host_operation o{.what = host_op::write_value};
    o.word = &word;
    o.value = value;
    streams.push(at(s), o);
  }
  void wait(cudaStream_t s, std::uint64_t& word, std::uint64_t value) {
    host_operation o{.what = host_op::wait_value};
    o.word = &word;
    o.value = value;
    streams.push(at(s), o);
  }
  void record(cudaStream_t s, cudaEvent_t e) {
    host_operation o{.what = host_op::record_event};
    o.event = streams.event(e, "test");
    o.value = ++o.event->recorded;
    streams.push(at(s), o);
  }
  void wait(cudaStream_t s, cudaEvent_t e) {
    host_operation o{.what = host_op::wait_event};
    o.event = streams.event(e, "test");
    o.value = o.event->recorded;
    streams.push(at(s), o);
  }
  void copy(cudaStream_t s, void* to, const void* from, std::size_t bytes) {
    host_operation o{.what = host_op::copy};
    o.to = to;
    o.from = from;
    o.bytes = bytes;
    streams.push(at(s), o);
  }
  std::shared_ptr<detail::host_kernel> kernel(cudaStream_t s, std::uint64_t blocks = 1) {
    host_operation o{.what = host_op::kernel};
    o.kernel =
        std::make_shared<detail::host_kernel>(cede_test::native(nothing{}, {.grid = blocks}));
    streams.push(at(s), o);
    return o.kernel;
  }
};

}  // namespace

TEST_CASE("operations nobody has to be asked for are done as they are queued, in order") {
  bench b;
  const auto s = b.make();
  std::uint64_t word = 0;
  std::uint64_t copied = 0;
  b.write(s, word, 5);
  CHECK(word == 5);
  b.copy(s, &copied, &word, sizeof word);
  b.write(s, word, 6);
  CHECK(copied == 5);
  CHECK(word == 6);
  CHECK(b.empty(s));
  CHECK(b.at(s)->done == 3);
}

TEST_CASE("a value wait holds its stream until the word is as large, and no other stream") {
  bench b;
  const auto s = b.make();
  const auto other = b.make();
  std::uint64_t word = 3;
  std::uint64_t out = 0;
  std::uint64_t free = 0;
  b.wait(s, word, 4);
  b.write(s, out, 1);
  b.write(other, free, 1);
  CHECK(free == 1);
  CHECK(b.streams.waits_for_word());
  b.streams.carry_on_parked();
  CHECK(out == 0);
  word = 9;  // as the host may, at any time
  CHECK(out == 0);
  b.streams.carry_on_parked();
  CHECK(out == 1);
  CHECK_FALSE(b.streams.waits_for_word());
}

TEST_CASE("a value wait compares all 64 bits without a sign") {
  bench b;
  const auto s = b.make();
  std::uint64_t word = 1;
  b.wait(s, word, std::uint64_t{1} << 63);
  CHECK_FALSE(b.empty(s));
  word = ~std::uint64_t{0};
  b.streams.carry_on_parked();
  CHECK(b.empty(s));
}

TEST_CASE("a store by one stream lets another go on without anybody looking") {
  bench b;
  const auto s = b.make();
  const auto t = b.make();
  std::uint64_t word = 0;
  b.wait(s, word, 1);
  CHECK_FALSE(b.empty(s));
  b.write(t, word, 1);
  CHECK(b.empty(s));
}

TEST_CASE("a ring of waits unwinds in one go") {
  bench b;
  std::uint64_t words[20] = {};
  std::vector<cudaStream_t> streams;
  for (int i = 0; i < 19; ++i) streams.push_back(b.make());
  // Queued so that every look at the waiting streams in order finds just one that can go on.
  for (int i = 18; i >= 0; --i) {
    b.wait(streams[static_cast<std::size_t>(i)], words[i], 1);
    b.write(streams[static_cast<std::size_t>(i)], words[i + 1], 1);
  }
  CHECK(words[19] == 0);
  b.write(b.make(), words[0], 1);
  CHECK(words[19] == 1);
  for (auto s : streams) CHECK(b.empty(s));
}

TEST_CASE("a kernel is offered when all before it in its stream has ended") {
  bench b;
  const auto s = b.make();
  std::uint64_t word = 0;
  b.wait(s, word, 1);
  const auto first = b.kernel(s);
  const auto second = b.kernel(s);
  CHECK_FALSE(b.streams.next_kernel().has_value());
  word = 1;
  b.streams.carry_on_parked();
  auto offered = b.streams.next_kernel();
  REQUIRE(offered.has_value());
  CHECK(offered->kernel == first);
  CHECK(b.streams.kernels_offered() == 1);
  CHECK(first->start() == 0);
  CHECK_FALSE(b.streams.next_kernel().has_value());  // its only block has started
  b.streams.ended(offered->stream);
  offered = b.streams.next_kernel();
  REQUIRE(offered.has_value());
  CHECK(offered->kernel == second);
}

TEST_CASE("a free SM gets the highest priority first, among equals what was ready first") {
  bench b;
  const auto low = b.kernel(b.make(stream_class::lane), 2);
  const auto low_too = b.kernel(b.make(stream_class::lane), 2);
  CHECK(b.streams.next_kernel()->kernel == low);
  const auto middle = b.kernel(b.make(stream_class::cover), 1);
  CHECK(b.streams.next_kernel()->kernel == middle);
  const auto high = b.kernel(b.make(stream_class::latency_critical), 1);
  CHECK(b.streams.next_kernel()->kernel == high);
  high->start();
  CHECK(b.streams.next_kernel()->kernel == middle);
  middle->start();
  CHECK(b.streams.next_kernel()->kernel == low);
  low->start();
  CHECK(b.streams.next_kernel()->kernel == low);
  low->start();
  CHECK(b.streams.next_kernel()->kernel == low_too);
}

TEST_CASE("an event never recorded holds nobody") {
  bench b;
  const auto s = b.make();
  b.wait(s, b.streams.make_event());
  CHECK(b.empty(s));
}

TEST_CASE("a wait is for the record queued last before it") {
  bench b;
  const auto s = b.make();
  const auto t = b.make();
  const auto e = b.streams.make_event();
  std::uint64_t gate[2] = {};
  b.wait(s, gate[0], 1);
  b.record(s, e);
  b.wait(t, e);
  b.wait(s, gate[1], 1);
  b.record(s, e);  // recorded anew: the wait queued before it does not mind
  const auto u = b.make();
  b.wait(u, e);
  CHECK_FALSE(b.empty(t));
  gate[0] = 1;
  b.streams.carry_on_parked();
  CHECK(b.empty(t));
  CHECK_FALSE(b.empty(u));
  gate[1] = 1;
  b.streams.carry_on_parked();
  CHECK(b.empty(u));
  CHECK(b.empty(s));
}

TEST_CASE("a wait for a record is not met by a later one that ends first") {
  bench b;
  const auto s = b.make();
  const auto t = b.make();
  const auto u = b.make();
  const auto e = b.streams.make_event();
  std::uint64_t gate = 0;
  b.wait(s, gate, 1);
  b.record(s, e);
  b.wait(t, e);
  b.record(u, e);  // on a stream with nothing before it: ends at once
  CHECK(b.empty(u));
  CHECK_FALSE(b.empty(t));
  b.wait(u, e);  // for the latest: no wait
  CHECK(b.empty(u));
  gate = 1;
  b.streams.carry_on_parked();
  CHECK(b.empty(t));
  CHECK(b.empty(s));
}

TEST_CASE("an event destroyed while a stream waits for it still lets the stream go on") {
  bench b;
  const auto s = b.make();
  const auto t = b.make();
  const auto e = b.streams.make_event();
  std::uint64_t gate = 0;
  b.wait(s, gate, 1);
  b.record(s, e);
  b.wait(t, e);
  b.streams.destroy_event(e);
  CHECK_THROWS_AS((void)b.streams.event(e, "event_done"), cede::contract_error);
  gate = 1;
  b.streams.carry_on_parked();
  CHECK(b.empty(t));
}

TEST_CASE("large copies are left to the copy engine, small ones are not") {
  bench b;
  const auto s = b.make();
  std::vector<char> from(detail::host_streams::small_copy + 1, 'x');
  std::vector<char> to(from.size());
  b.copy(s, to.data(), from.data(), from.size() - 1);
  CHECK_FALSE(b.streams.copy_ready());
  CHECK(to[from.size() - 2] == 'x');
  b.copy(s, to.data(), from.data(), from.size());
  std::uint64_t word = 0;
  b.write(s, word, 1);
  REQUIRE(b.streams.copy_ready());
  CHECK(to.back() == 0);
  const auto c = b.streams.next_copy();
  REQUIRE(c.has_value());
  c->operation.move_bytes();
  CHECK(word == 0);
  b.streams.ended(c->stream);
  CHECK(word == 1);
  CHECK(to == from);
  CHECK_FALSE(b.streams.next_copy().has_value());
}

TEST_CASE("copies of nothing and overlapping copies are right") {
  bench b;
  const auto s = b.make();
  b.copy(s, nullptr, nullptr, 0);
  int v[] = {1, 2, 3, 4};
  b.copy(s, v + 1, v, 3 * sizeof(int));
  CHECK(v[1] == 1);
  CHECK(v[3] == 3);
}

TEST_CASE("handles of streams and events are never used twice, and wrong ones are refused") {
  bench b;
  const auto s = b.make();
  b.streams.destroy_stream(s);
  b.streams.destroy_stream(s);
  const auto t = b.make();
  CHECK(s != t);
  CHECK_THROWS_WITH_AS(b.at(s), doctest::Contains("no longer, one of this device"),
                       cede::contract_error);
  CHECK_THROWS_AS(b.at(nullptr), cede::contract_error);
  const auto e = b.streams.make_event();
  CHECK_THROWS_AS(b.at(reinterpret_cast<cudaStream_t>(e)), cede::contract_error);
  CHECK_THROWS_AS((void)b.streams.event(reinterpret_cast<cudaEvent_t>(t), "record_event"),
                  cede::contract_error);
}

TEST_CASE("a stream destroyed with work queued still does it") {
  bench b;
  const auto s = b.make();
  std::uint64_t gate = 0;
  std::uint64_t out = 0;
  b.wait(s, gate, 1);
  b.write(s, out, 1);
  b.streams.destroy_stream(s);
  gate = 1;
  b.streams.carry_on_parked();
  CHECK(out == 1);
}

TEST_CASE("dropping forgets what is queued, in destroyed streams as well") {
  bench b;
  const auto s = b.make();
  const auto t = b.make();
  std::uint64_t gate = 0;
  std::uint64_t out = 0;
  b.wait(s, gate, 1);
  b.write(s, out, 1);
  b.streams.destroy_stream(s);
  b.kernel(t);
  b.streams.drop();
  gate = 1;
  b.streams.carry_on_parked();
  CHECK(out == 0);
  CHECK(b.empty(t));
  CHECK_FALSE(b.streams.next_kernel().has_value());
  CHECK_FALSE(b.streams.waits_for_word());
}

TEST_CASE("faults and delays are asked once for each operation, when its turn comes") {
  std::vector<std::string> asked;
  bench b{.fault = [&](std::string_view what, std::uint64_t nth) {
    asked.push_back(std::string(what) + std::to_string(nth));
    return 0;
  }};
  const auto s = b.make();
  std::uint64_t gate = 0;
  b.wait(s, gate, 1);
  b.write(s, gate, 2);
  b.streams.carry_on_parked();
  CHECK(asked == std::vector<std::string>{"wait_value1"});
  gate = 1;
  b.streams.carry_on_parked();
  b.write(s, gate, 3);
  CHECK(asked == std::vector<std::string>{"wait_value1", "write_value1", "write_value2"});
}

TEST_CASE("an operation that fails stops its stream and the health of the device") {
  bench b{.fault = [](std::string_view what, std::uint64_t nth) {
    return what == "write_value" && nth == 2 ? 77 : 0;
  }};
  const auto s = b.make();
  std::uint64_t word = 0;
  b.write(s, word, 1);
  CHECK_NOTHROW(b.health.check());
  b.write(s, word, 2);
  CHECK(word == 1);
  CHECK(b.health.failed());
  try {
    b.health.check();
    FAIL("a failed device was taken for a well one");
  } catch (const cede::device_error& e) {
    CHECK(e.code() == 77);
    CHECK(e.call() == "write_value");
    CHECK(std::string(e.what()).find("write_value number 2") != std::string::npos);
  }
}

TEST_CASE("a delayed operation holds its stream until its time and no other") {
  bench b{.delay = [](std::string_view, std::uint64_t nth) {
    return nth == 1 ? std::chrono::nanoseconds(20ms) : 0ns;
  }};
  const auto s = b.make();
  std::uint64_t word = 0;
  std::uint64_t other = 0;
  b.write(s, word, 1);
  b.write(b.make(), other, 1);
  CHECK(other == 1);
  CHECK(word == 0);
  const auto until = b.streams.next_time();
  REQUIRE(until.has_value());
  std::this_thread::sleep_until(*until + 1ms);
  CHECK(b.streams.next_time() == until);  // passed, and still to be looked at
  b.streams.carry_on_parked();
  CHECK(word == 1);
  CHECK_FALSE(b.streams.next_time().has_value());
}
