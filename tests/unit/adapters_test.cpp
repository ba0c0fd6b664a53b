// SPDX-License-Identifier: Apache-2.0
// The adapters without a scheduler, on the host device.
#include <cede/preempt.hpp>
#include <cede/slice.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using cede::form;

namespace {

struct count_tiles {
  int* hits;
  void operator()(cede::block b) const {
    b.sync();
    if (b.thread_rank() == 0) b.atomic_add(hits + b.index().x + b.grid().x * b.index().y, 1);
  }
};

struct native_body {
  static constexpr bool native = true;
  int* hits;
  void operator()(cede::block b) const { b.atomic_add(hits + b.index().x, 1); }
};

struct hold {
  std::atomic<bool>* go;
  int* hits;
  void operator()(cede::block b) const {
    while (!go->load()) std::this_thread::sleep_for(100us);
    b.atomic_add(hits + b.index().x, 1);
  }
};

cede::adapter_device two_sms() { return cede::adapter_device{cede::host_device{.sms = 2}}; }

cudaStream_t stream_of(const cede::adapter_device& d) {
  return d.machine().make_stream(cede::detail::stream_class::lane);
}

}  // namespace

TEST_CASE("slices cover the grid once, in order, and differ by at most one tile") {
  const auto device = two_sms();
  std::vector<int> hits(103);
  cede::sliceable parts{cede::shape{.grid = 103, .block = 2}, count_tiles{hits.data()}, device};
  for (std::uint64_t n : {1U, 2U, 7U, 103U, 1000U}) {
    std::uint64_t next = 0;
    for (const cede::slice& p : parts.slices({.count = n})) {
      CHECK(p.first == next);
      CHECK(p.count >= 103 / std::min<std::uint64_t>(n, 103));
      CHECK(p.count <= 103 / std::min<std::uint64_t>(n, 103) + 1);
      next += p.count;
    }
    CHECK(next == 103);
  }
  CHECK(parts.slices({.tiles = 50}).size() == 3);
  CHECK(parts.slices().size() == 1);
}

TEST_CASE("launching all slices runs every tile once; the whole launch does, too") {
  const auto device = two_sms();
  const cudaStream_t s = stream_of(device);
  std::vector<int> hits(24);
  cede::sliceable parts{cede::shape{.grid = {6, 4}, .block = 3}, count_tiles{hits.data()}, device};
  for (const cede::slice& p : parts.slices({.count = 5})) parts.launch(s, p);
  parts.launch(s);
  device.machine().synchronize(s);
  CHECK(hits == std::vector<int>(24, 2));
}

TEST_CASE("slices that make no sense are refused in words") {
  const auto device = two_sms();
  std::vector<int> hits(10);
  cede::sliceable parts{cede::shape{.grid = 10}, count_tiles{hits.data()}, device};
  const cudaStream_t s = stream_of(device);
  CHECK_THROWS_AS(static_cast<void>(parts.slices({.count = 2, .tiles = 3})),
                  cede::invalid_argument);
  CHECK_THROWS_AS(parts.launch(s, {0, 0}), cede::invalid_argument);
  CHECK_THROWS_AS(parts.launch(s, {9, 2}), cede::invalid_argument);
  CHECK_THROWS_AS(parts.launch(s, {10, 1}), cede::invalid_argument);
  CHECK_THROWS_AS(
      (cede::sliceable{cede::shape{.grid = 1, .block = 5000}, count_tiles{nullptr}, device}),
      cede::invalid_argument);
}

TEST_CASE("a preemptible launch told to leave again and again runs every tile once") {
  const auto device = two_sms();
  for (form f : {form::persistent, form::gated}) {
    std::vector<int> hits(4000);
    cede::preemptible job{cede::shape{.grid = hits.size(), .block = 3},
                          count_tiles{hits.data()},
                          {.form = f, .tiles_per_claim = 3, .chunk = 100},
                          device};
    CHECK_FALSE(job.finished());
    std::uint64_t last = 0;
    for (int i = 0; !job.finished(); ++i) {
      REQUIRE(i < 100000);
      job.launch();
      job.yield();
      job.wait();
      CHECK(job.cursor() >= last);
      last = job.cursor();
      if (i > 200) {  // enough; now to the end
        job.launch();
        job.wait();
      }
    }
    CHECK(job.cursor() == hits.size());
    CHECK(hits == std::vector<int>(hits.size(), 1));
  }
}

