// SPDX-License-Identifier: Apache-2.0
// What a timeline writes: the picture. timeline_recorder_test.cpp looks at recording and at files.
#include <cede/timeline.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/json.hpp"
#include "support/random.hpp"
#include "support/trace.hpp"

using cede::instant_kind;
using cede::span_kind;
using cede::timeline;
using cede_test::check_trace;
using cede_test::events;
using cede_test::json;
using cede_test::ns;
using cede_test::thread_names;
using cede_test::trace_of;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

TEST_CASE("timeline: an empty one is a valid trace with named tracks") {
  timeline t(4);
  t.add_track("serve", "stream 1");
  t.add_track("serve", "stream 2");
  t.add_track("train", "stream 1");
  const json trace = trace_of(t);
  CHECK(trace["otherData"]["dropped_events"].number() == 0);
  std::map<std::string, int> processes;
  for (const json& e : events(trace, "M"))
    if (e["name"].string() == "process_name") ++processes[e["args"]["name"].string()];
  CHECK(processes == std::map<std::string, int>{{"serve", 1}, {"train", 1}});
  CHECK(thread_names(trace).size() == 3);
  CHECK(trace["traceEvents"].size() == events(trace, "M").size());
}

TEST_CASE("timeline: a span becomes a complete event in microseconds") {
  timeline t(4);
  const auto s = t.add_track("train", "stream");
  t.span(s, span_kind::launch, "saxpy", 1234567ns, 1240007ns, {.ordinal = 3, .cursor = 4096});
  const json trace = trace_of(t);
  const auto spans = events(trace, "X");
  REQUIRE(spans.size() == 1);
  CHECK(spans[0]["name"].string() == "saxpy");
  CHECK(spans[0]["cat"].string() == "launch");
  CHECK(spans[0]["ts"].digits() == "1234.567");
  CHECK(spans[0]["dur"].digits() == "5.440");
  CHECK(spans[0]["args"]["ordinal"].digits() == "3");
  CHECK(spans[0]["args"]["cursor"].digits() == "4096");
  CHECK_FALSE(spans[0]["args"].has("request"));
}

TEST_CASE("timeline: every kind has its category") {
  timeline t(16);
  const auto s = t.add_track("w", "s");
  const std::vector<std::pair<span_kind, std::string>> kinds = {
      {span_kind::launch, "launch"}, {span_kind::slice, "slice"},   {span_kind::yield, "yield"},
      {span_kind::resume, "resume"}, {span_kind::opaque, "opaque"}, {span_kind::copy, "copy"},
      {span_kind::wait, "wait"},     {span_kind::gate, "gate"}};
  nanoseconds at{0};
  for (const auto& [kind, name] : kinds) {
    t.span(s, kind, name, at, at + 1us);
    at += 1us;
  }
  t.instant(s, instant_kind::raise, "raise", at);
  t.instant(s, instant_kind::resume, "resume", at);
  const json trace = trace_of(t);
  for (const json& e : events(trace, "X")) CHECK(e["cat"].string() == e["name"].string());
  CHECK(events(trace, "X").size() == kinds.size());
  for (const json& e : events(trace, "i")) {
    CHECK(e["cat"].string() == e["name"].string());
    CHECK(e["s"].string() == "t");
  }
  CHECK(events(trace, "i").size() == 2);
}

TEST_CASE("timeline: times before the origin, without length, and running backwards") {
  timeline t(4);
  const auto s = t.add_track("w", "s");
  t.span(s, span_kind::launch, "before", -5ns, 5ns);
  t.span(s, span_kind::launch, "point", 7ns, 7ns);
  t.span(s, span_kind::launch, "backwards", 9ns, 8ns);
  const auto spans = events(trace_of(t), "X");
  REQUIRE(spans.size() == 3);
  CHECK(spans[0]["ts"].digits() == "-0.005");
  CHECK(spans[0]["dur"].digits() == "0.010");
  CHECK(spans[1]["dur"].digits() == "0.000");
  CHECK(spans[2]["ts"].digits() == "0.009");
  CHECK(spans[2]["dur"].digits() == "0.000");
}

