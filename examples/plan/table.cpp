// SPDX-License-Identifier: Apache-2.0
#include "table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <string_view>
#include <system_error>

#include "../colocate/csv.hpp"
#include "../colocate/files.hpp"
#include "../colocate/input_error.hpp"

namespace plan {
namespace {

using colocate::input_error;
using colocate::shown;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) + 1 - first);
}

bool number(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.starts_with('+')) text.remove_prefix(1);
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  return code == std::errc{} && rest == end && std::isfinite(value);
}

}  // namespace

table read_table(std::istream& in, const std::string& file, const std::vector<std::string>& names) {
  colocate::csv_reader reader(in, file);
  std::vector<std::string> fields;
  if (!reader.next(fields)) throw input_error(shown(file) + " is empty; it needs a header.");
  const std::vector<std::string> header = fields;
  std::vector<std::size_t> places;
  for (const std::string& name : names) {
    const auto is_it = [&](const std::string& h) { return trimmed(h) == name; };
    const auto at = std::ranges::find_if(header, is_it);
    if (at == header.end()) reader.refuse("there is no column " + shown(name));
    if (std::ranges::count_if(header, is_it) > 1)
      reader.refuse("there are several columns " + shown(name));
    places.push_back(static_cast<std::size_t>(at - header.begin()));
  }
  table t;
  t.columns.resize(names.size());
  while (reader.next(fields)) {
    if (fields.size() != header.size()) {
      reader.refuse("there are " + std::to_string(fields.size()) + " fields, the header has " +
                    std::to_string(header.size()));
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      double value = 0;
      if (!number(fields[places[i]], value)) {
        reader.refuse("column " + std::to_string(places[i] + 1) + " (" + shown(names[i]) +
                      ") needs a finite number, " + shown(fields[places[i]]) + " is not one");
      }
      t.columns[i].push_back(value);
    }
  }
  if (t.rows() == 0) throw input_error(shown(file) + " has a header and nothing below it.");
  return t;
}

table read_table(const std::string& path, const std::vector<std::string>& names) {
  std::ifstream in = colocate::open_input(path, "table");
  return read_table(in, path, names);
}

}  // namespace plan
