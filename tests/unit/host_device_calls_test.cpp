// SPDX-License-Identifier: Apache-2.0
// The other calls of the host device: waits, copies, refusals; idleness; being destroyed.
#include <cede/detail/host_machine.hpp>

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <time.h>

#include "host_fixture.hpp"

namespace {

using namespace cede_test;
using namespace std::chrono_literals;

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

TEST_CASE("a stream that waits for a word goes on when the host stores to it") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::cover);
  auto* word = words_of<std::uint64_t>(*d);
  auto* out = words_of<std::uint64_t>(*d);
  REQUIRE(d->device_address(word) == word);
  for (std::uint64_t i = 1; i <= 5; ++i) {
    d->wait_value(s, word, i);
    d->write_value(s, out, i);
    std::this_thread::sleep_for(2ms);
    CHECK_FALSE(d->query(s));
    CHECK(std::atomic_ref(*out).load() == i - 1);
    std::atomic_ref(*word).store(i);
    CHECK(within(20s, [&] { return std::atomic_ref(*out).load() == i; }));
  }
  d->synchronize(s);
  CHECK(d->query(s));
}

TEST_CASE("a cover stream waits for the chain word of a launch") {
  const auto d = make();
  preemptible_stream p(*d);
  const auto cover = d->make_stream(stream_class::cover);
  int n = 0;
  std::array<index3, 1> seen{};
  d->wait_value(cover, &p.words.chain->last, 1);
  const auto e = d->make_event();
  d->record_event(cover, e);
  CHECK_FALSE(d->event_done(e));
  d->submit(p.raw, p.make(note_index{seen.data(), &n}, {}, form::gated, 1));
  d->synchronize(cover);
  CHECK(d->event_done(e));
  CHECK(n == 1);
}

TEST_CASE("events order streams") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  const auto t = d->make_stream(stream_class::lane);
  const auto e = d->make_event();
  CHECK(d->event_done(e));  // never recorded
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  auto* out = words_of<std::uint64_t>(*d);
  d->submit(s, native(hold{&started, &go}, {}));
  d->record_event(s, e);
  d->wait_event(t, e);
  d->write_value(t, out, 1);
  CHECK_FALSE(d->event_done(e));
  CHECK_FALSE(d->query(t));
  CHECK(std::atomic_ref(*out).load() == 0);
  go = true;
  d->synchronize(t);
  CHECK(*out == 1);
  CHECK(d->event_done(e));
}

TEST_CASE("copies and fills go on while kernels hold every SM") {
  const auto d = make(1);
  const auto s = d->make_stream(stream_class::lane);
  std::vector<char> a(100000), b(100000);
  {
    occupied busy(*d);
    d->fill(s, a.data(), 'q', a.size());
    d->copy(s, b.data(), a.data(), a.size());
    d->fill(s, a.data(), 'r', 10);
    d->synchronize(s);
  }
  CHECK(b == std::vector<char>(100000, 'q'));
  CHECK(std::string(a.begin(), a.begin() + 11) == "rrrrrrrrrrq");
}

TEST_CASE("synchronize waits for what was queued before it, not for what comes after") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  auto* gate = words_of<std::uint64_t>(*d);
  std::atomic<bool> returned{false};
  d->wait_value(s, gate, 1);
  std::thread waiting([&] {
    d->synchronize(s);
    returned = true;
  });
  std::this_thread::sleep_for(10ms);
  CHECK_FALSE(returned);
  // By now the other thread waits: streams are used by one thread at a time, and it only reads.
  auto* other = words_of<std::uint64_t>(*d);
  d->wait_value(s, other, 1);
  std::atomic_ref(*gate).store(1);
  CHECK(within(20s, [&] { return returned.load(); }));
  waiting.join();
  CHECK_FALSE(d->query(s));
  std::atomic_ref(*other).store(1);
  d->synchronize(s);
}

