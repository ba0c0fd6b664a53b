// SPDX-License-Identifier: Apache-2.0
// The table and the record: their shape, and what becomes of odd values.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/json.hpp"

#include "../examples/colocate/report.cpp"

using colocate::mode_figures;
using colocate::results;
using parsed = cede_test::json;

namespace {

mode_figures figures(const std::string& name) {
  mode_figures m;
  m.mode = name;
  m.serve = {.requests = 20000,
             .achieved_load = 0.5,
             .service_p50_us = 412.5,
             .service_p99_us = 1812.25,
             .response_p50_us = 600,
             .response_p99_us = 250000,
             .p99_ratio = 1.01275,
             .p99_ratio_low = 1.001,
             .slowdown_p99 = 1.0875};
  m.train = {.steps = 2134,
             .steps_per_s = 106.75,
             .progress = 0.48,
             .progress_per_idle = 0.96,
             .lost_us_per_request = 9.5,
             .yields = 15000,
             .loss_first = 3.5,
             .loss_last = 1.25,
             .digest_step = 1000,
             .weights_digest = "0123456789abcdef"};
  return m;
}

results sample() {
  results r;
  r.device = "cuda";
  r.context = {{"gpu", "NVIDIA \"H200\""}, {"samples", "20000", true}};
  r.modes = {figures("alone"), figures("priorities"), figures("cede")};
  return r;
}

}  // namespace

TEST_CASE("colocate report: the record has exactly the members it should") {
  const parsed v = parsed::parse(json(sample()));
  CHECK(v.keys() == std::vector<std::string>{"context", "device", "modes", "verified"});
  CHECK(v["device"].string() == "cuda");
  CHECK(v["verified"].boolean());
  CHECK(v["context"]["gpu"].string() == "NVIDIA \"H200\"");
  CHECK(v["context"]["samples"].number() == 20000);
  REQUIRE(v["modes"].size() == 3);
  const parsed& m = v["modes"][2];
  CHECK(m.keys() == std::vector<std::string>{"mode", "unstable", "serve", "train"});
  CHECK(m["serve"].keys() == std::vector<std::string>{"requests", "achieved_load", "service_p50_us",
                                                      "service_p99_us", "response_p50_us",
                                                      "response_p99_us", "p99_ratio",
                                                      "p99_ratio_low", "slowdown_p99"});
  CHECK(m["train"].keys() == std::vector<std::string>{"steps", "steps_per_s", "progress",
                                                      "progress_per_idle", "lost_us_per_request",
                                                      "yields", "loss_first", "loss_last",
                                                      "digest_step", "weights_digest"});
}

TEST_CASE("colocate report: the record has the values") {
  const parsed v = parsed::parse(json(sample()));
  const parsed& m = v["modes"][1];
  CHECK(m["mode"].string() == "priorities");
  CHECK(m["unstable"].digits() == "0");
  CHECK(m["serve"]["requests"].digits() == "20000");
  CHECK(m["serve"]["service_p99_us"].number() == 1812.25);
  CHECK(m["serve"]["response_p99_us"].number() == 250000);
  CHECK(m["serve"]["p99_ratio_low"].number() == 1.001);
  CHECK(m["train"]["yields"].digits() == "15000");
  CHECK(m["train"]["loss_last"].number() == 1.25);
  CHECK(m["train"]["weights_digest"].string() == "0123456789abcdef");
}

TEST_CASE("colocate report: unstable is a number, a complaint makes it unverified") {
  results r = sample();
  r.modes[1].unstable = true;
  r.complaints = {"One answer was wrong."};
  const parsed v = parsed::parse(json(r));
  CHECK(v["modes"][1]["unstable"].digits() == "1");
  CHECK_FALSE(v["verified"].boolean());
}

TEST_CASE("colocate report: what is no number is null, control characters are escaped") {
  results r = sample();
  r.modes[0].serve.p99_ratio = std::numeric_limits<double>::quiet_NaN();
  r.modes[0].train.lost_us_per_request = std::numeric_limits<double>::infinity();
  r.context.push_back({"odd", "tab\there\x01, back\\slash"});
  const parsed v = parsed::parse(json(r));
  CHECK(v["modes"][0]["serve"]["p99_ratio"].is(parsed::kind::null));
  CHECK(v["modes"][0]["train"]["lost_us_per_request"].is(parsed::kind::null));
  CHECK(v["context"]["odd"].string() == "tab\there\x01, back\\slash");
}

TEST_CASE("colocate report: the table fits 100 columns and lines up") {
  results r = sample();
  r.modes[1].unstable = true;
  const std::string text = table(r);
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  REQUIRE(all.size() > 4);
  for (const std::string& line : all) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
  for (int i = 1; i <= 3; ++i) CHECK(all[static_cast<std::size_t>(i)].size() == all[0].size());
  CHECK(all[2].starts_with("priorities *"));
  CHECK(all[3].find(" 1.013 ") != std::string::npos);
  CHECK(text.find("* unstable") != std::string::npos);
  CHECK(table(sample()).find("* unstable") == std::string::npos);
}

TEST_CASE("colocate report: the table says what its times are worth on the host device") {
  results r = sample();
  CHECK(table(r).find("host device") == std::string::npos);
  r.device = "host";
  CHECK(table(r).find("On the host device this checks correctness") != std::string::npos);
}

TEST_CASE("colocate report: a missing figure is a dash in the table") {
  results r = sample();
  r.modes[2].serve.slowdown_p99 = std::numeric_limits<double>::quiet_NaN();
  const std::string text = table(r);
  CHECK(text.find("nan") == std::string::npos);
  CHECK(text.find(" - ") != std::string::npos);
}
