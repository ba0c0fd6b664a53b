// SPDX-License-Identifier: Apache-2.0
// Recorded events as trace-event JSON (the format of chrome://tracing, which ui.perfetto.dev
// opens).
#pragma once

#include <cede/config.hpp>
#include <cede/detail/json_text.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

enum class trace_shape : std::uint8_t { span, instant, request };

/// One recorded event; `category` is a string literal.
struct trace_event {
  trace_shape what = trace_shape::span;
  std::uint32_t track = 0;
  const char* category = "";
  std::chrono::nanoseconds begin{0};
  std::chrono::nanoseconds end{0};
  std::uint64_t ordinal = 0;  ///< 0 = none
  std::uint64_t cursor = 0;
  std::uint64_t request = 0;  ///< 0 = none
  std::array<char, 56> name{};
};

struct trace_track {
  std::string process;
  std::string name;
};

/// Appends microseconds with three decimals.
inline void append_us(std::string& out, std::chrono::nanoseconds t) {
  const bool negative = t.count() < 0;
  const auto ns =
      negative ? 0 - static_cast<std::uint64_t>(t.count()) : static_cast<std::uint64_t>(t.count());
  if (negative) out += '-';
  out += std::to_string(ns / 1000) + '.';
  const std::string fraction = std::to_string(ns % 1000);
  out.append(3 - fraction.size(), '0');
  out += fraction;
}

/// Writes one trace. A viewer wants the spans of one thread to nest, but launches of one stream
/// overlap (the next is submitted while one runs), so each track is spread over as many lanes as it
/// needs, each a thread of the trace. Where more than `max_lanes` overlap, the rest are drawn as
/// points at their ends, which nest anywhere, and say in `took_us` how long they were.
class trace_writer {
 public:
  trace_writer(std::ostream& to, const std::vector<trace_track>& tracks,
               const std::vector<trace_event>& events)
      : to_(to),
        tracks_(tracks),
        events_(events),
        lanes_of_(tracks.size()),
        process_of_(tracks.size()) {}

  void write(std::uint64_t dropped) {
    assign_lanes();
    buffer_ = "{\"displayTimeUnit\":\"ns\",\n\"otherData\":{\"writer\":\"cede ";
    buffer_ += std::to_string(CEDE_VERSION_MAJOR) + '.' + std::to_string(CEDE_VERSION_MINOR) + '.' +
               std::to_string(CEDE_VERSION_PATCH) +
               "\",\"dropped_events\":" + std::to_string(dropped) + "},\n\"traceEvents\":[";
    write_names();
    write_events();
    buffer_ += "\n]}\n";
    flush();
  }

 private:
  static constexpr std::size_t max_lanes = 32;

  struct lane {
    std::vector<std::chrono::nanoseconds> open;  ///< ends of the spans open at this point
  };
  /// What one line of the output is made from.
  struct line {
    std::chrono::nanoseconds at{0};
    char phase = 'X';
    std::size_t event = 0;
  };

  static std::chrono::nanoseconds end_of(const trace_event& e) { return std::max(e.begin, e.end); }

