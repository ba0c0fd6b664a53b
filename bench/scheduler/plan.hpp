// SPDX-License-Identifier: Apache-2.0
// Which rows the program measures, about how long each takes and how they are cut into parts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <vector>

namespace bench::scheduler {

/// A latency-critical type. The service time is a rough one, to plan with.
struct critical_type {
  std::string_view name;
  double service_us;
};
inline constexpr std::array<critical_type, 7> critical_types{{{"k12", 15},
                                                              {"k40", 43},
                                                              {"chain20x6", 130},
                                                              {"chain20x31", 630},
                                                              {"graph20x31", 630},
                                                              {"cublas2048", 35},
                                                              {"block4ms", 4000}}};

/// A best-effort type; an opaque one cannot be preempted.
struct effort_type {
  std::string_view name;
  bool opaque = false;
};
inline constexpr std::array<effort_type, 10> effort_types{{{"mem25us"},
                                                           {"mem100us"},
                                                           {"mem750us"},
                                                           {"mem10ms"},
                                                           {"tile12us"},
                                                           {"tile50us"},
                                                           {"tile500us"},
                                                           {"tensor_gemm"},
                                                           {"training"},
                                                           {"cublas_gemm", true}}};

/// `none`: the latency-critical type alone against itself alone, the floor of the noise.
enum class mode : std::uint8_t { none, equal, priorities, green, gate, gate_holdoff, cede };

inline constexpr std::string_view name_of(mode m) {
  constexpr std::array<std::string_view, 7> names{"alone", "equal",        "priorities", "green",
                                                  "gate",  "gate_holdoff", "cede"};
  return names[static_cast<std::size_t>(m)];
}

/// What the program can measure: a pair under load; best-effort alone through the scheduler; what
/// a call costs the host; a scheduler with nothing to do.
enum class row_kind : std::uint8_t { pair, alone, host_cost, idle };

struct row {
  row_kind kind = row_kind::pair;
  std::string name;
  std::size_t critical = 0;  ///< of `critical_types`; pairs only
  std::size_t effort = 0;    ///< of `effort_types`; pairs and alone
  double load = 0;           ///< service time alone / time, pairs only
  scheduler::mode how = mode::cede;
  int beside = 0;      ///< best-effort workloads, host cost only
  std::string call;    ///< launch, request or run; host cost only
  double seconds = 0;  ///< expected, without what rows of a part share
};

/// How long one cell of a pair goes on: until it has `requests` and has lasted `seconds`, the
/// latter only where the service is long enough for its P99 to be a matter of time.
struct cell_length {
  std::size_t requests = 20'000;
  double seconds = 0;
};

/// Cells of services below 200 us take 20,000 requests and at least 3 s, so that best-effort work
/// of long launches is counted in hundreds; others 10 s, and at least 2,000 requests.
inline cell_length length_of(double service_us, double load) {
  const double gap_s = service_us / load * 1e-6;
  const bool brief = service_us < 200;
  const double least_s = brief ? 3 : 10;
  const std::size_t least = brief ? 20'000 : 2'000;
  const auto fitting = static_cast<std::size_t>(least_s / gap_s);
  const std::size_t requests = std::max(least, fitting);
  return {requests, static_cast<double>(requests) * gap_s};
}

/// Warming up, calibration and the bootstrap of one cell, in seconds.
inline constexpr double cell_overhead_s = 1.5;
/// Of a part: making its types and measuring best-effort ones alone, before and after.
inline constexpr double effort_overhead_s = 4;
inline constexpr double critical_overhead_s = 3;

namespace plan_detail {

inline std::string load_text(double load) {
  return "0." + std::to_string(static_cast<int>(load * 10 + 0.5));
}

inline row pair_row(std::size_t critical, std::size_t effort, double load, mode how) {
  const critical_type& c = critical_types[critical];
  row r;
  r.critical = critical;
  r.effort = effort;
  r.load = load;
  r.how = how;
  const std::string_view other = how == mode::none ? "none" : effort_types[effort].name;
  r.name = "scheduler/" + std::string(c.name) + "/" + std::string(other) + "/" + load_text(load) +
           "/" + std::string(name_of(how));
  // Green contexts and hold-offs are tried in several settings, of which the best counts.
  const double settings = how == mode::green || how == mode::gate_holdoff ? 2 : 1;
  // The floor of the noise comes from what is measured alone anyway.
  if (how != mode::none) {
    r.seconds = settings * (length_of(c.service_us, load).seconds + cell_overhead_s);
  }
  return r;
}

inline std::size_t critical_named(std::string_view name) {
  for (std::size_t i = 0; i < critical_types.size(); ++i) {
    if (critical_types[i].name == name) return i;
  }
  throw std::invalid_argument("no latency-critical type is called " + std::string(name));
}
inline std::size_t effort_named(std::string_view name) {
  for (std::size_t i = 0; i < effort_types.size(); ++i) {
    if (effort_types[i].name == name) return i;
  }
  throw std::invalid_argument("no best-effort type is called " + std::string(name));
}

}  // namespace plan_detail

/// Every row, those of one latency-critical type and load side by side, since they share what is
/// measured alone.
inline std::vector<row> all_rows() {
  using namespace plan_detail;
  std::vector<row> rows;
  const auto peers = {mode::equal, mode::green, mode::gate, mode::gate_holdoff};
  const auto both = {mode::priorities, mode::cede};
  const std::array<std::size_t, 3> chosen{effort_named("mem750us"), effort_named("tile50us"),
                                          effort_named("training")};
  for (std::size_t c = 0; c < critical_types.size(); ++c) {
    const std::string_view name = critical_types[c].name;
    const bool has_peers = name == "k40" || name == "chain20x31" || name == "block4ms";
    rows.push_back(pair_row(c, 0, 0.5, mode::none));
    for (std::size_t e = 0; e < effort_types.size(); ++e) {
      for (const mode m : both) rows.push_back(pair_row(c, e, 0.5, m));
      if (has_peers && std::find(chosen.begin(), chosen.end(), e) != chosen.end()) {
        for (const mode m : peers) rows.push_back(pair_row(c, e, 0.5, m));
      }
    }
    if (has_peers) {
      rows.push_back(pair_row(c, 0, 0.9, mode::none));
      for (const std::size_t e : chosen) {
        for (const mode m : both) rows.push_back(pair_row(c, e, 0.9, m));
      }
    }
    if (name == "k40") {
      rows.push_back(pair_row(c, 0, 0.1, mode::none));
      for (const std::size_t e : chosen) {
        for (const mode m : both) rows.push_back(pair_row(c, e, 0.1, m));
      }
    }
  }
  for (std::size_t e = 0; e < effort_types.size(); ++e) {
    row r;
    r.kind = row_kind::alone;
    r.name = "alone/" + std::string(effort_types[e].name);
    r.effort = e;
    r.seconds = 6;
    rows.push_back(r);
  }
  for (const int beside : {0, 1, 8}) {
    for (const char* call : {"launch", "request", "run"}) {
      row r;
      r.kind = row_kind::host_cost;
      r.name = "hostcost/" + std::to_string(beside) + "/" + call;
      r.beside = beside;
      r.call = call;
      r.seconds = 4;
      rows.push_back(r);
    }
  }
  row idle;
  idle.kind = row_kind::idle;
  idle.name = "idle/5s";
  idle.seconds = 6;
  rows.push_back(idle);
  return rows;
}

/// The next rows that are measured against the same run alone.
inline bool same_group(const row& a, const row& b) {
  return a.kind == row_kind::pair && b.kind == row_kind::pair && a.critical == b.critical &&
         a.load == b.load;
}

/// Expected seconds of a part, what its rows share included: each latency-critical type and load
/// alone, as long as a cell, half before and half after; each best-effort type alone.
inline double expected_seconds(const row* first, const row* last) {
  double sum = 0;
  std::array<bool, effort_types.size()> seen{};
  for (const row* r = first; r != last; ++r) {
    sum += r->seconds;
    if (r->kind == row_kind::pair && (r == first || !same_group(r[-1], *r))) {
      sum +=
          length_of(critical_types[r->critical].service_us, r->load).seconds + critical_overhead_s;
    }
    const bool has_effort =
        r->kind == row_kind::alone || (r->kind == row_kind::pair && r->how != mode::none);
    if (has_effort && !seen[r->effort]) {
      seen[r->effort] = true;
      sum += effort_overhead_s;
    }
  }
  return sum;
}
inline double expected_seconds(const std::vector<row>& rows) {
  return expected_seconds(rows.data(), rows.data() + rows.size());
}

/// Longest a part may be expected to take: 8 minutes, less what an estimate may be wrong by.
inline constexpr double part_limit_s = 400;

/// Where parts begin, in order, if none may take longer than `limit` seconds; a row that is longer
/// by itself is a part of its own.
inline std::vector<std::size_t> cut(const std::vector<row>& rows, double limit) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (begins.empty() ||
        expected_seconds(rows.data() + begins.back(), rows.data() + i + 1) > limit) {
      begins.push_back(i);
    }
  }
  return begins;
}

