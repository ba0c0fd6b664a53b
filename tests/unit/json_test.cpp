// SPDX-License-Identifier: Apache-2.0
// The JSON parser other tests rely on: it must accept JSON and refuse everything else.
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

#include "support/json.hpp"

using cede_test::json;

TEST_CASE("json: values keep their content") {
  const json v =
      json::parse(R"( {"a": [1, -2.50e+3, true, false, null], "b": {"c": "x"}, "d": []} )");
  CHECK(v["a"].size() == 5);
  CHECK(v["a"][0].number() == 1);
  CHECK(v["a"][1].number() == -2500);
  CHECK(v["a"][1].digits() == "-2.50e+3");
  CHECK(v["a"][2].boolean());
  CHECK_FALSE(v["a"][3].boolean());
  CHECK(v["a"][4].is(json::kind::null));
  CHECK(v["b"]["c"].string() == "x");
  CHECK(v["d"].items().empty());
  CHECK(v.keys().size() == 3);
  CHECK(v.has("b"));
  CHECK_FALSE(v.has("c"));
}

TEST_CASE("json: strings are unescaped to UTF-8") {
  CHECK(json::parse(R"("\"\\\/\b\f\n\r\t")").string() == "\"\\/\b\f\n\r\t");
  CHECK(json::parse(R"("\u0041\u00e9\u20ac\ud83d\ude00")").string() == "A\u00e9\u20ac\U0001F600");
  CHECK(json::parse("\"\u00e9\u20ac\U0001F600\"").string() == "\u00e9\u20ac\U0001F600");
}

TEST_CASE("json: what is not JSON is refused") {
  for (const char* text : {"",
                           " ",
                           "{",
                           "[",
                           "[1,]",
                           "{\"a\":1,}",
                           "{\"a\"}",
                           "{a:1}",
                           "[1 2]",
                           "1 2",
                           "01",
                           "-",
                           "1.",
                           ".5",
                           "1e",
                           "+1",
                           "NaN",
                           "tru",
                           "nul",
                           "\"",
                           "\"\\x\"",
                           "\"\\u12g4\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\\ud800\\u0041\"",
                           "\"a\nb\"",
                           "{\"a\":1,\"a\":2}",
                           "'a'",
                           "[1]]"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(json::parse(text), std::runtime_error);
  }
}

TEST_CASE("json: bytes that are not UTF-8 are refused") {
  for (const char* bytes : {"\xff", "\x80", "\xc0\xaf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                            "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xc3("}) {
    CAPTURE(bytes);
    CHECK_THROWS_AS(json::parse('"' + std::string(bytes) + '"'), std::runtime_error);
  }
}

TEST_CASE("json: nesting is bounded") {
  CHECK(json::parse(std::string(100, '[') + std::string(100, ']')).size() == 1);
  CHECK_THROWS_AS(json::parse(std::string(100'000, '[')), std::runtime_error);
}

TEST_CASE("json: asking for another kind throws") {
  const json v = json::parse("[1]");
  CHECK_THROWS_AS((void)v.string(), std::runtime_error);
  CHECK_THROWS_AS((void)v["a"], std::runtime_error);
  CHECK_THROWS((void)v[1]);
}
