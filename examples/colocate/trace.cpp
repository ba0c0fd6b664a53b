// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <system_error>

#include "csv.hpp"
#include "files.hpp"
#include "input_error.hpp"
#include "timestamp.hpp"

namespace colocate {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

// The first of `names` that the header has; earlier names win.
std::optional<std::size_t> column(const std::vector<std::string>& header,
                                  std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (lower(header[i]) == name) return i;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> count(const std::string& text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc{} || rest != end) return std::nullopt;
  return value;
}

}  // namespace

trace read_trace(std::istream& in, const std::string& name) {
  csv_reader rows(in, name);
  std::vector<std::string> fields;
  if (!rows.next(fields)) throw input_error("The trace " + shown(name) + " is empty.");
  const std::size_t width = fields.size();
  const auto times = column(fields, {"timestamp", "arrival_time", "arrival", "arrived", "time"});
  if (!times) {
    rows.refuse(
        "the header names no column of timestamps (timestamp, arrival_time, arrival, arrived or "
        "time, columns separated by commas)");
  }
  const auto tokens = column(fields, {"contexttokens", "context_tokens"});

  trace out;
  std::int64_t first = 0;
  while (rows.next(fields)) {
    if (fields.size() != width) {
      rows.refuse("there are " + std::to_string(fields.size()) + " fields, the header has " +
                  std::to_string(width));
    }
    const auto time = parse_timestamp(fields[*times]);
    if (!time) rows.refuse("the timestamp " + shown(fields[*times]) + " cannot be read");
    if (out.ticks.empty()) first = *time;
    if (!out.ticks.empty() && *time - first < out.ticks.back()) {
      rows.refuse("the timestamp " + shown(fields[*times]) + " is earlier than the one before it");
    }
    out.ticks.push_back(*time - first);
    if (tokens) {
      const auto value = count(fields[*tokens]);
      if (!value)
        rows.refuse("ContextTokens is " + shown(fields[*tokens]) + ", not a whole number");
      out.tokens.push_back(*value);
    }
  }
  if (out.ticks.size() < 2 || out.ticks.back() == 0) {
    throw input_error("The trace " + shown(name) + " has less than two different arrival times.");
  }
  return out;
}

trace read_trace(const std::string& path) {
  std::ifstream in = open_input(path, "trace");
  return read_trace(in, path);
}

}  // namespace colocate
