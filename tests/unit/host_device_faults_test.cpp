// SPDX-License-Identifier: Apache-2.0
// A host device that fails: injected faults, bodies that throw, delays; nobody may hang.
#include <cede/detail/host_machine.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "host_fixture.hpp"

namespace {

using namespace cede_test;
using namespace std::chrono_literals;

/// Fails the `nth` operation of a name with a code.
std::shared_ptr<detail::device> failing(std::string name, std::uint64_t nth, int code,
                                        unsigned sms = 2) {
  return detail::make_host_device(
      {.sms = sms, .fault = [name, nth, code](std::string_view what, std::uint64_t n) {
         return what == name && n == nth ? code : 0;
       }});
}

/// The error `call` throws, or code 0 if it throws none.
std::pair<int, std::string> device_error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const cede::device_error& e) {
    CHECK_FALSE(std::string(e.what()).empty());
    return {e.code(), e.call()};
  }
  return {0, {}};
}

struct nothing {
  void operator()(block) const {}
};

/// Tiles far behind the one that throws last until the device has failed: so the other SMs have
/// some left to skip, whichever of them is quicker.
struct throwing {
  std::atomic<int>* runs;
  std::uint32_t at;
  detail::device* device;
  void operator()(block b) const {
    if (b.thread_rank() == 0) runs->fetch_add(1);
    b.sync();
    if (b.index().x == at && b.thread_rank() == 1) throw std::runtime_error("bad tile");
    if (b.index().x > at + 100 && b.thread_rank() == 0) await_failure();
    b.sync();
  }
  void await_failure() const {
    try {
      while (true) {
        device->check();
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    } catch (const cede::device_error&) {
    }
  }
};

}  // namespace

TEST_CASE("an operation that fails reaches every later call with its code, and nothing hangs") {
  for (const std::string name : {"kernel", "tile", "copy", "fill", "write_value", "wait_value",
                                 "record_event", "wait_event"}) {
    CAPTURE(name);
    const auto d = failing(name, 2, 77);
    const auto s = d->make_stream(stream_class::lane);
    const auto other = d->make_stream(stream_class::lane);
    const auto e = d->make_event();
    auto* never = words_of<std::uint64_t>(*d);
    std::atomic<int> length{0};
    std::array<int, 4> list{};
    std::vector<char> bytes(100000);
    int code = 0;
    // Which call first meets the failure depends on when the operation's turn comes.
    try {
      for (int i = 0; i < 2; ++i) {
        d->submit(s, native(nothing{}, {}));
        d->copy(s, bytes.data() + 50000, bytes.data(), 50000);
        d->fill(s, bytes.data(), 1, 50000);
        d->write_value(s, never, 1);
        d->wait_value(s, never, 1);
        d->record_event(s, e);
        d->wait_event(s, e);
      }
      std::atomic_ref(*never).store(0);
      d->wait_value(other, never, 2);
      d->submit(other, native(append{&length, list.data(), 1}, {}));
      d->synchronize(other);
    } catch (const cede::device_error& error) {
      code = error.code();
      CHECK(error.call() == name);
    }
    CHECK(code == 77);
    const std::pair<int, std::string> told{77, name};
    CHECK(device_error_of([&] { d->check(); }) == told);
    CHECK(device_error_of([&] { d->synchronize(s); }) == told);
    CHECK(device_error_of([&] { (void)d->query(s); }) == told);
    CHECK(device_error_of([&] { (void)d->event_done(e); }) == told);
    CHECK(device_error_of([&] { d->submit(s, native(nothing{}, {})); }) == told);
    CHECK(device_error_of([&] { d->copy(s, bytes.data(), bytes.data() + 1, 1); }) == told);
    CHECK(device_error_of([&] { d->fill(s, bytes.data(), 1, 1); }) == told);
    CHECK(device_error_of([&] { d->write_value(s, never, 9); }) == told);
    CHECK(device_error_of([&] { d->wait_value(s, never, 9); }) == told);
    CHECK(device_error_of([&] { d->record_event(s, e); }) == told);
    CHECK(device_error_of([&] { d->wait_event(s, e); }) == told);
    CHECK(device_error_of([&] { (void)d->make_stream(stream_class::lane); }) == told);
    CHECK(device_error_of([&] { (void)d->make_event(); }) == told);
    CHECK(device_error_of([&] { (void)d->words(8, true); }) == told);
    CHECK(device_error_of([&] { d->prepare(entry_of<nothing>()); }) == told);
    CHECK(length == 0);
    d->release(std::malloc(10));
    d->destroy_event(e);
    d->destroy_stream(s);
  }
}

