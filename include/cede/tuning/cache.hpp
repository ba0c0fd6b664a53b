// SPDX-License-Identifier: Apache-2.0
// What earlier runs found, kept in a file, so that nothing has to be searched twice.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/json_reader.hpp>
#include <cede/detail/json_text.hpp>
#include <cede/detail/locked_file.hpp>
#include <cede/shape.hpp>
#include <cede/tuning/candidate.hpp>
#include <cede/tuning/search.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// Of what body, shape, device and budget an entry tells.
struct cache_key {
  std::string gpu;         ///< its name
  std::string capability;  ///< such as "9.0"; empty on the host device
  unsigned sms = 1;
  std::string body;  ///< its name
  std::string code;  ///< `fingerprint` of all that may change what it costs
  shape launch{};    ///< dynamic shared bytes included
  nanoseconds budget{0};
  friend bool operator==(const cache_key&, const cache_key&) = default;
};

/// A number that names a text, the same in every run (64-bit FNV-1a), as 16 hexadecimal digits.
[[nodiscard]] inline std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[hash >> static_cast<unsigned>(shift) & 15U];
  }
  return digits;
}

/// One measured configuration.
struct cache_measurement {
  candidate what;
  nanoseconds elapsed{0};
  nanoseconds longest{0};  ///< 0 = not measured
  std::uint64_t launches = 0;
  friend bool operator==(const cache_measurement&, const cache_measurement&) = default;
};

struct cache_entry {
  cache_key key;
  candidate choice;
  bool pinned = false;  ///< the choice stands whatever is measured
  std::vector<cache_measurement> measured;
  friend bool operator==(const cache_entry&, const cache_entry&) = default;
};

namespace cache_file {

using detail::append_json_string;
using detail::json_value;

inline constexpr std::string_view format = "cede tuning cache";
inline constexpr std::uint64_t version = 1;
inline constexpr std::string_view begins = "{\"format\": \"cede tuning cache\", \"version\": ";
inline constexpr std::size_t most_bytes = std::size_t{8} << 20U;

/// Reads members one by one; `good` stays true while each is what it has to be.
class member_reader {
 public:
  explicit member_reader(const json_value& of) : of_(of) {}
  bool good = true;

  std::uint64_t integer(std::string_view key, std::uint64_t least, std::uint64_t most) {
    const json_value* v = of_.find(key);
    const auto n = v != nullptr ? v->integer() : std::nullopt;
    good = good && n && *n >= least && *n <= most;
    return good ? *n : 0;
  }
  std::uint64_t optional_integer(std::string_view key, std::uint64_t most) {
    return of_.find(key) == nullptr ? 0 : integer(key, 0, most);
  }
  std::string string(std::string_view key) {
    const json_value* v = of_.find(key);
    auto s = v != nullptr ? v->string() : std::nullopt;
    good = good && s;
    return good ? *std::move(s) : std::string{};
  }
  nanoseconds duration(std::string_view key) {
    return nanoseconds{static_cast<std::int64_t>(integer(key, 0, std::uint64_t{1} << 53U))};
  }
  cede::extent extent(std::string_view key) {
    const json_value* v = of_.find(key);
    std::array<std::uint64_t, 3> axis{1, 1, 1};
    good = good && v != nullptr && v->items().size() == 3;
    for (std::size_t i = 0; good && i < 3; ++i) {
      const auto n = v->items()[i].integer();
      good = n && *n >= 1 && *n <= 0xFFFFFFFFU;
      if (good) axis[i] = *n;
    }
    return {axis[0], axis[1], axis[2]};
  }