TEST_CASE("control words are zero, and no two owners share a cache line") {
  const auto d = make();
  std::vector<unsigned char*> all;
  for (std::size_t bytes : {1U, 8U, 64U, 129U, 1000U}) {
    auto* w = static_cast<unsigned char*>(d->words(bytes, true));
    for (std::size_t i = 0; i < bytes; ++i) CHECK(w[i] == 0);
    std::memset(w, 0xaa, bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(w) % 128 == 0);
    for (auto* other : all) CHECK(other != w);
    all.push_back(w);
  }
}

TEST_CASE("a body that does not fit is told so, with the reason") {
  const auto d = detail::make_host_device({.sms = 1, .shared_bytes = 4096});
  const auto& e = entry_of<hold>();
  std::string why;
  CHECK(d->blocks_per_sm(e, {.block = 1024, .shared = 4096}, form::persistent, &why) == 1);
  CHECK(why.empty());
  CHECK(d->blocks_per_sm(e, {.block = {1024, 2}}, form::gated, &why) == 0);
  CHECK(why.find("threads of a block is 2048") != std::string::npos);
  CHECK(d->blocks_per_sm(e, {.shared = 4097}, form::gated, &why) == 0);
  CHECK(why.find("shared memory") != std::string::npos);
  detail::kernel_entry foreign;
  foreign.name = "device_only";
  CHECK(d->blocks_per_sm(foreign, {}, form::whole, &why) == 0);
  CHECK(why.find("device_only has no host code") != std::string::npos);
}

TEST_CASE("bodies are prepared one by one") {
  const auto d = make();
  CHECK_FALSE(d->prepared(entry_of<hold>()));
  d->prepare(entry_of<hold>());
  CHECK(d->prepared(entry_of<hold>()));
  CHECK_FALSE(d->prepared(entry_of<append>()));
}

TEST_CASE("a submission that breaks the contract is refused in words, and the device stays well") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  std::array<index3, 10> seen{};
  int n = 0;
  const note_index body{seen.data(), &n};
  preemptible_stream p(*d);
  const shape ten{.grid = 10};

  auto bad = native(body, ten);
  CHECK_THROWS_AS(d->submit(nullptr, bad), cede::contract_error);
  bad.kernel = nullptr;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  bad = native(body, ten);
  bad.first = 5;
  CHECK_THROWS_WITH_AS(d->submit(s, bad), doctest::Contains("ends behind its grid"),
                       cede::contract_error);
  bad.first = ~std::uint64_t{0} - 2;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  bad = native(body, ten);
  bad.count = 0;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  bad = native(body, ten);
  bad.how = form::automatic;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  bad.geometry.block = {2000};
  CHECK_THROWS_AS(d->submit(s, bad), cede::invalid_argument);
  bad = p.make(body, ten, form::persistent, 1);
  bad.words.slot = nullptr;
  CHECK_THROWS_WITH_AS(d->submit(s, bad), doctest::Contains("lacks control words"),
                       cede::contract_error);
  bad = p.make(body, ten, form::persistent, 1);
  bad.terms.participants = 9;
  CHECK_THROWS_WITH_AS(d->submit(s, bad), doctest::Contains("no watcher"), cede::contract_error);
  bad = p.make(body, ten, form::gated, 1);
  bad.terms.batch = 2;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  bad = p.make(body, ten, form::gated, 1);
  bad.terms.tiles = 11;
  CHECK_THROWS_AS(d->submit(s, bad), cede::contract_error);
  detail::kernel_entry foreign = entry_of<note_index>();
  foreign.host_run = nullptr;
  bad = native(body, ten);
  bad.kernel = &foreign;
  CHECK_THROWS_AS(d->submit(s, bad), cede::not_supported);

  CHECK(n == 0);
  d->check();
  d->submit(s, native(body, ten));
  d->synchronize(s);
  CHECK(n == 10);
}

