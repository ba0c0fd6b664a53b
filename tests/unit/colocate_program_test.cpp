// SPDX-License-Identifier: Apache-2.0
// The main job as a whole on the host device, and what it does with bad input.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "support/folder.hpp"
#include "support/json.hpp"

#include "../examples/colocate/arrivals.cpp"
#include "../examples/colocate/csv.cpp"
#include "../examples/colocate/experiment.cpp"
#include "../examples/colocate/figures.cpp"
#include "../examples/colocate/files.cpp"
#include "../examples/colocate/inputs.cpp"
#include "../examples/colocate/language_model_host.cpp"
#include "../examples/colocate/machine.cpp"
#include "../examples/colocate/memory.cpp"
#include "../examples/colocate/mode.cpp"
#include "../examples/colocate/options.cpp"
#include "../examples/colocate/program.cpp"
#include "../examples/colocate/report.cpp"
#include "../examples/colocate/serving_loop.cpp"
#include "../examples/colocate/statistics.cpp"
#include "../examples/colocate/text.cpp"
#include "../examples/colocate/timestamp.cpp"
#include "../examples/colocate/trace.cpp"
#include "../examples/colocate/training.cpp"
#include "../examples/colocate/training_loop.cpp"
#include "../examples/colocate/transformer_host.cpp"

namespace {

namespace fs = std::filesystem;
using cede_test::json;

// A folder of its own for every case, with a text to train on.
struct workplace : cede_test::folder {
  workplace() { write("text.txt", std::string(2000, 'a') + "bc"); }
};

// Sends a stream to a file while it lives.
class capture {
 public:
  capture(std::FILE* stream, const std::string& path) : stream_(stream) {
    std::fflush(stream_);
    kept_ = ::dup(::fileno(stream_));
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, ::fileno(stream_));
    ::close(file);
  }
  ~capture() {
    std::fflush(stream_);
    ::dup2(kept_, ::fileno(stream_));
    ::close(kept_);
  }

 private:
  std::FILE* stream_;
  int kept_;
};

struct outcome {
  int status;
  std::string out;
  std::string err;
};

outcome run(const workplace& w, std::vector<std::string> arguments) {
  const workplace streams;
  int status = 0;
  {
    const capture out(stdout, streams / "out");
    const capture err(stderr, streams / "err");
    if (std::find(arguments.begin(), arguments.end(), "--text") == arguments.end()) {
      arguments.insert(arguments.end(), {"--text", w / "text.txt"});
    }
    status = colocate::program(arguments);
  }
  return {status, streams.read("out"), streams.read("err")};
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Bad input: status 2, at most three lines on stderr, nothing on stdout, no file.
void check_refused(const std::vector<std::string>& arguments, const std::string& because,
                   const workplace& w) {
  std::vector<std::string> all = arguments;
  all.insert(all.end(), {"--json", w / "out.json", "--timeline", w / "t.json"});
  const outcome o = run(w, all);
  CAPTURE(o.err);
  CHECK(o.status == 2);
  CHECK(has(o.err, because));
  CHECK(std::count(o.err.begin(), o.err.end(), '\n') <= 3);
  CHECK(o.out.empty());
  CHECK_FALSE(fs::exists(w / "out.json"));
  CHECK_FALSE(fs::exists(w / "t.json"));
}

}  // namespace