TEST_CASE("timeline: 64-bit values keep their digits") {
  timeline t(1);
  const auto s = t.add_track("w", "s");
  const auto most = std::numeric_limits<std::uint64_t>::max();
  t.span(s, span_kind::launch, "big", nanoseconds::max() - 1ns, nanoseconds::max(),
         {.ordinal = most, .cursor = most - 1});
  const auto spans = events(trace_of(t), "X");
  CHECK(spans[0]["args"]["ordinal"].digits() == "18446744073709551615");
  CHECK(spans[0]["args"]["cursor"].digits() == "18446744073709551614");
  CHECK(spans[0]["ts"].digits() == "9223372036854775.806");
}

TEST_CASE("timeline: names are escaped, in tracks as well") {
  timeline t(8);
  const std::string odd = "a\"b\\c\n\t\x01 \u00e9\u20ac\U0001F600";
  const auto s = t.add_track(odd, odd);
  t.span(s, span_kind::launch, odd, 0ns, 1ns);
  const json trace = trace_of(t);
  CHECK(events(trace, "X")[0]["name"].string() == odd);
  CHECK(thread_names(trace).begin()->second == odd);
}

TEST_CASE("timeline: bytes that are not UTF-8 are replaced") {
  timeline t(16);
  const auto s = t.add_track("w", "s");
  const std::vector<std::string> bad = {"\xff",         "\xc0\xaf",         "\xe0\x80\x80",
                                        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3",
                                        "\xe2\x82",     "\xf0\x9f\x98",     "\xf8\x88\x80\x80\x80"};
  nanoseconds at{0};
  for (const std::string& name : bad) t.span(s, span_kind::launch, name, at++, at);
  const auto spans = events(trace_of(t), "X");  // the parser refuses what is not UTF-8
  REQUIRE(spans.size() == bad.size());
  for (std::size_t i = 0; i < bad.size(); ++i) {
    std::string expected;
    for (std::size_t k = 0; k < bad[i].size(); ++k) expected += "\ufffd";
    CHECK(spans[i]["name"].string() == expected);
  }
}

TEST_CASE("timeline: a long name is cut between characters") {
  timeline t(4);
  const auto s = t.add_track("w", "s");
  t.span(s, span_kind::launch, std::string(500, 'x'), 0ns, 1ns);
  t.span(s, span_kind::launch, std::string(54, 'x') + "\u20ac", 1ns, 2ns);
  t.span(s, span_kind::launch, std::string(52, 'x') + "\u20ac", 2ns, 3ns);
  const auto spans = events(trace_of(t), "X");
  CHECK(spans[0]["name"].string() == std::string(55, 'x'));
  CHECK(spans[1]["name"].string() == std::string(54, 'x'));
  CHECK(spans[2]["name"].string() == std::string(52, 'x') + "\u20ac");
}

TEST_CASE("timeline: a request is an arrow from its begin through its launches to its end") {
  timeline t(16);
  const auto stream = t.add_track("serve", "stream");
  const auto requests = t.add_track("serve", "requests");
  t.span(stream, span_kind::launch, "a", 10us, 20us, {.request = 7});
  t.span(stream, span_kind::launch, "b", 20us, 30us, {.request = 7});
  t.span(stream, span_kind::launch, "other", 30us, 31us);
  t.request(requests, 7, "request", 10us, 30us);
  const json trace = trace_of(t);
  const auto begins = events(trace, "s");
  const auto steps = events(trace, "t");
  const auto ends = events(trace, "f");
  REQUIRE(begins.size() == 1);
  REQUIRE(steps.size() == 2);
  REQUIRE(ends.size() == 1);
  std::vector<json> flow = begins;
  flow.insert(flow.end(), steps.begin(), steps.end());
  flow.insert(flow.end(), ends.begin(), ends.end());
  for (const json& e : flow) {
    CHECK(e["id"].digits() == "7");
    CHECK(e["cat"].string() == flow[0]["cat"].string());
    CHECK(e["name"].string() == flow[0]["name"].string());
  }
  CHECK(ends[0]["bp"].string() == "e");
  // A viewer attaches each arrow to the span of its thread that holds its time.
  for (const json& e : flow) {
    int holders = 0;
    for (const json& x : events(trace, "X")) {
      const bool inside = ns(x["ts"]) <= ns(e["ts"]) && ns(e["ts"]) < ns(x["ts"]) + ns(x["dur"]);
      if (inside && x["tid"].digits() == e["tid"].digits()) {
        ++holders;
        CHECK(x["args"]["request"].digits() == "7");
      }
    }
    CHECK(holders == 1);
  }
  check_trace(trace);
}

