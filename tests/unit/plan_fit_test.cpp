// SPDX-License-Identifier: Apache-2.0
// `plan fit`: fits worked out by hand, figures by their definitions, and the sentence each bad
// input is refused with.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <support/folder.hpp>
#include <support/json.hpp>

#include "../examples/colocate/csv.cpp"
#include "../examples/colocate/files.cpp"
#include "../examples/plan/least_squares.cpp"
#include "../examples/plan/options.cpp"
#include "../examples/plan/program.cpp"
#include "../examples/plan/quality.cpp"
#include "../examples/plan/regression.cpp"
#include "../examples/plan/report.cpp"
#include "../examples/plan/table.cpp"

using colocate::input_error;
using doctest::Approx;
using namespace plan;

namespace {

namespace fs = std::filesystem;

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const input_error& e) {
    return e.what();
  }
  return "nothing";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
table read(const std::string& text, const std::vector<std::string>& names) {
  std::istringstream in(text);
  return read_table(in, "f.csv", names);
}

}  // namespace

TEST_CASE("plan fit: a line through three points, by hand") {
  // x = 1 2 3: mean 2, sample deviation 1. y = 1 2 6: mean 3, slope 5/2, errors 1/2, 1, 1/2.
  const table x{{{1, 2, 3}}};
  const std::vector<double> y{1, 2, 6};
  const line l = fit(x, y, 0);
  CHECK(l.means[0] == Approx(2));
  CHECK(l.deviations[0] == Approx(1));
  CHECK(l.intercept == Approx(3));
  CHECK(l.coefficients[0] == Approx(2.5));
  const quality q = try_on(l, x, y);
  CHECK(q.rows == 3);
  CHECK(*q.r2 == Approx(1 - 1.5 / 14));
  CHECK(*q.mae == Approx(2.0 / 3));
  CHECK(*q.mape == Approx((0.5 + 0.5 + 0.5 / 6) / 3));
  // Sorted 1/2 1/2 1; place 0.95 × 2 = 1.9.
  CHECK(*q.p95 == Approx(0.5 + 0.9 * 0.5));
  // Ridge: 5 / (2 + penalty).
  CHECK(fit(x, y, 3).coefficients[0] == Approx(1));
  CHECK(fit(x, y, 3).intercept == Approx(3));
}

TEST_CASE("plan fit: the test file is standardised as the training file was") {
  const table x{{{10, 20, 30}}};
  const line l = fit(x, {1, 2, 3}, 0);
  CHECK(l.deviations[0] == Approx(10));
  const table other{{{40, 0}}};
  CHECK(l.at(other, 0) == Approx(4));
  CHECK(l.at(other, 1) == Approx(0).epsilon(1e-9));
}

TEST_CASE("plan fit: finds a truth of several features, and says where a figure is none") {
  std::mt19937 random(5);
  std::normal_distribution<double> any(3, 2);
  table x{std::vector<std::vector<double>>(4)};
  std::vector<double> y;
  for (int i = 0; i < 200; ++i) {
    for (std::size_t c = 0; c < 3; ++c) x.columns[c].push_back(any(random) * std::pow(1000, c));
    x.columns[3].push_back(7);  // constant
    y.push_back(2 + 0.5 * x.columns[0].back() - 3e-3 * x.columns[1].back());
  }
  const line l = fit(x, y, 0);
  CHECK(l.coefficients[0] / l.deviations[0] == Approx(0.5));
  CHECK(l.coefficients[1] / l.deviations[1] == Approx(-3e-3));
  CHECK(l.coefficients[2] / l.deviations[2] == Approx(0).epsilon(1e-9));
  CHECK(l.deviations[3] == 0);
  CHECK(l.coefficients[3] == 0);
  CHECK(*try_on(l, x, y).r2 == Approx(1));
  // Twice the same column: half the coefficient each, the shortest of all solutions.
  const table twice{{x.columns[0], x.columns[0]}};
  const line both = fit(twice, x.columns[0], 0);
  CHECK(both.coefficients[0] == Approx(both.coefficients[1]));
  CHECK(*try_on(both, twice, x.columns[0]).r2 == Approx(1));
  const table two{{{1, 2}}};
  const quality none = try_on(fit(two, {0, 0}, 0), two, {0, 0});
  CHECK_FALSE(none.r2);
  CHECK_FALSE(none.mape);
  CHECK(has(refusal([] { (void)fit(table{{{1}}}, {1}, 0); }), "needs two"));
}