TEST_CASE("threads that wait are told of a failure elsewhere") {
  const auto d = failing("write_value", 1, 5);
  auto* never = words_of<std::uint64_t>(*d);
  std::atomic<int> told{0};
  std::vector<std::thread> waiting;
  for (int i = 0; i < 3; ++i) {
    const auto s = d->make_stream(stream_class::lane);
    d->wait_value(s, never, 1);
    waiting.emplace_back([&, s] {
      if (device_error_of([&] { d->synchronize(s); }).first == 5) ++told;
    });
  }
  std::this_thread::sleep_for(5ms);
  d->write_value(d->make_stream(stream_class::lane), never, 1);
  for (auto& t : waiting) t.join();
  CHECK(told == 3);
  CHECK(*never == 0);
}

TEST_CASE("synchronize tells of a failure only when the tiles that run have ended") {
  const auto d = failing("fill", 1, 5, 1);
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  const auto s = d->make_stream(stream_class::lane);
  d->submit(s, native(hold{&started, &go}, {.grid = 2}));
  while (started == 0) std::this_thread::yield();
  std::atomic<bool> returned{false};
  std::thread waiting([&] {
    CHECK(device_error_of([&] { d->synchronize(s); }).first == 5);
    returned = true;
  });
  std::this_thread::sleep_for(5ms);
  char byte = 0;
  d->fill(d->make_stream(stream_class::lane), &byte, 1, 1);
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(returned);
  go = true;
  waiting.join();
  CHECK(started == 1);  // the second block was dropped
}

TEST_CASE("a body that throws fails the device, and is named") {
  for (const form how : {form::whole, form::gated, form::persistent}) {
    const auto d = make(3);
    preemptible_stream p(*d, 4);
    std::atomic<int> runs{0};
    const throwing body{&runs, 7, d.get()};
    const auto s = how == form::whole ? native(body, {.grid = 10000, .block = 4})
                                      : p.make(body, {.grid = 10000, .block = 4}, how, 1);
    d->submit(p.raw, s);
    const auto told = device_error_of([&] { d->synchronize(p.raw); });
    CHECK(told.first == detail::host_launch_failure);
    CHECK(told.second.find("throwing, tile 7") != std::string::npos);
    CHECK_THROWS_WITH_AS(d->check(), doctest::Contains("threw \"bad tile\""), cede::device_error);
    CHECK(runs < 10000);
    CHECK(runs >= 8);
    CHECK(p.words.published->id == 0);
    CHECK(p.finished() == 0);
  }
}

TEST_CASE("a body that throws something else than an exception fails the device as well") {
  struct throws_int {
    void operator()(block) const { throw 3; }
  };
  const auto d = make(1);
  const auto s = d->make_stream(stream_class::lane);
  d->submit(s, native(throws_int{}, {.grid = 4}));
  CHECK(device_error_of([&] { d->synchronize(s); }).first == detail::host_launch_failure);
}

TEST_CASE("tiles that wait at barriers for a tile that threw leave") {
  // All tiles but the first go round a barrier until the first has set a flag, which it never does.
  struct waits {
    std::atomic<int>* flag;
    std::atomic<int>* waiting;
    void operator()(block b) const {
      if (b.index().x == 0) {
        while (waiting->load() == 0) std::this_thread::yield();
        throw std::runtime_error("no flag today");
      }
      waiting->fetch_add(1);
      while (flag->load() == 0) b.sync();
    }
  };
  const auto d = make(2);
  const auto s = d->make_stream(stream_class::lane);
  std::atomic<int> flag{0};
  std::atomic<int> waiting{0};
  d->submit(s, native(waits{&flag, &waiting}, {.grid = 2, .block = 8}));
  CHECK_THROWS_WITH_AS(d->synchronize(s), doctest::Contains("no flag today"), cede::device_error);
}

TEST_CASE("a body that asks for too much shared memory fails the device with the numbers") {
  struct greedy {
    void operator()(block b) const { b.shared<char[3000]>()[0] = 1; }
  };
  const auto d = detail::make_host_device({.sms = 1, .shared_bytes = 4096});
  const auto s = d->make_stream(stream_class::lane);
  d->submit(s, native(greedy{}, {.shared = 1000}));
  d->synchronize(s);
  d->submit(s, native(greedy{}, {.shared = 2000}));
  CHECK_THROWS_WITH_AS(d->synchronize(s), doctest::Contains("5000 bytes of shared memory"),
                       cede::device_error);
}

TEST_CASE("a fault in a tile ends the launch wherever it happens, unpublished") {
  struct count {
    std::atomic<int>* runs;
    void operator()(block) const { runs->fetch_add(1); }
  };
  for (const form how : {form::gated, form::persistent}) {
    for (const std::uint64_t nth : {1U, 2U, 17U, 100U}) {
      // One worker alone would be the last one out.
      const auto d = failing("tile", nth, 9, nth % 2 == 0 ? 2 : 1);
      preemptible_stream p(*d, 3);
      std::atomic<int> runs{0};
      const count body{&runs};
      const auto s = p.make(body, {.grid = 100}, how, 1);
      d->submit(p.raw, s);
      CHECK(device_error_of([&] { d->synchronize(p.raw); }).first == 9);
      CHECK_FALSE(p.outcome_of(s).published);
      CHECK(p.finished() == 0);
      CHECK(runs >= static_cast<int>(nth) - 2);
    }
  }
}

