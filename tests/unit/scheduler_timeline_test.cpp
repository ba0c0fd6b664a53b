// SPDX-License-Identifier: Apache-2.0
// What the timeline says of work that was held back.
#include <cede/cede.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "scheduler_fixture.hpp"
#include "support/json.hpp"
#include "support/trace.hpp"

using namespace cede_test;

TEST_CASE("a copy's span begins when the device gets it, not when it is queued") {
  std::string path = (std::filesystem::temp_directory_path() / "cede-spans-XXXXXX").string();
  const int file = ::mkstemp(path.data());
  REQUIRE(file >= 0);
  ::close(file);
  std::vector<int> from(4, 7), to(4), runs(1);
  cede::scheduler cpu(cede::host_device{.sms = 1}, {.timeline = true});
  cede::workload train = cpu.workload(effort());
  cede::stream t = train.stream();
  train.suspend();
  t.launch({.grid = 1}, count_runs{runs.data()});
  t.copy(to.data(), from.data(), 4 * sizeof(int));
  std::this_thread::sleep_for(20ms);
  train.resume();
  REQUIRE(t.synchronize_for(patience));
  CHECK(to == from);
  cpu.write_timeline(path);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const json trace = json::parse(text.str());
  std::vector<std::int64_t> launches, copies;
  for (const json& e : events(trace, "X")) {
    (e["name"].string() == "copy" ? copies : launches).push_back(ns(e["ts"]));
  }
  REQUIRE(launches.size() == 1);
  REQUIRE(copies.size() == 1);
  // The launch, too, was submitted after the suspension; the copy goes out behind its end.
  CHECK(copies[0] >= launches[0]);
}
