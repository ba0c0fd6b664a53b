// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "../colocate/input_error.hpp"

namespace plan {
namespace {

using colocate::input_error;
using colocate::shown;

model_kind model_of(const std::string& text) {
  if (text == "ols") return model_kind::ols;
  if (text == "ridge") return model_kind::ridge;
  throw input_error("--model must be ols or ridge, not " + shown(text) + ".");
}

double penalty_of(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || rest != end || !std::isfinite(value) || value <= 0) {
    throw input_error("--penalty needs a number above 0, " + shown(text) + " is not one.");
  }
  return value;
}

std::vector<std::string> names_of(const std::string& text) {
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == ',') {
      names.emplace_back();
    } else {
      names.back() += c;
    }
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (name->empty()) {
      throw input_error("--features needs names of columns with a comma between, " + shown(text) +
                        " has an empty one.");
    }
    if (std::find(names.begin(), name, *name) != name) {
      throw input_error("--features names " + shown(*name) + " twice.");
    }
  }
  return names;
}

}  // namespace

options parse(const std::vector<std::string>& arguments) {
  options o;
  if (std::ranges::any_of(arguments, [](auto& a) { return a == "--help" || a == "-h"; })) {
    o.help = true;
    return o;
  }
  if (arguments.empty()) throw input_error("A command is missing; --help lists them.");
  if (arguments[0] != "fit") {
    throw input_error("There is no command " + shown(arguments[0]) + "; --help lists them.");
  }
  bool penalty = false;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    std::string name = arguments[i];
    std::string value;
    if (const auto equals = name.find('='); name.starts_with("--") && equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    }
    std::string* text = name == "--target"  ? &o.target
                        : name == "--train" ? &o.train
                        : name == "--test"  ? &o.test
                        : name == "--json"  ? &o.json
                                            : nullptr;
    const bool known =
        text != nullptr || name == "--features" || name == "--model" || name == "--penalty";
    if (!known) throw input_error("There is no option " + shown(name) + "; --help lists them.");
    if (value.empty()) throw input_error(name + " needs a value, it was given none.");
    if (text != nullptr) {
      *text = value;
    } else if (name == "--features") {
      o.features = names_of(value);
    } else if (name == "--model") {
      o.model = model_of(value);
    } else {
      o.penalty = penalty_of(value);
      penalty = true;
    }
  }
  if (o.features.empty() || o.target.empty() || o.train.empty()) {
    throw input_error("fit needs --features, --target and --train; --help says what they are.");
  }
  if (std::ranges::find(o.features, o.target) != o.features.end()) {
    throw input_error("The target " + shown(o.target) + " is among the features.");
  }
  if (penalty && o.model != model_kind::ridge) {
    throw input_error("--penalty is for --model ridge alone.");
  }
  return o;
}

std::string help_text() {
  return R"(plan: decides from files which workloads belong together.

  plan fit --features A,B,... --target Y --train FILE [options]

fits a line through columns of a CSV file with a header. Features are made
comparable by the mean and the sample deviation they have in the training file.

  --features A,B,...   names of columns
  --target Y           the column to be predicted
  --train FILE         what is learned from
  --test FILE          what the line is then tried on; the same columns
  --model ols|ridge    least squares, or with a penalty on coefficients   [ols]
  --penalty L          of ridge, above 0                                    [1]
  --json FILE          writes the figures there
  --help               prints this

Prints R2 (1 - squared error / squared deviation from the mean), MAE (mean
absolute error), MAPE (mean of absolute error / value, a fraction; rows whose
value is 0 are left out), p95 (what 95 % of the absolute errors stay below) and
the coefficients. Exit status: 0, or 2 for bad input.
)";
}

}  // namespace plan