TEST_CASE("wrong handles are refused, in every call") {
  const auto d = make();
  const auto s = d->make_stream(stream_class::lane);
  const auto gone = d->make_stream(stream_class::lane);
  const auto e = d->make_event();
  const auto past = d->make_event();
  d->destroy_stream(gone);
  d->destroy_event(past);
  d->destroy_stream(nullptr);
  d->destroy_event(nullptr);
  std::uint64_t word = 0;
  CHECK_THROWS_AS(d->copy(gone, &word, &word, 8), cede::contract_error);
  CHECK_THROWS_AS(d->fill(gone, &word, 0, 8), cede::contract_error);
  CHECK_THROWS_AS(d->write_value(gone, &word, 1), cede::contract_error);
  CHECK_THROWS_AS(d->wait_value(gone, &word, 1), cede::contract_error);
  CHECK_THROWS_AS(d->record_event(gone, e), cede::contract_error);
  CHECK_THROWS_AS(d->record_event(s, past), cede::contract_error);
  CHECK_THROWS_AS(d->wait_event(s, past), cede::contract_error);
  CHECK_THROWS_AS((void)d->event_done(past), cede::contract_error);
  CHECK_THROWS_AS((void)d->query(gone), cede::contract_error);
  CHECK_THROWS_AS(d->synchronize(gone), cede::contract_error);
  CHECK(word == 0);
  CHECK(d->event_done(e));
}

TEST_CASE("an idle device takes no CPU time, and one that waits for a word next to none") {
  const auto d = make(4);
  const auto s = d->make_stream(stream_class::cover);
  d->synchronize(s);
  std::this_thread::sleep_for(20ms);
  double begin = cpu_seconds();
  std::this_thread::sleep_for(300ms);
  CHECK(cpu_seconds() - begin < 0.003);

  auto* word = words_of<std::uint64_t>(*d);
  d->wait_value(s, word, 1);
  std::this_thread::sleep_for(20ms);
  begin = cpu_seconds();
  std::this_thread::sleep_for(300ms);
  const double waiting = cpu_seconds() - begin;
  MESSAGE("waiting for a word takes ", 100 * waiting / 0.3, " % of a CPU");
  CHECK(waiting < 0.02);
  std::atomic_ref(*word).store(1);
  d->synchronize(s);

  std::this_thread::sleep_for(20ms);
  begin = cpu_seconds();
  std::this_thread::sleep_for(300ms);
  CHECK(cpu_seconds() - begin < 0.003);
}

TEST_CASE("destroying the device waits for the tiles that run and drops what has not started") {
  std::atomic<int> started{0};
  std::atomic<bool> go{false};
  std::atomic<int> length{0};
  std::array<int, 8> list{};
  auto d = make(1);
  const auto s = d->make_stream(stream_class::lane);
  auto* never = words_of<std::uint64_t>(*d);
  d->submit(s, native(hold{&started, &go}, {.grid = 3}));
  d->submit(s, native(append{&length, list.data(), 1}, {}));
  const auto t = d->make_stream(stream_class::lane);
  d->wait_value(t, never, 1);
  d->submit(t, native(append{&length, list.data(), 2}, {}));
  REQUIRE(within(20s, [&] { return started == 1; }));
  std::thread opens([&] {
    std::this_thread::sleep_for(30ms);
    go = true;
  });
  d.reset();
  CHECK(go);
  CHECK(started == 1);
  CHECK(length == 0);
  opens.join();
}

TEST_CASE("destroying the device ends persistent workers at their next claim") {
  struct slow {
    std::atomic<int>* runs;
    void operator()(block) const {
      runs->fetch_add(1);
      std::this_thread::sleep_for(1ms);
    }
  };
  std::atomic<int> runs{0};
  auto d = make(2);
  preemptible_stream p(*d);
  d->submit(p.raw, p.make(slow{&runs}, {.grid = 1000000}, form::persistent, 1));
  REQUIRE(within(20s, [&] { return runs > 3; }));
  d.reset();
  CHECK(runs < 1000000);
}

TEST_CASE("devices come and go") {
  for (int i = 0; i < 30; ++i) {
    const auto d = make(3);
    std::atomic<int> length{0};
    std::array<int, 8> list{};
    const auto s = d->make_stream(stream_class::lane);
    d->submit(s, native(append{&length, list.data(), 1}, {.grid = 8}));
    if (i % 2 == 0) {
      d->synchronize(s);
      CHECK(length == 8);
    }
  }
}