  void assign_lanes() {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      if (events_[i].what != trace_shape::instant) order.push_back(i);
    }
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const trace_event& l = events_[a];
      const trace_event& r = events_[b];
      return std::tuple(l.begin, end_of(r), a) < std::tuple(r.begin, end_of(l), b);
    });
    lane_of_.assign(events_.size(), 0);
    begin_of_.resize(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i) begin_of_[i] = events_[i].begin;
    for (const std::size_t i : order) {
      const trace_event& e = events_[i];
      std::vector<lane>& lanes = lanes_of_[e.track];
      std::size_t chosen = 0;
      for (; chosen < lanes.size(); ++chosen) {
        auto& open = lanes[chosen].open;
        while (!open.empty() && open.back() <= e.begin) open.pop_back();
        if (open.empty() || end_of(e) <= open.back()) break;
      }
      if (chosen == max_lanes) {
        begin_of_[i] = end_of(e);
        chosen = 0;
      } else {
        if (chosen == lanes.size()) lanes.emplace_back();
        lanes[chosen].open.push_back(end_of(e));
      }
      lane_of_[i] = chosen;
    }
    first_thread_.resize(tracks_.size());
    std::size_t next = 1;
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      first_thread_[t] = next;
      next += std::max<std::size_t>(lanes_of_[t].size(), 1);
    }
  }

  void write_names() {
    std::vector<std::string_view> processes;
    for (std::size_t t = 0; t < tracks_.size(); ++t) {
      const auto found = std::find(processes.begin(), processes.end(), tracks_[t].process);
      process_of_[t] = static_cast<std::size_t>(found - processes.begin()) + 1;
      if (found == processes.end()) {
        processes.push_back(tracks_[t].process);
        write_name("process_name", process_of_[t], 0, tracks_[t].process);
        write_sort_index("process_sort_index", process_of_[t], 0, process_of_[t]);
      }
      for (std::size_t l = 0; l < std::max<std::size_t>(lanes_of_[t].size(), 1); ++l) {
        const std::size_t thread = first_thread_[t] + l;
        std::string name = tracks_[t].name;
        if (l > 0) name += " (" + std::to_string(l + 1) + ')';
        write_name("thread_name", process_of_[t], thread, name);
        write_sort_index("thread_sort_index", process_of_[t], thread, thread);
      }
    }
  }

  void begin_line(char phase, std::size_t process, std::size_t thread) {
    if (buffer_.size() > flush_at) flush();
    if (!first_line_) buffer_ += ',';
    first_line_ = false;
    buffer_ += "\n{\"ph\":\"";
    buffer_ += phase;
    buffer_ += "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread);
  }

  void write_name(std::string_view what, std::size_t process, std::size_t thread,
                  std::string_view name) {
    begin_line('M', process, thread);
    buffer_ += ",\"name\":\"";
    buffer_ += what;
    buffer_ += "\",\"args\":{\"name\":";
    append_json_string(buffer_, name);
    buffer_ += "}}";
  }

  void write_sort_index(std::string_view what, std::size_t process, std::size_t thread,
                        std::size_t index) {
    begin_line('M', process, thread);
    buffer_ += ",\"name\":\"";
    buffer_ += what;
    buffer_ += "\",\"args\":{\"sort_index\":" + std::to_string(index) + "}}";
  }

  // A viewer draws the arrows of a flow in the order of time, and ties in the order of the file:
  // spans, then the flow's start, its steps, its end.
  static int rank(char phase) {
    switch (phase) {
      case 'X':
        return 0;
      case 's':
        return 1;
      case 't':
        return 2;
      case 'i':
        return 3;
      default:
        return 4;
    }
  }

  void write_events() {
    std::vector<std::uint64_t> requests;
    for (const trace_event& e : events_) {
      if (e.what == trace_shape::request) requests.push_back(e.request);
    }
    std::sort(requests.begin(), requests.end());

    std::vector<line> lines;
    lines.reserve(events_.size());
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const trace_event& e = events_[i];
      lines.push_back({begin_of_[i], e.what == trace_shape::instant ? 'i' : 'X', i});
      if (e.what == trace_shape::request) {
        lines.push_back({begin_of_[i], 's', i});
        // Just inside the span: at its very end the arrow would point at what follows.
        const bool empty = end_of(e) == begin_of_[i];
        lines.push_back({end_of(e) - std::chrono::nanoseconds{empty ? 0 : 1}, 'f', i});
      } else if (e.what == trace_shape::span && e.request != 0 &&
                 std::binary_search(requests.begin(), requests.end(), e.request)) {
        lines.push_back(
            {begin_of_[i], 't', i});  // a step without its request would be an arrow to nowhere
      }
    }
    std::sort(lines.begin(), lines.end(), [&](const line& a, const line& b) {
      const auto key = [&](const line& x, const line& other) {
        return std::tuple(x.at, rank(x.phase), end_of(events_[other.event]), x.event);
      };
      return key(a, b) < key(b, a);  // the longer span first: it is the outer one
    });
    for (const line& l : lines) write_line(l);
  }

  void write_line(const line& l) {
    const trace_event& e = events_[l.event];
    begin_line(l.phase, process_of_[e.track], first_thread_[e.track] + lane_of_[l.event]);
    buffer_ += ",\"ts\":";
    append_us(buffer_, l.at);
    if (l.phase == 's' || l.phase == 't' || l.phase == 'f') {
      buffer_ += ",\"cat\":\"request\",\"name\":\"request\",\"id\":" + std::to_string(e.request);
      if (l.phase == 'f') buffer_ += ",\"bp\":\"e\"";
      buffer_ += '}';
      return;
    }
    if (l.phase == 'X') {
      buffer_ += ",\"dur\":";
      append_us(buffer_, end_of(e) - l.at);
    } else {
      buffer_ += ",\"s\":\"t\"";
    }
    buffer_ += ",\"cat\":\"";
    buffer_ += e.category;
    buffer_ += "\",\"name\":";
    append_json_string(buffer_, e.name.data());
    buffer_ += ",\"args\":{";
    bool first = true;
    const auto arg = [&](std::string_view name, std::uint64_t value) {
      buffer_ += first ? "\"" : ",\"";
      buffer_ += name;
      buffer_ += "\":" + std::to_string(value);
      first = false;
    };
    if (e.ordinal != 0) {
      arg("ordinal", e.ordinal);
      arg("cursor", e.cursor);
    }
    if (e.request != 0) arg("request", e.request);
    if (begin_of_[l.event] != e.begin && l.phase == 'X') {
      buffer_ += first ? "\"took_us\":" : ",\"took_us\":";
      append_us(buffer_, end_of(e) - e.begin);
    }
    buffer_ += "}}";
  }

  void flush() {
    to_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    buffer_.clear();
  }

  static constexpr std::size_t flush_at = std::size_t{1} << 16U;

  std::ostream& to_;
  const std::vector<trace_track>& tracks_;
  const std::vector<trace_event>& events_;
  std::vector<std::vector<lane>> lanes_of_;
  std::vector<std::size_t> process_of_;
  std::vector<std::size_t> first_thread_;
  std::vector<std::size_t> lane_of_;
  std::vector<std::chrono::nanoseconds> begin_of_;  ///< as drawn
  std::string buffer_;
  bool first_line_ = true;
};

}  // namespace detail

CEDE_END_NAMESPACE
