// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cede/detail/json_text.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace plan {
namespace {

// As many digits as it takes to read the same number again.
std::string exact(double v) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), v).ptr;
  return {text.data(), end};
}
std::string exact(const std::optional<double>& v) { return v ? exact(*v) : "null"; }

std::string quoted(const std::string& text) {
  std::string out;
  cede::detail::append_json_string(out, text);
  return out;
}

std::string json_of(const quality& q) {
  return R"({"rows": )" + std::to_string(q.rows) + R"(, "r2": )" + exact(q.r2) + R"(, "mae": )" +
         exact(q.mae) + R"(, "mape": )" + exact(q.mape) + R"(, "p95": )" + exact(q.p95) + "}";
}

std::string by_feature(const std::vector<std::string>& names, const std::vector<double>& values,
                       std::string first = {}) {
  std::string out = "{" + first;
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += out.size() > 1 ? ", " : "";
    out += quoted(names[i]) + ": " + exact(values[i]);
  }
  return out + "}";
}

std::string padded(const std::optional<double>& v) {
  std::array<char, 32> text{};
  if (v) {
    std::snprintf(text.data(), text.size(), "%12.5g", *v);
  } else {
    std::snprintf(text.data(), text.size(), "%12s", "-");
  }
  return text.data();
}

std::string row_of(const char* name, const quality& q) {
  std::array<char, 64> begin{};
  std::snprintf(begin.data(), begin.size(), "%-8s %8zu", name, q.rows);
  return begin.data() + padded(q.r2) + padded(q.mae) + padded(q.mape) + padded(q.p95) + "\n";
}

}  // namespace

std::string table_of(const fitted& f) {
  std::string out =
      f.model + "\n             rows          R2         MAE        MAPE         p95\n";
  out += row_of("train", f.train);
  if (f.test) out += row_of("test", *f.test);
  std::size_t width = 9;
  for (const std::string& name : f.features) width = std::max(width, name.size());
  const auto entry = [&](const std::string& name, double value) {
    out += name + std::string(width - name.size(), ' ') + padded(value);
  };
  out += "\nCoefficients, of features by their deviation in the training file:\n";
  entry("intercept", f.found.intercept);
  out += "\n";
  for (std::size_t i = 0; i < f.features.size(); ++i) {
    entry(f.features[i], f.found.coefficients[i]);
    out += f.found.deviations[i] > 0 ? "\n" : "   (constant in the training file)\n";
  }
  return out;
}

std::string json_of(const fitted& f) {
  return "{\n  \"model\": " + quoted(f.model) + ",\n  \"train\": " + json_of(f.train) +
         ",\n  \"test\": " + (f.test ? json_of(*f.test) : "null") + ",\n  \"coefficients\": " +
         by_feature(f.features, f.found.coefficients,
                    "\"intercept\": " + exact(f.found.intercept)) +
         ",\n  \"mean\": " + by_feature(f.features, f.found.means) +
         ",\n  \"deviation\": " + by_feature(f.features, f.found.deviations) + "\n}\n";
}

}  // namespace plan