TEST_CASE("after it has finished a launch starts anew; while it runs launching throws") {
  const auto device = two_sms();
  std::atomic<bool> go{false};
  std::vector<int> hits(8);
  cede::preemptible job{cede::shape{.grid = 8}, hold{&go, hits.data()}, {}, device};
  job.launch();
  CHECK_THROWS_AS(job.launch(), cede::contract_error);
  CHECK_THROWS_AS(job.seek(2), cede::contract_error);
  CHECK_FALSE(job.wait_for(1ms));
  go = true;
  job.wait();
  CHECK(job.finished());
  job.launch();
  job.wait();
  CHECK(hits == std::vector<int>(8, 2));
}

TEST_CASE("a launch that sought starts there; words are reused by the next adapter") {
  const auto device = two_sms();
  std::vector<int> hits(100);
  {
    cede::preemptible job{cede::shape{.grid = 100}, count_tiles{hits.data()}, {}, device};
    job.seek(90);
    job.launch();
    job.wait();
    CHECK(job.finished());
    CHECK_THROWS_AS(job.seek(100), cede::invalid_argument);
    job.seek(50);  // and is dropped unfinished
  }
  for (int i = 0; i < 90; ++i) CHECK(hits[static_cast<std::size_t>(i)] == 0);
  cede::preemptible next{cede::shape{.grid = 100}, count_tiles{hits.data()}, {}, device};
  next.launch();
  next.wait();
  for (std::size_t i = 0; i < 100; ++i) CHECK(hits[i] == (i < 90 ? 1 : 2));
}

TEST_CASE("a moved-from launch throws, the one it was moved to goes on") {
  const auto device = two_sms();
  std::vector<int> hits(10);
  cede::preemptible job{cede::shape{.grid = 10}, count_tiles{hits.data()}, {}, device};
  cede::preemptible moved{std::move(job)};
  CHECK_THROWS_AS(job.launch(), cede::contract_error);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(job.yield(), cede::contract_error);   // NOLINT(bugprone-use-after-move)
  moved.launch();
  moved.wait();
  CHECK(hits == std::vector<int>(10, 1));
}

TEST_CASE("moved-from devices and sliceable launches throw, the ones they were moved to go on") {
  auto device = two_sms();
  const cudaStream_t s = stream_of(device);
  std::vector<int> hits(10);
  cede::sliceable parts{cede::shape{.grid = 10}, count_tiles{hits.data()}, device};
  cede::sliceable moved{std::move(parts)};
  CHECK_THROWS_AS(parts.launch(s), cede::contract_error);  // NOLINT(bugprone-use-after-move)
  moved.launch(s);
  device.machine().synchronize(s);
  CHECK(hits == std::vector<int>(10, 1));

  cede::adapter_device other{std::move(device)};
  // NOLINTBEGIN(bugprone-use-after-move)
  CHECK_THROWS_WITH_AS(static_cast<void>(device.take_words()), doctest::Contains("moved from"),
                       cede::contract_error);
  CHECK_THROWS_AS((cede::preemptible{cede::shape{.grid = 1}, count_tiles{nullptr}, {}, device}),
                  cede::contract_error);
  CHECK_THROWS_AS((cede::sliceable{cede::shape{.grid = 1}, count_tiles{nullptr}, device}),
                  cede::contract_error);
  // NOLINTEND(bugprone-use-after-move)
  other.machine().synchronize(s);
}

TEST_CASE("shapes with an axis of zero are refused by every adapter") {
  const auto device = two_sms();
  cede::shape s{.grid = 4};
  s.grid.x = 0;
  CHECK_THROWS_AS((cede::preemptible{s, count_tiles{nullptr}, {}, device}), cede::invalid_argument);
  CHECK_THROWS_AS((cede::sliceable{s, count_tiles{nullptr}, device}), cede::invalid_argument);
}

