// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string_view>

namespace colocate {
namespace {

// Numbers without the locale: a point, whatever the user's language writes.
std::string fixed(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  std::array<char, 400> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::fixed, digits);
  return {buffer.data(), end.ptr};
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 std::chars_format::general, 6);
  return {buffer.data(), end.ptr};
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape;
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + '"';
}

// An object, written member by member.
class object {
 public:
  object& add(std::string_view key, const std::string& written) {
    text_ += (text_.empty() ? "" : ", ") + json_text(key) + ": " + written;
    return *this;
  }
  object& add(std::string_view key, double value) { return add(key, json_number(value)); }
  object& add(std::string_view key, std::uint64_t value) { return add(key, std::to_string(value)); }
  [[nodiscard]] std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string json(const mode_figures& m) {
  const serve_figures& s = m.serve;
  const train_figures& t = m.train;
  object serve;
  serve.add("requests", s.requests)
      .add("achieved_load", s.achieved_load)
      .add("service_p50_us", s.service_p50_us)
      .add("service_p99_us", s.service_p99_us)
      .add("response_p50_us", s.response_p50_us)
      .add("response_p99_us", s.response_p99_us)
      .add("p99_ratio", s.p99_ratio)
      .add("p99_ratio_low", s.p99_ratio_low)
      .add("slowdown_p99", s.slowdown_p99);
  object train;
  train.add("steps", t.steps)
      .add("steps_per_s", t.steps_per_s)
      .add("progress", t.progress)
      .add("progress_per_idle", t.progress_per_idle)
      .add("lost_us_per_request", t.lost_us_per_request)
      .add("yields", t.yields)
      .add("loss_first", t.loss_first)
      .add("loss_last", t.loss_last)
      .add("digest_step", t.digest_step)
      .add("weights_digest", json_text(t.weights_digest));
  return object()
      .add("mode", json_text(m.mode))
      .add("unstable", std::uint64_t{m.unstable ? 1U : 0U})
      .add("serve", serve.str())
      .add("train", train.str())
      .str();
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string blanks(width > text.size() ? width - text.size() : 0, ' ');
  return left ? text + blanks : blanks + text;
}

using row = std::vector<std::string>;

row cells(const mode_figures& m) {
  const serve_figures& s = m.serve;
  const train_figures& t = m.train;
  return {m.mode + (m.unstable ? " *" : ""),
          std::to_string(s.requests),
          fixed(s.service_p50_us, 0),
          fixed(s.service_p99_us, 0),
          fixed(s.response_p99_us, 0),
          fixed(s.p99_ratio, 3),
          fixed(s.slowdown_p99, 3),
          fixed(t.steps_per_s, 1),
          fixed(t.progress, 3),
          fixed(t.progress_per_idle, 3),
          fixed(t.lost_us_per_request, 1),
          std::to_string(t.yields)};
}

}  // namespace

std::string table(const results& r) {
  std::vector<row> rows{{"mode", "requests", "P50", "P99", "resp. P99", "ratio", "slowdown",
                         "steps/s", "progress", "per idle", "lost", "yields"}};
  bool unstable = false;
  for (const mode_figures& m : r.modes) {
    rows.push_back(cells(m));
    unstable = unstable || m.unstable;
  }
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const row& line : rows) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string out;
  for (const row& line : rows) {
    std::string text;
    for (std::size_t i = 0; i < line.size(); ++i) {
      text += (i == 0 ? "" : " ") + padded(line[i], widths[i], i == 0);
    }
    out += text + "\n";
  }
  out +=
      "\nP50, P99: service time in us; resp. P99: from arrival, in us; ratio: P99 / P99 alone;\n"
      "slowdown: P99 of a request's time / the same alone; progress: training speed / alone;\n"
      "per idle: progress / idle share of the window; lost: us of training lost per request.\n";
  if (r.device == "host") {
    out += "On the host device this checks correctness; times mean little when cores are shared.\n";
  }
  if (unstable)
    out += "* unstable: the service fell more than 200 requests behind where it would be alone.\n";
  return out;
}

std::string json(const results& r) {
  object context;
  for (const context_entry& entry : r.context) {
    context.add(entry.key, entry.is_number ? entry.value : json_text(entry.value));
  }
  std::string modes;
  for (const mode_figures& m : r.modes) {
    modes += (modes.empty() ? "\n    " : ",\n    ") + json(m);
  }
  return "{\n  \"context\": " + context.str() + ",\n  \"device\": " + json_text(r.device) +
         ",\n  \"modes\": [" + modes +
         "\n  ],\n  \"verified\": " + (r.verified() ? "true" : "false") + "\n}\n";
}

}  // namespace colocate