TEST_CASE("plan fit: tables, by name, and what is no table by line and column") {
  const table t =
      read("\xef\xbb\xbfname, b ,a\r\nx, 1e3 ,+2\r\n\r\n\"y,z\",-4,5.5\r\n", {"a", "b"});
  CHECK(t.columns == std::vector<std::vector<double>>{{2, 5.5}, {1000, -4}});
  const auto no = [](const std::string& text) { return refusal([&] { (void)read(text, {"a"}); }); };
  CHECK(has(no(""), "'f.csv' is empty"));
  CHECK(has(no("a\n"), "nothing below"));
  CHECK(has(no("b\n1\n"), "line 1: there is no column 'a'"));
  CHECK(has(no("a,a\n1,2\n"), "several columns 'a'"));
  CHECK(has(no("a,b\n1,2\n3\n"), "line 3: there are 1 fields, the header has 2"));
  for (const std::string bad : {"x", "", "1x", "nan", "inf", "0x10", "1,5"}) {
    CAPTURE(bad);
    CHECK(has(no("b,a\n1,2\n1,\"" + bad + "\"\n"), "line 3: column 2 ('a')"));
  }
  CHECK(has(no(std::string("a\n\0\n", 4)), "not a text file"));
}

TEST_CASE("plan fit: options") {
  const options o = parse({"fit", "--features=a,b", "--target", "y", "--train", "f", "--test=g",
                           "--model", "ridge", "--penalty", "0.5", "--json", "j"});
  CHECK(o.features == std::vector<std::string>{"a", "b"});
  CHECK(o.target == "y");
  CHECK(o.train == "f");
  CHECK(o.test == "g");
  CHECK(o.model == model_kind::ridge);
  CHECK(o.penalty == 0.5);
  CHECK(o.json == "j");
  CHECK(parse({"fit", "--help"}).help);
  const auto no = [](std::vector<std::string> more) {
    std::vector<std::string> all{"fit", "--features", "a", "--target", "y", "--train", "f"};
    all.insert(all.end(), more.begin(), more.end());
    return refusal([&] { (void)parse(all); });
  };
  CHECK(has(refusal([] { (void)parse({}); }), "command is missing"));
  CHECK(has(refusal([] { (void)parse({"fold"}); }), "no command 'fold'"));
  CHECK(has(refusal([] { (void)parse({"fit", "--target", "y"}); }), "fit needs"));
  CHECK(has(no({"--modle", "x"}), "no option '--modle'"));
  CHECK(has(no({"--json"}), "--json needs a value"));
  CHECK(has(no({"--features", "a,,b"}), "empty one"));
  CHECK(has(no({"--features", "a,b,a"}), "'a' twice"));
  CHECK(has(no({"--features", "y"}), "among the features"));
  CHECK(has(no({"--model", "forest"}), "ols or ridge"));
  CHECK(has(no({"--penalty", "1"}), "ridge alone"));
  for (const std::string bad : {"0", "-1", "x", "nan", "inf"})
    CHECK(has(no({"--model=ridge", "--penalty", bad}), "above 0"));
}

TEST_CASE("plan fit: the whole, with its record; bad input leaves none behind") {
  const cede_test::folder here;
  const std::string train = here.write("train.csv", "x,\"a \"\"q\"\"\",y\n1,5,1\n2,5,2\n3,5,6\n");
  const std::string test = here.write("test.csv", "y,x,\"a \"\"q\"\"\"\n5.5,3,5\n");
  const std::string out = here / "out.json";
  std::vector<std::string> call{"fit",     "--features", "x,a \"q\"", "--target", "y",
                                "--train", train,        "--json",    out};
  CHECK(program(call) == 0);
  const auto text = [&] { return here.read("out.json"); };
  auto record = cede_test::json::parse(text());
  CHECK(record["train"]["rows"].number() == 3);
  CHECK(record["coefficients"]["x"].number() == Approx(2.5));
  CHECK(record["coefficients"]["a \"q\""].number() == 0);
  CHECK(record["coefficients"]["intercept"].number() == Approx(3));
  CHECK(has(text(), "\"test\": null"));
  call.insert(call.end(), {"--test", test});
  CHECK(program(call) == 0);
  record = cede_test::json::parse(text());
  CHECK(record["test"]["mae"].number() == Approx(0).epsilon(1e-9));
  CHECK(record["test"]["rows"].number() == 1);
  CHECK(has(text(), "\"r2\": null"));
  fs::remove(out);
  call.insert(call.end(), {"--test", here / "nowhere"});
  CHECK(program(call) == 2);
  CHECK_FALSE(here.has("out.json"));
  CHECK(program({"fit", "--features", "x", "--target", "y", "--train", train, "--json",
                 here / "no/such"}) == 2);
  CHECK(program({"--help"}) == 0);
}