 private:
  const json_value& of_;
};

inline std::optional<candidate> read_candidate(const json_value& v) {
  member_reader m(v);
  const std::string how = m.string("form");
  candidate c;
  if (how == "persistent") {
    c = persistent(static_cast<unsigned>(m.integer("workers_per_sm", 1, 4096)),
                   static_cast<std::uint32_t>(m.integer("batch", 1, 65535)));
  } else if (how == "gated") {
    c = gated(m.integer("chunk", 1, std::uint64_t{1} << 30U));
  } else if (how == "sliced") {
    c = sliced(m.integer("slices", 1, std::uint64_t{1} << 40U));
  } else if (how != "whole") {
    return std::nullopt;
  }
  return m.good ? std::optional(c) : std::nullopt;
}

inline void append_candidate(std::string& out, const candidate& c) {
  const auto number = [&](const char* key, std::uint64_t n) {
    out += std::string(", \"") + key + "\": " + std::to_string(n);
  };
  switch (c.how) {
    case form::persistent:
      out += "\"form\": \"persistent\"";
      number("workers_per_sm", c.workers_per_sm);
      number("batch", c.batch);
      break;
    case form::gated:
      out += "\"form\": \"gated\"";
      number("chunk", c.chunk);
      break;
    case form::sliced:
      out += "\"form\": \"sliced\"";
      number("slices", c.slices);
      break;
    default:
      out += "\"form\": \"whole\"";
      break;
  }
}

inline std::optional<cache_entry> read_entry(const json_value& v) {
  member_reader m(v);
  cache_entry e;
  e.key.gpu = m.string("gpu");
  e.key.capability = m.string("capability");
  e.key.sms = static_cast<unsigned>(m.integer("sms", 1, 1U << 20U));
  e.key.body = m.string("body");
  e.key.code = m.string("code");
  e.key.launch.grid = m.extent("grid");
  e.key.launch.block = m.extent("block");
  e.key.launch.cluster = m.extent("cluster");
  e.key.launch.shared = static_cast<std::size_t>(m.integer("shared", 0, 1U << 30U));
  e.key.budget = m.duration("budget_ns");
  if (const json_value* pinned = v.find("pinned")) {
    const std::optional<bool> is = pinned->boolean();
    m.good = m.good && is;
    e.pinned = is.value_or(false);
  }
  const json_value* choice = v.find("choice");
  const auto chosen = choice != nullptr ? read_candidate(*choice) : std::nullopt;
  if (!m.good || !chosen) return std::nullopt;
  e.choice = *chosen;
  if (const json_value* measured = v.find("measured")) {
    if (measured->what() != json_value::kind::array) return std::nullopt;
    for (const json_value& each : measured->items()) {
      member_reader r(each);
      const auto what = read_candidate(each);
      cache_measurement one{.what = what.value_or(candidate{}),
                            .elapsed = r.duration("elapsed_ns"),
                            .longest = r.duration("longest_ns"),
                            .launches = r.integer("launches", 1, std::uint64_t{1} << 53U)};
      if (!what || !r.good || one.elapsed.count() == 0) return std::nullopt;
      e.measured.push_back(one);
    }
  }
  return e;
}

inline std::string entry_text(const cache_entry& e) {
  std::string out = "{\"gpu\": ";
  const auto text = [&](const char* key, std::string_view value) {
    out += std::string(", \"") + key + "\": ";
    append_json_string(out, value);
  };
  const auto number = [&](const char* key, std::uint64_t n) {
    out += std::string(", \"") + key + "\": " + std::to_string(n);
  };
  const auto axes = [&](const char* key, const cede::extent& x) {
    out += std::string(", \"") + key + "\": [" + std::to_string(x.x) + ", " + std::to_string(x.y) +
           ", " + std::to_string(x.z) + ']';
  };
  const auto time = [](nanoseconds t) {
    return static_cast<std::uint64_t>(
        std::clamp<std::int64_t>(t.count(), 0, std::int64_t{1} << 53U));
  };
  append_json_string(out, e.key.gpu);
  text("capability", e.key.capability);
  number("sms", e.key.sms);
  text("body", e.key.body);
  text("code", e.key.code);
  axes("grid", e.key.launch.grid);
  axes("block", e.key.launch.block);
  axes("cluster", e.key.launch.cluster);
  number("shared", e.key.launch.shared);
  number("budget_ns", time(e.key.budget));
  out += e.pinned ? ",\n   \"pinned\": true" : ",\n   \"pinned\": false";
  out += ", \"choice\": {";
  append_candidate(out, e.choice);
  out += "},\n   \"measured\": [";
  for (std::size_t i = 0; i < e.measured.size(); ++i) {
    const cache_measurement& m = e.measured[i];
    out += i == 0 ? "\n    {" : ",\n    {";
    append_candidate(out, m.what);
    number("elapsed_ns", time(m.elapsed));
    number("longest_ns", time(m.longest));
    number("launches", m.launches);
    out += '}';
  }
  return out + "]}";
}

}  // namespace cache_file

/// The entries of a cache file. One thread at a time; only `load` and `save` touch a file.
class cache {
 public:
  [[nodiscard]] const std::vector<cache_entry>& entries() const { return entries_; }
  /// The entry of a key; null if there is none. It stays until the cache is changed.
  [[nodiscard]] const cache_entry* find(const cache_key& k) const {
    for (const cache_entry& e : entries_) {
      if (e.key == k) return &e;
    }
    return nullptr;
  }
  /// Adds an entry, or replaces that of its key; a pinned one is replaced by a pinned one only.
  void put(cache_entry e) {
    for (cache_entry& known : entries_) {
      if (!(known.key == e.key)) continue;
      if (!known.pinned || e.pinned) known = std::move(e);
      return;
    }
    entries_.push_back(std::move(e));
  }

