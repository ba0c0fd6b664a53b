// SPDX-License-Identifier: Apache-2.0
// Recording: bounded, without allocation, from many threads; and writing to files that may fail.
#include <cede/timeline.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "support/count_allocations.hpp"
#include "support/folder.hpp"
#include "support/json.hpp"
#include "support/trace.hpp"

using cede::instant_kind;
using cede::span_kind;
using cede::timeline;
using cede_test::events;
using cede_test::folder;
using cede_test::json;
using cede_test::trace_of;
using cede_test::written;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

TEST_CASE("timeline: the oldest events give way and are counted") {
  timeline t(8);
  const auto s = t.add_track("w", "s");
  for (int i = 0; i < 20; ++i) t.span(s, span_kind::launch, std::to_string(i), i * 1us, i * 1us);
  CHECK(t.dropped() == 12);
  const json trace = trace_of(t);
  CHECK(trace["otherData"]["dropped_events"].number() == 12);
  const auto spans = events(trace, "X");
  REQUIRE(spans.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(spans[i]["name"].string() == std::to_string(12 + i));
}

TEST_CASE("timeline: an unknown track is dropped and counted") {
  timeline t(8);
  t.span(0, span_kind::launch, "x", 0ns, 1ns);
  const auto s = t.add_track("w", "s");
  t.span(s + 1, span_kind::launch, "x", 0ns, 1ns);
  CHECK(t.dropped() == 2);
  CHECK(events(trace_of(t), "X").empty());
}

TEST_CASE("timeline: off records nothing and says so when written") {
  timeline t;
  CHECK_FALSE(t.on());
  CHECK_FALSE(timeline(0).on());
  const auto s = t.add_track("w", "s");
  t.span(s, span_kind::launch, "x", 0ns, 1ns);
  t.instant(s, instant_kind::raise, "x", 0ns);
  t.request(s, 1, "x", 0ns, 1ns);
  CHECK(t.dropped() == 0);
  std::ostringstream out;
  CHECK_THROWS_AS(t.write(out), cede::contract_error);
  CHECK(out.str().empty());
  const folder f;
  CHECK_THROWS_AS(t.write(f / "run.json"), cede::contract_error);
  CHECK_FALSE(exists(f / "run.json"));
}

TEST_CASE("timeline: a capacity out of range is refused") {
  CHECK_THROWS_AS(timeline{std::numeric_limits<std::size_t>::max()}, cede::invalid_argument);
  CHECK_THROWS_WITH_AS(timeline((std::size_t{1} << 28U) + 1),
                       "timeline: a capacity of 268435457 events is more than 2^28",
                       cede::invalid_argument);
}

TEST_CASE("timeline: recording does not allocate") {
  timeline t(64);
  const auto s = t.add_track("w", "s");
  const std::string name(300, 'n');
  const auto before = cede_test::allocations();
  for (int i = 0; i < 1000; ++i) {
    t.span(s, span_kind::launch, name, 0ns, 1ns, {.ordinal = 1});
    t.instant(s, instant_kind::raise, name, 0ns);
    t.request(s, 1, name, 0ns, 1ns);
  }
  CHECK(cede_test::allocations() == before);
}

TEST_CASE("timeline: a file is written and replaced") {
  const folder f;
  const std::string path = f / "run.json";
  {
    std::ofstream old(path);
    old << std::string(100'000, 'x');
  }
  timeline t(4);
  t.span(t.add_track("w", "s"), span_kind::launch, "x", 0ns, 1ns);
  t.write(path);
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  CHECK(text.str() == written(t));
}

TEST_CASE("timeline: a path that cannot be written is named in a sentence") {
  timeline t(4);
  const folder f;
  for (const std::string& path : {f / "none/run.json", f.path().string(), std::string()}) {
    CAPTURE(path);
    try {
      t.write(path);
      FAIL("no error");
    } catch (const cede::error& e) {
      const std::string sentence = e.what();
      CAPTURE(sentence);
      CHECK(sentence.find("the timeline file \"" + path + "\" could not be opened: ") == 0);
    }
  }
  CHECK_FALSE(exists(f / "none"));
}

TEST_CASE("timeline: a full device is an error, and is left alone") {
  timeline t(100'000);
  const auto s = t.add_track("w", "s");
  for (int i = 0; i < 20'000; ++i) t.span(s, span_kind::launch, "x", i * 1ns, i * 1ns);
  CHECK_THROWS_AS(t.write("/dev/full"), cede::error);
  CHECK(exists("/dev/full"));
}

TEST_CASE("timeline: a stream that fails is an error") {
  timeline t(4);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  CHECK_THROWS_WITH_AS(
      t.write(out), "the timeline could not be written: the stream refused the text", cede::error);
}

TEST_CASE("timeline: many threads record while it is written") {
  timeline t(512);
  constexpr int threads = 4;
  constexpr std::uint64_t each = 20'000;
  std::atomic<int> running{threads};
  std::vector<std::thread> all;
  for (int k = 0; k < threads; ++k) {
    all.emplace_back([&, k] {
      const auto s = t.add_track("w", "s" + std::to_string(k));
      const std::string name(static_cast<std::size_t>(20 + k), static_cast<char>('a' + k));
      for (std::uint64_t i = 0; i < each; ++i) {
        const nanoseconds at{static_cast<std::int64_t>(i)};
        t.span(s, span_kind::launch, name, at, at + 1ns, {.ordinal = i + 1, .cursor = i + 1});
      }
      --running;
    });
  }
  int writes = 0;
  const auto check_whole = [&] {
    const json trace = trace_of(t);
    ++writes;
    for (const json& e : events(trace, "X")) {
      // No event is a mixture of two.
      const std::string& name = e["name"].string();
      const auto k = static_cast<std::size_t>(name[0] - 'a');
      REQUIRE(k < threads);
      REQUIRE(name == std::string(20 + k, name[0]));
      REQUIRE(e["args"]["ordinal"].digits() == e["args"]["cursor"].digits());
    }
    return events(trace, "X").size();
  };
  while (running > 0) check_whole();
  for (std::thread& one : all) one.join();
  const std::size_t kept = check_whole();
  CHECK(writes >= 1);
  CHECK(kept <= 512);
  // Each event was either kept or counted.
  CHECK(kept + t.dropped() == threads * each);
}