/// The fewest parts of which none takes too long.
inline std::size_t fewest_parts(const std::vector<row>& rows) {
  return cut(rows, part_limit_s).size();
}

/// Part `number` (from 1) of `count`, as even as the order allows. Throws where that many parts are
/// too few for the time a part may take, and for a number that is none of them. A part is empty
/// where there are more parts than rows.
inline std::vector<row> part_of(const std::vector<row>& rows, std::size_t number,
                                std::size_t count) {
  if (number < 1 || number > count) {
    throw std::invalid_argument("there is no part " + std::to_string(number) + " of " +
                                std::to_string(count) + "; parts are counted from 1");
  }
  if (count < fewest_parts(rows)) {
    throw std::invalid_argument("in " + std::to_string(count) +
                                " parts some would take more than 8 minutes; ask for at least " +
                                std::to_string(fewest_parts(rows)));
  }
  double low = 0;
  double high = part_limit_s;
  for (int i = 0; i < 40; ++i) {  // the shortest limit that so many parts can keep
    const double middle = (low + high) / 2;
    (cut(rows, middle).size() <= count ? high : low) = middle;
  }
  std::vector<std::size_t> begins = cut(rows, high);
  begins.resize(count + 1, rows.size());
  return {rows.begin() + static_cast<std::ptrdiff_t>(begins[number - 1]),
          rows.begin() + static_cast<std::ptrdiff_t>(begins[number])};
}

