// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <cstdio>
#include <exception>
#include <utility>

#include "../colocate/files.hpp"
#include "../colocate/input_error.hpp"
#include "options.hpp"
#include "regression.hpp"
#include "report.hpp"
#include "table.hpp"

namespace plan {
namespace {

constexpr int exit_done = 0;
constexpr int exit_failed = 1;
constexpr int exit_bad_input = 2;

void tell(const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); }

/// The features of a file, and its target.
struct rows {
  table features;
  std::vector<double> target;
};

rows read(const options& o, const std::string& path) {
  std::vector<std::string> names = o.features;
  names.push_back(o.target);
  rows r{read_table(path, names), {}};
  r.target = std::move(r.features.columns.back());
  r.features.columns.pop_back();
  return r;
}

void run_fit(const options& o) {
  const rows train = read(o, o.train);
  std::optional<rows> test;
  if (!o.test.empty()) test = read(o, o.test);
  if (!o.json.empty()) colocate::check_output(o.json);
  const bool ridge = o.model == model_kind::ridge;
  fitted f{.model = ridge ? "ridge" : "ols",
           .features = o.features,
           .found = fit(train.features, train.target, ridge ? o.penalty : 0),
           .train = {},
           .test = {}};
  f.train = try_on(f.found, train.features, train.target);
  if (test) f.test = try_on(f.found, test->features, test->target);
  std::fputs(table_of(f).c_str(), stdout);
  if (!o.json.empty()) colocate::write_output_text(o.json, json_of(f));
}

}  // namespace

int program(const std::vector<std::string>& arguments) {
  try {
    const options o = parse(arguments);
    if (o.help) {
      std::fputs(help_text().c_str(), stdout);
    } else {
      run_fit(o);
    }
    colocate::check_printed("The figures");
    return exit_done;
  } catch (const colocate::input_error& e) {
    tell(e.what());
    return exit_bad_input;
  } catch (const std::exception& e) {
    tell(std::string("The run ended early: ") + e.what() + ".");
    return exit_failed;
  }
}

}  // namespace plan
