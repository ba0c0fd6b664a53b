// SPDX-License-Identifier: Apache-2.0
// Reading a written timeline back.
#pragma once

#include <cede/timeline.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/json.hpp"

namespace cede_test {

inline std::string written(const cede::timeline& t) {
  std::ostringstream out;
  t.write(out);
  return out.str();
}

inline json trace_of(const cede::timeline& t) { return json::parse(written(t)); }

/// The events of one phase, in the order of the file.
inline std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& e : trace["traceEvents"].items())
    if (e["ph"].string() == phase) found.push_back(e);
  return found;
}

/// Nanoseconds of a number written with three decimals.
inline std::int64_t ns(const json& us) {
  const std::string& text = us.digits();
  const auto point = text.find('.');
  REQUIRE(point != std::string::npos);
  REQUIRE(text.size() - point == 4);
  return std::stoll(text.substr(0, point) + text.substr(point + 1));
}

inline std::map<std::int64_t, std::string> thread_names(const json& trace) {
  std::map<std::int64_t, std::string> names;
  for (const json& e : events(trace, "M")) {
    if (e["name"].string() == "thread_name")
      names[std::stoll(e["tid"].digits())] = e["args"]["name"].string();
  }
  return names;
}

/// Every event has the fields its phase needs, and the spans of one thread nest.
inline void check_trace(const json& trace) {
  const auto threads = thread_names(trace);
  std::map<std::int64_t, std::vector<std::int64_t>> open;  // ends, by thread
  std::int64_t last = std::numeric_limits<std::int64_t>::min();
  for (const json& e : trace["traceEvents"].items()) {
    const std::string& phase = e["ph"].string();
    if (phase == "M") continue;
    const std::int64_t at = ns(e["ts"]);
    const std::int64_t thread = std::stoll(e["tid"].digits());
    REQUIRE(at >= last);
    last = at;
    REQUIRE(threads.count(thread) == 1);
    if (phase != "X") continue;
    const std::int64_t duration = ns(e["dur"]);
    REQUIRE(duration >= 0);
    auto& ends = open[thread];
    while (!ends.empty() && ends.back() <= at) ends.pop_back();
    REQUIRE((ends.empty() || at + duration <= ends.back()));
    ends.push_back(at + duration);
  }
}

}  // namespace cede_test