/// As few rows as have every type and every mode in one of them at least, for a run of seconds that
/// shows whether everything works.
inline std::vector<row> smoke_rows(const std::vector<row>& rows) {
  std::vector<row> chosen;
  std::array<bool, critical_types.size()> criticals{};
  std::array<bool, effort_types.size()> efforts{};
  std::array<bool, 7> modes{};
  for (const row& r : rows) {
    if (r.kind == row_kind::pair) {
      const bool with = r.how != mode::none;
      const bool fresh = !modes[static_cast<std::size_t>(r.how)] || !criticals[r.critical] ||
                         (with && r.how == mode::cede && !efforts[r.effort]);
      if (!fresh) continue;
      modes[static_cast<std::size_t>(r.how)] = true;
      criticals[r.critical] = true;
      if (with && r.how == mode::cede) efforts[r.effort] = true;
    } else if (r.kind == row_kind::alone && r.effort != 0) {
      continue;
    }
    chosen.push_back(r);
  }
  return chosen;
}

/// "I/N", as an option gives it. Throws a sentence otherwise.
inline std::pair<std::size_t, std::size_t> parse_part(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto number = [&](const std::string& digits) -> std::size_t {
    if (digits.empty() || digits.size() > 4 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
      throw std::invalid_argument("a part is written I/N, such as 3/12, not '" + text + "'");
    }
    return std::stoul(digits);
  };
  if (slash == std::string::npos) return {number(""), 0};
  return {number(text.substr(0, slash)), number(text.substr(slash + 1))};
}

}  // namespace bench::scheduler