TEST_CASE("timeline: at one moment an arrow starts, steps and ends in this order") {
  timeline t(8);
  const auto s = t.add_track("serve", "stream");
  t.span(s, span_kind::launch, "a", 5us, 5us, {.request = 1});
  t.request(s, 1, "request", 5us, 5us);
  const json trace = trace_of(t);
  std::string order;
  for (const json& e : trace["traceEvents"].items())
    if (e["ph"].string() != "M") order += e["ph"].string();
  CHECK(order == "XXstf");
}

TEST_CASE("timeline: a launch whose request is not known yet has no arrow") {
  timeline t(8);
  const auto s = t.add_track("serve", "stream");
  t.span(s, span_kind::launch, "a", 0us, 1us, {.request = 9});
  const json trace = trace_of(t);
  CHECK(events(trace, "t").empty());
  CHECK(events(trace, "X")[0]["args"]["request"].digits() == "9");
}

TEST_CASE("timeline: overlapping spans of a track are spread so that each thread nests") {
  cede_test::random rng(11);
  for (int run = 0; run < 100; ++run) {
    timeline t(400);
    const std::uint64_t tracks = 1 + rng.below(3);
    for (std::uint64_t k = 0; k < tracks; ++k) t.add_track("w", "s");
    const std::uint64_t n = rng.below(200);
    for (std::uint64_t i = 0; i < n; ++i) {
      const auto where = static_cast<timeline::track>(rng.below(tracks));
      const nanoseconds begin{static_cast<std::int64_t>(rng.below(300))};
      const nanoseconds end = begin + nanoseconds{static_cast<std::int64_t>(rng.below(40))};
      if (rng.chance(0.2))
        t.request(where, i + 1, "request", begin, end);
      else if (rng.chance(0.2))
        t.instant(where, instant_kind::raise, "raise", begin);
      else
        t.span(where, span_kind::launch, "x", begin, end,
               {.ordinal = i, .request = rng.below(n + 1)});
    }
    const json trace = trace_of(t);
    check_trace(trace);
    REQUIRE(events(trace, "X").size() + events(trace, "i").size() == n);
  }
}

TEST_CASE("timeline: spans one after another stay on one thread, and two deep takes two") {
  timeline t(64);
  const auto s = t.add_track("w", "stream");
  const auto d = t.add_track("w", "deep");
  for (int i = 0; i < 20; ++i) {
    t.span(s, span_kind::launch, "x", i * 10us, (i + 1) * 10us);
    t.span(d, span_kind::launch, "x", i * 10us, (i + 2) * 10us);
  }
  const json trace = trace_of(t);
  check_trace(trace);
  std::map<std::string, int> by_name;
  for (const auto& [thread, name] : thread_names(trace)) ++by_name[name];
  CHECK(by_name == std::map<std::string, int>{{"stream", 1}, {"deep", 1}, {"deep (2)", 1}});
}

TEST_CASE("timeline: a crowd of overlapping spans takes a bounded number of threads") {
  constexpr int n = 4000;
  timeline t(n + 1);
  const auto s = t.add_track("w", "queue");
  for (int i = 0; i < n; ++i)
    t.span(s, span_kind::copy, "copy", i * 1us, (n + i) * 1us, {.request = 1});
  t.request(s, 1, "request", -1us, 2 * n * 1us);
  const json trace = trace_of(t);
  check_trace(trace);
  CHECK(thread_names(trace).size() == 32);
  int drawn = 0;
  int points = 0;
  for (const json& e : events(trace, "X")) {
    if (e["cat"].string() != "copy") continue;
    const bool point = e["args"].has("took_us");
    ++(point ? points : drawn);
    REQUIRE(ns(point ? e["args"]["took_us"] : e["dur"]) == n * 1000);
    if (point) REQUIRE(ns(e["dur"]) == 0);
  }
  // The request encloses one of the 32 threads and leaves room for copies in all of them.
  CHECK(drawn == 32);
  CHECK(points == n - 32);
}
