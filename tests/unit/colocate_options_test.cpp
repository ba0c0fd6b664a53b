// SPDX-License-Identifier: Apache-2.0
// The command line of the main job: what it takes, and the sentence it refuses the rest with.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "../examples/colocate/options.cpp"

using colocate::arrival_process;
using colocate::device_choice;
using colocate::input_error;
using colocate::options;
using colocate::parse;

namespace {

// The sentence a command line is refused with; empty if it is taken.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
    return {};
  } catch (const input_error& e) {
    return e.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("colocate options: the defaults") {
  const options o = parse({});
  CHECK(o.device == device_choice::automatic);
  CHECK(o.arrivals == arrival_process::poisson);
  CHECK(o.load == 0.5);
  CHECK(o.seconds == 10.0);
  CHECK(o.seed == 1);
  CHECK(o.trace.empty());
  CHECK(o.text.empty());
  CHECK(o.json.empty());
  CHECK(o.timeline.empty());
  CHECK_FALSE(o.help);
}

TEST_CASE("colocate options: every option, with a blank or an equals sign") {
  const options o = parse({"--device", "host", "--arrivals=gamma", "--load", "0.25",
                           "--seconds=2.5", "--seed", "18446744073709551615", "--text", "a b.txt",
                           "--json=out.json", "--timeline", "t=1.json"});
  CHECK(o.device == device_choice::host);
  CHECK(o.arrivals == arrival_process::gamma);
  CHECK(o.load == 0.25);
  CHECK(o.seconds == 2.5);
  CHECK(o.seed == 18446744073709551615U);
  CHECK(o.text == "a b.txt");
  CHECK(o.json == "out.json");
  CHECK(o.timeline == "t=1.json");
  CHECK(parse({"--device", "cuda"}).device == device_choice::cuda);
  CHECK(parse({"--device", "auto"}).device == device_choice::automatic);
}

TEST_CASE("colocate options: a trace makes the arrivals those of the trace") {
  const options o = parse({"--trace", "t.csv"});
  CHECK(o.arrivals == arrival_process::trace);
  CHECK(o.trace == "t.csv");
}

TEST_CASE("colocate options: help wins over what follows") {
  CHECK(parse({"--help", "--nonsense"}).help);
  CHECK(parse({"-h"}).help);
  for (const char* name :
       {"--device", "--trace", "--arrivals", "--load", "--seconds", "--seed", "--text", "--json",
        "--timeline", "--help", "run.sh [NAME]", "timestamp", "arrival_time", "arrival,", "arrived",
        " time;", "commas", "any bytes"}) {
    CAPTURE(name);
    CHECK(has(colocate::help_text(), name));
  }
}

TEST_CASE("colocate options: what is unknown is refused by name") {
  CHECK(has(refusal({"--lod", "1"}), "no option '--lod'"));
  CHECK(has(refusal({"trace.csv"}), "no option 'trace.csv'"));
  CHECK(has(refusal({""}), "no option ''"));
  CHECK(has(refusal({"--device", "tpu"}), "not 'tpu'"));
  CHECK(has(refusal({"--arrivals", "trace"}), "--trace FILE"));
}

TEST_CASE("colocate options: a value is needed") {
  for (const char* name : {"--device", "--trace", "--load", "--seconds", "--json", "--seed"}) {
    CAPTURE(name);
    CHECK(has(refusal({name}), std::string(name) + " needs a value"));
  }
  for (const char* name : {"--trace", "--text", "--json", "--timeline"}) {
    CAPTURE(name);
    CHECK(has(refusal({std::string(name) + "="}), std::string(name) + " needs the name"));
  }
}

TEST_CASE("colocate options: load lies in (0, 1]") {
  CHECK(parse({"--load", "1"}).load == 1.0);
  CHECK(parse({"--load", "1e-3"}).load == 1e-3);
  for (const char* value : {"0", "-0.5", "1.0001", "2", "-0", "1e300"}) {
    CAPTURE(value);
    CHECK(has(refusal({"--load", value}), "--load must be above 0 and at most 1"));
  }
  for (const char* value :
       {"nan", "inf", "-inf", "half", "0.5x", " 0.5", "0,5", "", "0x1", "1e999"}) {
    CAPTURE(value);
    CHECK(has(refusal({"--load", value}), "--load needs a number"));
  }
}

TEST_CASE("colocate options: seconds lie in (0, 3600]") {
  CHECK(parse({"--seconds", "3600"}).seconds == 3600.0);
  CHECK(parse({"--seconds", "0.01"}).seconds == 0.01);
  for (const char* value : {"0", "-1", "3600.5", "1e9"}) {
    CAPTURE(value);
    CHECK(has(refusal({"--seconds", value}), "--seconds must be above 0 and at most 3600"));
  }
  CHECK(has(refusal({"--seconds", "ten"}), "--seconds needs a number, 'ten' is not one"));
  CHECK(has(refusal({"--seconds", "NaN"}), "--seconds needs a number"));
}

TEST_CASE("colocate options: a seed is a whole number") {
  CHECK(parse({"--seed", "0"}).seed == 0);
  for (const char* value : {"-1", "1.5", "18446744073709551616", "x"}) {
    CAPTURE(value);
    CHECK(has(refusal({"--seed", value}), "--seed needs a whole number"));
  }
}

TEST_CASE("colocate options: contradictions are refused") {
  CHECK(has(refusal({"--trace", "t.csv", "--arrivals", "gamma"}), "exclude each other"));
  CHECK(has(refusal({"--json", "x", "--timeline", "x"}), "same file"));
}

TEST_CASE("colocate options: a refusal is one sentence without control characters") {
  const std::string long_name(5000, 'x');
  for (const std::string& name : {long_name, std::string("--a\nb\x1b[31m")}) {
    const std::string sentence = refusal({name});
    CHECK(sentence.size() < 200);
    CHECK(std::count(sentence.begin(), sentence.end(), '\n') == 0);
    CHECK_FALSE(has(sentence, "\x1b"));
    CHECK(sentence.back() == '.');
  }
}
