// SPDX-License-Identifier: Apache-2.0
// Arrivals from CSV: what is read, and which line is named where it cannot be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "support/skip.hpp"

#include "../examples/colocate/csv.cpp"
#include "../examples/colocate/files.cpp"
#include "../examples/colocate/timestamp.cpp"
#include "../examples/colocate/trace.cpp"

using colocate::input_error;
using colocate::parse_timestamp;
using colocate::read_trace;
using colocate::trace;

namespace {

trace read(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "t.csv");
}

std::string refusal(const std::string& text) {
  try {
    read(text);
    return {};
  } catch (const input_error& e) {
    return e.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

using ticks = std::vector<std::int64_t>;
using tokens = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("colocate timestamp: dates and times, to 100 ns") {
  const auto base = parse_timestamp("2023-11-16 18:17:03");
  REQUIRE(base);
  CHECK(*parse_timestamp("2023-11-16 18:17:03.9799600") - *base == 9799600);
  CHECK(*parse_timestamp("2023-11-16 18:17:03.1") - *base == 1000000);
  CHECK(*parse_timestamp("2023-11-16T18:17:04Z") - *base == 10000000);
  CHECK(*parse_timestamp("2023-11-17 00:00:00") - *base == std::int64_t{20577} * 10000000);
  CHECK(*parse_timestamp("2023-11-16 20:17:03+02:00") == *base);
  CHECK(*parse_timestamp("2023-11-16 14:47:03-03:30") == *base);
  CHECK(*parse_timestamp(" 2023-11-16 18:17:03\t") == *base);
  CHECK(*parse_timestamp("1970-01-01 00:00:00") == 0);
  CHECK(*parse_timestamp("2024-02-29 00:00:00") - *parse_timestamp("2024-02-28 00:00:00") ==
        std::int64_t{86400} * 10000000);
}

TEST_CASE("colocate timestamp: plain seconds") {
  CHECK(*parse_timestamp("0") == 0);
  CHECK(*parse_timestamp("12.5") == 125000000);
  CHECK(*parse_timestamp("1700158623.9799600") == 17001586239799600);
}

TEST_CASE("colocate timestamp: anything else is none") {
  for (const char* text : {"",
                           " ",
                           "yesterday",
                           "-1",
                           "1.",
                           ".5",
                           "1.12345678",
                           "1e3",
                           "0x10",
                           "2023-11-16",
                           "2023-11-16 18:17",
                           "2023-11-16 24:00:00",
                           "2023-02-29 00:00:00",
                           "2023-13-01 00:00:00",
                           "2023-00-10 00:00:00",
                           "2023-11-16 18:60:00",
                           "2023-11-16 18:17:61",
                           "2023-11-16 18:17:03.",
                           "2023-11-16 18:17:03.12345678",
                           "2023-11-16 18:17:03 x",
                           "2023-11-16 18:17:03+2:00",
                           "2023-11-16 18:17:03+25:00",
                           "16/11/2023 18:17:03",
                           "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_timestamp(text));
  }
}

TEST_CASE("colocate trace: the columns are found by name, in any case and place") {
  const trace t = read("GeneratedTokens,ContextTokens,TIMESTAMP\n10,4808,1.5\n8,3180,2\n");
  CHECK(t.ticks == ticks{0, 5000000});
  CHECK(t.tokens == tokens{4808, 3180});
  for (const char* name :
       {"timestamp", "Timestamp", "arrival", "Arrival_Time", "arrived", "time"}) {
    CAPTURE(name);
    const trace named = read(std::string(name) + "\n1\n2\n");
    CHECK(named.ticks == ticks{0, 10000000});
    CHECK(named.tokens.empty());
  }
  CHECK(read("a,context_tokens,timestamp\nx,7,1\ny,9,2\n").tokens == tokens{7, 9});
}

TEST_CASE("colocate trace: line ends, a missing last one, empty lines and a byte-order mark") {
  const ticks expected{0, 10000000};
  CHECK(read("timestamp,x\r\n1,a\r\n2,b\r\n").ticks == expected);
  CHECK(read("timestamp,x\n1,a\n2,b").ticks == expected);
  CHECK(read("\xef\xbb\xbftimestamp\n1\n2\n").ticks == expected);
  CHECK(read("timestamp\n1\n\n2\n\n\n").ticks == expected);
  CHECK(read("timestamp\r\n1\r\n\r\n2\r\n").ticks == expected);
}

TEST_CASE("colocate trace: quoted fields may hold commas, quotes and line ends") {
  const trace t = read("note,\"timestamp\",ContextTokens\n\"a, \"\"b\"\"\nc\",\"1\",5\n\"\",2,6\n");
  CHECK(t.ticks == ticks{0, 10000000});
  CHECK(t.tokens == tokens{5, 6});
  CHECK(has(refusal("timestamp,x\n1,\"open\n2,b\n"), "never closed"));
  CHECK(
      has(refusal("timestamp,x\n1,\"a\"b\n2,b\n"), "line 2: there is text behind a closing quote"));
}

TEST_CASE("colocate trace: times may stand still but not fall") {
  CHECK(read("timestamp\n1\n1\n2\n").ticks == ticks{0, 0, 10000000});
  const std::string why = refusal("timestamp\n1\n3\n2.9999999\n4\n");
  CHECK(has(why, "'t.csv', line 4"));
  CHECK(has(why, "earlier"));
  CHECK(has(refusal("timestamp\n5\n4\n"), "line 3"));
}

TEST_CASE("colocate trace: what cannot be read is refused with its line") {
  CHECK(has(refusal(""), "is empty"));
  CHECK(has(refusal("\n\n"), "is empty"));
  CHECK(has(refusal("when,what\n1,2\n"), "line 1: the header names no column of timestamps"));
  for (const char* part :
       {"timestamp,", "arrival_time,", "arrival,", "arrived", " time,", "commas"})
    CHECK(has(refusal("timestamp;x\n1;2\n"), part));
  CHECK(has(refusal("1,2\n3,4\n"), "line 1"));
  CHECK(has(refusal("timestamp,x\n1,2\n3\n"), "line 3: there are 1 fields, the header has 2"));
  CHECK(has(refusal("timestamp\n1\ntwo\n"), "line 3: the timestamp 'two' cannot be read"));
  CHECK(has(refusal("timestamp\n1.12345678\n"), "line 2"));
  CHECK(has(refusal("timestamp,ContextTokens\n1,many\n"), "line 2: ContextTokens is 'many'"));
  CHECK(has(refusal("timestamp,ContextTokens\n1,-5\n"), "line 2"));
  CHECK(has(refusal("timestamp,ContextTokens\n1,99999999999\n"), "line 2"));
}

TEST_CASE("colocate trace: less than two different times are no trace") {
  CHECK(has(refusal("timestamp\n"), "less than two different arrival times"));
  CHECK(has(refusal("timestamp\n1\n"), "less than two"));
  CHECK(has(refusal("timestamp\n1\n1\n1\n"), "less than two"));
}

TEST_CASE("colocate trace: binary files are refused early") {
  CHECK(has(refusal(std::string("timestamp\n1\n\0\1\2", 15)),
            "line 3: there is a control character"));
  CHECK(has(refusal("\x7f"
                    "ELF\x02\x01\x01"),
            "line 1: there is a control character"));
  CHECK(has(refusal("\x1f\x8b\x08"), "not a text file"));
  CHECK(has(refusal(std::string(100000, '\xff')), "too long"));
}

TEST_CASE("colocate trace: a sentence names files and fields within bounds") {
  const std::string why = refusal("timestamp\n1\n" + std::string(3000, 'z') + "\n");
  CHECK(why.size() < 250);
  CHECK(has(why, "zzz...'"));
}

TEST_CASE("colocate trace: files that are not there") {
  const auto refused = [](const std::string& path) {
    try {
      read_trace(path);
      return std::string();
    } catch (const input_error& e) {
      return std::string(e.what());
    }
  };
  CHECK(has(refused("no/such/file.csv"),
            "The trace 'no/such/file.csv' cannot be read: No such file"));
  CHECK(has(refused("/"), "is a folder"));
}

TEST_CASE("colocate trace: the Azure trace of code completions") {
  const char* path = std::getenv("CEDE_AZURE_TRACE");
  if (path == nullptr || *path == '\0') {
    CEDE_SKIP_CASE("CEDE_AZURE_TRACE does not name AzureLLMInferenceTrace_code.csv");
  }
  const trace t = read_trace(path);
  CHECK(t.ticks.size() == 8819);
  CHECK(t.tokens.size() == 8819);
  CHECK(t.tokens[0] == 4808);
  // 18:17:03.9799600 and 18:17:04.0319600
  CHECK(t.ticks[1] == 520000);
  CHECK(std::is_sorted(t.ticks.begin(), t.ticks.end()));
}