TEST_CASE("forms follow the body, and what it forbids is refused") {
  const auto device = two_sms();
  std::vector<int> hits(10);
  const cede::shape s{.grid = 10};
  cede::preemptible job{s, native_body{hits.data()}, {}, device};
  CHECK(job.how() == form::gated);
  CHECK_THROWS_AS(
      (cede::preemptible{s, native_body{hits.data()}, {.form = form::persistent}, device}),
      cede::not_supported);
  CHECK_THROWS_AS((cede::preemptible{s, count_tiles{hits.data()}, {.form = form::sliced}, device}),
                  cede::not_supported);
}

TEST_CASE("a launch that the device refuses is as if it had not been asked for") {
  bool refuse = false;
  const cede::adapter_device device{
      cede::host_device{.sms = 2, .fault = [&](std::string_view operation, std::uint64_t) {
                          return refuse && operation == "submit" ? 2 : 0;
                        }}};
  for (form f : {form::persistent, form::gated}) {
    std::vector<int> hits(50);
    {
      cede::preemptible job{cede::shape{.grid = 50}, count_tiles{hits.data()}, {.form = f}, device};
      CHECK_THROWS_AS(job.launch(nullptr), cede::error);  // no stream of this device
      refuse = true;
      CHECK_THROWS_AS(job.launch(), cede::device_error);
      refuse = false;
      CHECK_FALSE(job.finished());
      job.wait();  // for nothing
    }
    cede::preemptible job{cede::shape{.grid = 50}, count_tiles{hits.data()}, {.form = f}, device};
    for (int i = 1; i < 3; ++i) {
      job.launch();
      CHECK(job.wait_for(10s));
      CHECK(job.finished());
      CHECK(hits == std::vector<int>(50, i));
      refuse = true;
      CHECK_THROWS_AS(job.launch(), cede::device_error);
      refuse = false;
      CHECK(job.finished());
    }
  }
}

TEST_CASE("chunks that went out before another was refused are not run again") {
  for (const bool leaves : {false, true}) {
    CAPTURE(leaves);
    std::function<void()> yield;
    std::atomic<bool> go{false};
    const cede::adapter_device device{
        cede::host_device{.sms = 2, .fault = [&](std::string_view operation, std::uint64_t nth) {
                            if (operation != "submit" || nth != 4) return 0;
                            if (leaves) yield();
                            go = true;
                            return 2;
                          }}};
    std::vector<int> hits(100);
    cede::preemptible job{cede::shape{.grid = 100},
                          hold{&go, hits.data()},
                          {.form = form::gated, .chunk = 10},
                          device};
    yield = [&] { job.yield(); };
    CHECK_THROWS_AS(job.launch(), cede::device_error);
    CHECK_FALSE(job.finished());
    CHECK((leaves ? job.cursor() <= 2 : job.cursor() == 30));
    job.launch();
    CHECK(job.wait_for(10s));
    CHECK(job.finished());
    CHECK(hits == std::vector<int>(100, 1));
  }
}

TEST_CASE("a limit as long as time itself is a limit, and what was measured moves along") {
  const auto device = two_sms();
  std::atomic<bool> go{false};
  std::vector<int> hits(2);
  cede::preemptible job{cede::shape{.grid = 2}, hold{&go, hits.data()}, {}, device};
  job.launch();
  CHECK_FALSE(job.wait_for(1ms));
  std::thread later([&] {
    std::this_thread::sleep_for(5ms);
    go = true;
  });
  CHECK(job.wait_for(std::chrono::nanoseconds::max()));
  later.join();
  CHECK(job.finished());
  const auto longest = job.longest_tile();
  CHECK(longest > 0ns);
  cede::preemptible moved{std::move(job)};
  CHECK(moved.longest_tile() == longest);
  CHECK(moved.leaving_bound() >= longest);
}

TEST_CASE("a device that fails is noticed by who waits, and by the destructor without a throw") {
  const cede::adapter_device device{
      cede::host_device{.sms = 1, .fault = [](std::string_view operation, std::uint64_t nth) {
                          return operation == "tile" && nth == 5 ? 700 : 0;
                        }}};
  std::vector<int> hits(50);
  cede::preemptible job{cede::shape{.grid = 50}, count_tiles{hits.data()}, {}, device};
  job.launch();
  CHECK_THROWS_AS(job.wait(), cede::device_error);
  // It does not run any more, and waiting for it would not help.
  CHECK_THROWS_AS(job.launch(), cede::device_error);
  CHECK_THROWS_AS(job.seek(3), cede::device_error);
}