TEST_CASE("calls that are refused throw alone, and the device stays well") {
  const auto d =
      detail::make_host_device({.sms = 1, .fault = [](std::string_view what, std::uint64_t n) {
                                  const bool once = what == "words" || what == "submit" ||
                                                    what == "make_stream" || what == "make_event" ||
                                                    what == "prepare";
                                  return once && n == 1 ? 2 : 0;
                                }});
  CHECK_THROWS_AS((void)d->words(8, true), cede::out_of_memory);
  CHECK(device_error_of([&] { (void)d->make_stream(stream_class::lane); }).second == "make_stream");
  CHECK(device_error_of([&] { (void)d->make_event(); }).second == "make_event");
  CHECK(device_error_of([&] { d->prepare(entry_of<nothing>()); }).second == "prepare");
  CHECK_FALSE(d->prepared(entry_of<nothing>()));
  const auto s = d->make_stream(stream_class::lane);
  CHECK(device_error_of([&] { d->submit(s, native(nothing{}, {})); }).second == "submit");
  d->check();
  d->submit(s, native(nothing{}, {}));
  d->synchronize(s);
}

TEST_CASE("memory released on a failed device lives until its tiles have ended") {
  // The address sanitizer watches: the tile writes on after the release.
  struct writes {
    int* memory;
    std::atomic<int>* started;
    std::atomic<bool>* go;
    void operator()(block) const {
      started->fetch_add(1);
      while (!go->load()) std::this_thread::yield();
      *memory = 4;
    }
  };
  const auto d = failing("fill", 1, 5, 1);
  const auto s = d->make_stream(stream_class::lane);
  auto* memory = static_cast<int*>(std::malloc(sizeof(int)));
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  d->submit(s, native(writes{memory, &started, &go}, {}));
  while (started == 0) std::this_thread::yield();
  char byte = 0;
  d->fill(d->make_stream(stream_class::lane), &byte, 1, 1);
  d->release(memory);
  go = true;
  CHECK(device_error_of([&] { d->synchronize(s); }).first == 5);
  CHECK(*memory == 4);
}

TEST_CASE("a well device frees what is released at once") {
  const auto d = make(1);
  d->release(std::malloc(100));  // the leak check of the address sanitizer watches
  d->release(nullptr);
}

TEST_CASE("delays slow down what they name and let the rest go on") {
  const auto begin = std::chrono::steady_clock::now();
  const auto d =
      detail::make_host_device({.sms = 2, .delay = [](std::string_view what, std::uint64_t n) {
                                  return what == "kernel" && n == 1 ? 50ms : 0ms;
                                }});
  const auto slow = d->make_stream(stream_class::lane);
  const auto fast = d->make_stream(stream_class::lane);
  std::atomic<int> length{0};
  std::array<int, 2> list{};
  d->submit(slow, native(append{&length, list.data(), 1}, {}));
  d->submit(fast, native(append{&length, list.data(), 2}, {}));
  d->synchronize(fast);
  d->synchronize(slow);
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  CHECK(list == std::array<int, 2>{2, 1});
}

TEST_CASE("a slow tile is measured as such") {
  const auto d =
      detail::make_host_device({.sms = 1, .delay = [](std::string_view what, std::uint64_t n) {
                                  return what == "tile" && n == 2 ? 10ms : 0ms;
                                }});
  preemptible_stream p(*d);
  const nothing body;
  const auto s = p.make(body, {.grid = 3}, form::persistent, 1);
  d->submit(p.raw, s);
  d->synchronize(p.raw);
  CHECK(p.outcome_of(s).longest >= 10'000'000);
}

TEST_CASE("devices that fail at random places are destroyed without a hang") {
  const std::array<std::string, 5> names{"kernel", "tile", "copy", "write_value", "wait_event"};
  for (unsigned trial = 0; trial < 60; ++trial) {
    std::vector<char> bytes(20000);
    const auto d = failing(names[trial % 5], 1 + trial * 7 % 23, 3, 1 + trial % 3);
    try {
      preemptible_stream p(*d, 2);
      preemptible_stream q(*d);
      auto* word = words_of<std::uint64_t>(*d);
      const auto e = d->make_event();
      for (std::uint64_t i = 1; i <= 8; ++i) {
        d->submit(p.raw, p.make(nothing{}, {.grid = 5}, form::persistent, i));
        d->write_value(p.raw, word, i);
        d->record_event(p.raw, e);
        d->wait_value(q.raw, word, i);
        d->submit(q.raw, q.make(nothing{}, {.grid = 5}, form::gated, i));
        d->copy(q.raw, bytes.data() + 10000, bytes.data(), 10000);
        d->wait_event(q.raw, e);
      }
      if (trial % 2 == 0) d->synchronize(q.raw);
      // A device that fails after this is destroyed while it works.
      if (trial % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(trial * 10));
    } catch (const cede::device_error& error) {
      CHECK(error.code() == 3);
    }
  }
}