  /// Takes in the text of a file: its entries come in as by `put`. Returns a sentence on what was
  /// left out, empty if nothing was.
  std::string parse(std::string_view text) {
    detail::json_reader reader(text);
    const auto root = reader.read();
    if (!root) return "it is no JSON: " + reader.error() + "; delete it to begin anew";
    using detail::json_value;
    const json_value* is = root->find("format");
    if (is == nullptr || is->string() != cache_file::format) {
      return "it is something else than a tuning cache of cede's; name another file";
    }
    const json_value* of = root->find("version");
    if (of == nullptr || of->integer() != cache_file::version) {
      return "it was written by another version of cede; name another file for this one";
    }
    const json_value* list = root->find("entries");
    if (list == nullptr || list->what() != json_value::kind::array) {
      return "it has no list of entries; delete it to begin anew";
    }
    std::size_t left_out = 0;
    for (const json_value& v : list->items()) {
      if (auto e = cache_file::read_entry(v)) {
        put(*std::move(e));
        continue;
      }
      ++left_out;
      const auto [begin, end] = v.span();
      strange_.emplace_back(text.substr(begin, end - begin));
    }
    if (left_out == 0) return {};
    return std::to_string(left_out) + (left_out == 1 ? " entry is" : " entries are") +
           " not as they should be and ignored; correct or remove what was written by hand";
  }
  /// The text of a file. What `parse` did not understand in a list of entries is kept as it was.
  [[nodiscard]] std::string text() const {
    std::string out =
        std::string(cache_file::begins) + std::to_string(cache_file::version) + ", \"entries\": [";
    bool first = true;
    const auto add = [&](std::string_view entry) {
      out += first ? "\n  " : ",\n  ";
      out += entry;
      first = false;
    };
    for (const cache_entry& e : entries_) add(cache_file::entry_text(e));
    for (const std::string& s : strange_) add(s);
    return out + "\n]}\n";
  }

  /// Reads a file. One that is not there is empty. Returns a sentence on what was ignored, naming
  /// the file; empty if nothing was. Never throws for what is in a file; does not wait for writers.
  std::string load(const std::string& path) {
    std::string problem;
    const auto text = detail::read_file(path, cache_file::most_bytes, problem);
    if (!text) return problem.empty() ? problem : sentence(path, problem);
    if (text->empty()) return {};
    problem = parse(*text);
    return problem.empty() ? problem : sentence(path, problem);
  }
  /// Adds the entries to those of a file, which may have changed since it was read: of one key,
  /// these win over the file's, except over pinned ones. Other processes that save or load at the
  /// same time lose nothing and see no half of it. A file that is no cache, or that of another
  /// version, is left alone. Returns a sentence if it was not written; empty if it was. Waits for
  /// other writers, for `patience` at most, and for the disk.
  std::string save(const std::string& path,
                   std::chrono::milliseconds patience = std::chrono::seconds{2}) const {
    std::string foreign;
    std::string problem = detail::change_file(
        path, cache_file::most_bytes, patience,
        [&](const std::optional<std::string>& before) -> std::optional<std::string> {
          cache merged;
          if (before && !before->empty()) {
            const bool good = merged.parse(*before).empty();
            // What was cut short is replaced; what is somebody else's is not.
            const std::string own =
                std::string(cache_file::begins) + std::to_string(cache_file::version) + ',';
            const bool some = !merged.entries_.empty() || !merged.strange_.empty();
            if (!good && !some && !before->starts_with(own)) {
              foreign = "it is something else than a tuning cache of this version of cede";
              return std::nullopt;
            }
          }
          for (const cache_entry& e : entries_) merged.put(e);
          return merged.text();
        });
    if (problem.empty()) problem = foreign;
    if (problem.empty()) return {};
    return "cede: the tuning cache " + path + " was not written: " + problem;
  }

 private:
  static std::string sentence(const std::string& path, const std::string& problem) {
    return "cede: the tuning cache " + path + " was not used, or not all of it: " + problem;
  }

  std::vector<cache_entry> entries_;
  std::vector<std::string> strange_;  ///< entries of the file that were not understood
};

/// What a search found, to be kept. Nothing if it has not settled or nothing was measured.
[[nodiscard]] inline std::optional<cache_entry> entry_of(const search& s, const cache_key& key) {
  if (s.state() == search_state::searching) return std::nullopt;
  cache_entry e;
  e.key = key;
  e.choice = s.current();
  e.pinned = s.state() == search_state::pinned;
  for (const record& r : s.model().records()) {
    if (r.elapsed.empty()) continue;
    e.measured.push_back(
        {.what = r.what,
         .elapsed = nanoseconds{static_cast<std::int64_t>(r.elapsed.median())},
         .longest =
             nanoseconds{r.longest_guessed ? 0 : static_cast<std::int64_t>(longest_known(r))},
         .launches = r.launches});
  }
  if (e.measured.empty() && !e.pinned) return std::nullopt;
  return e;
}

/// Begins a search with what was kept: settled, if the choice still keeps the budget. False, and
/// the search begins anew, for an entry whose choice this body, shape or device does not allow.
inline bool resume(search& s, const cache_entry& e) {
  const cost_model& m = s.model();
  if (!allowed(e.choice, m.launch(), m.machine())) return false;
  for (const cache_measurement& each : e.measured) {
    s.restore(each.what, each.elapsed, each.longest,
              static_cast<unsigned>(std::min<std::uint64_t>(each.launches, 3)));
  }
  if (e.pinned) {
    s.pin(e.choice);
  } else {
    s.adopt(e.choice);
  }
  return true;
}

}  // namespace tuning

CEDE_END_NAMESPACE