TEST_CASE("colocate program: a short run is verified and recorded") {
  const workplace w;
  const outcome o = run(w, {"--device", "host", "--seconds", "0.3", "--json", w / "out.json",
                            "--timeline", w / "t.json"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  CHECK(has(o.out, "Verified"));
  const json v = json::parse(w.read("out.json"));
  CHECK(v["verified"].boolean());
  CHECK(v["device"].string() == "host");
  for (const char* key : {"gpu", "driver", "cuda", "date", "commit", "tree", "samples"}) {
    CAPTURE(key);
    CHECK(v["context"].has(key));
  }
  CHECK_FALSE(has(w.read("out.json"), w.path().string()));
  REQUIRE(v["modes"].size() == 3);
  const std::vector<std::string> names{"alone", "ungated", "cede"};
  for (std::size_t i = 0; i < 3; ++i) {
    const json& m = v["modes"][i];
    CHECK(m["mode"].string() == names[i]);
    CHECK(m["train"]["steps"].number() >= 100);
    CHECK(m["train"]["digest_step"].number() >= 50);
    CHECK(m["train"]["digest_step"].digits() == v["modes"][0]["train"]["digest_step"].digits());
    CHECK(m["train"]["weights_digest"].string() ==
          v["modes"][0]["train"]["weights_digest"].string());
    CHECK(m["train"]["weights_digest"].string().size() == 16);
    CHECK(m["train"]["loss_last"].number() < m["train"]["loss_first"].number());
    CHECK(m["serve"]["requests"].number() > 0);
  }
  CHECK(json::parse(w.read("t.json"))["traceEvents"].size() > 0);
  CHECK(w.count() == 3);
}

TEST_CASE("colocate program: arrivals from a trace are counted in the record") {
  const workplace w;
  w.write("trace.csv", "TIMESTAMP,ContextTokens\r\n1,100\r\n2,200\r\n2.5,4000\r\n");
  const outcome o = run(w, {"--device=host", "--seconds=0.2", "--trace", w / "trace.csv", "--load",
                            "0.3", "--json", w / "out.json"});
  CAPTURE(o.err);
  CHECK(o.status == 0);
  const json v = json::parse(w.read("out.json"));
  CHECK(v["context"]["arrivals"].string() == "trace");
  CHECK(v["context"]["trace_rows"].number() == v["context"]["samples"].number());
  const std::string wraps = v["context"]["trace_wraps"].digits();
  const std::string repeated = wraps == "1" ? "once" : wraps + " times";
  CHECK(has(o.err, "which is repeated " + repeated) == (wraps != "0"));
}

TEST_CASE("colocate program: help goes to stdout") {
  const workplace w;
  const outcome o = run(w, {"--help"});
  CHECK(o.status == 0);
  CHECK(has(o.out, "--trace FILE"));
  CHECK(o.err.empty());
}

TEST_CASE("colocate program: a standard output that cannot be written is no success") {
  const workplace w;
  const workplace streams;
  int status = 0;
  {
    const capture out(stdout, "/dev/full");
    const capture err(stderr, streams / "err");
    SUBCASE("the help") { status = colocate::program({"--help"}); }
    SUBCASE("the table") {
      status = colocate::program({"--device", "host", "--seconds", "0.05", "--text", w / "text.txt",
                                  "--json", w / "out.json"});
      CHECK(json::parse(w.read("out.json"))["verified"].boolean());  // it is not lost
    }
  }
  std::clearerr(stdout);
  CHECK(status == 2);
  CHECK(has(streams.read("err"), " could not be written to standard output."));
}

TEST_CASE("colocate program: bad options") {
  const workplace w;
  check_refused({"--what"}, "no option '--what'", w);
  check_refused({"--load", "0"}, "--load", w);
  check_refused({"--load", "nan"}, "--load needs a number", w);
  check_refused({"--seconds", "4000"}, "--seconds", w);
  check_refused({"--seconds", "soon"}, "--seconds", w);
  check_refused({"--arrivals", "uniform"}, "--arrivals", w);
}

TEST_CASE("colocate program: bad traces") {
  const workplace w;
  w.write("empty.csv", "");
  w.write("words.csv", "these are\nno columns\n");
  w.write("fields.csv", "timestamp,a\n1,2\n3\n");
  w.write("binary.csv", std::string("\x7f"
                                    "ELF\0\0\0\x01",
                                    8));
  w.write("back.csv", "timestamp\n2\n1\n");
  w.write("short.csv", "timestamp\n2\n");
  check_refused({"--trace", w / "none.csv"}, "cannot be read", w);
  check_refused({"--trace", w / "empty.csv"}, "is empty", w);
  check_refused({"--trace", w / "words.csv"}, "line 1", w);
  check_refused({"--trace", w / "fields.csv"}, "line 3", w);
  check_refused({"--trace", w / "binary.csv"}, "control character", w);
  check_refused({"--trace", w / "back.csv"}, "line 3", w);
  check_refused({"--trace", w / "short.csv"}, "less than two", w);
  check_refused({"--trace", w.path().string()}, "is a folder", w);
}

TEST_CASE("colocate program: bad texts and outputs") {
  const workplace w;
  w.write("short.txt", "too little");
  check_refused({"--text", w / "short.txt"}, "too short", w);
  check_refused({"--text", w / "none.txt"}, "cannot be read", w);
  for (const char* option : {"--json", "--timeline"}) {
    const outcome o = run(w, {"--device", "host", option, w / "no/such/folder/out.json"});
    CHECK(o.status == 2);
    CHECK(has(o.err, "cannot be written"));
    const outcome folder = run(w, {"--device", "host", option, w.path().string()});
    CHECK(folder.status == 2);
    CHECK(has(folder.err, "is a folder"));
  }
}

TEST_CASE("colocate program: no GPU where one is asked for") {
  const workplace w;
  check_refused(
      {"--device", "cuda"},
      "--device cuda is not possible: This program was built without CUDA, since no GPU or "
      "no CUDA toolkit was found",
      w);
}
