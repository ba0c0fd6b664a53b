// SPDX-License-Identifier: Apache-2.0
// What a scheduler counted: plain values, and a table of them.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/priority.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

CEDE_BEGIN_NAMESPACE

/// Durations in log-linear buckets: exact below 32 ns, then 32 buckets for each doubling, so that a
/// quantile is at most 1/32 off. Durations from 2^40 ns (18 minutes) on share the last bucket;
/// `max()` stays exact. A value type without allocation.
///
/// Not thread-safe for writing; never waits.
class histogram {
 public:
  /// What is counted.
  using nanoseconds = std::chrono::nanoseconds;

  static constexpr unsigned precision_bits = 5;  ///< 2^5 buckets for each doubling
  static constexpr unsigned range_bits = 40;     ///< from 2^40 ns on: the last bucket
  /// How many buckets there are.
  static constexpr std::size_t buckets = (range_bits - precision_bits + 1) << precision_bits;

  /// Counts `duration` `times` times; a negative one counts as 0.
  constexpr void add(nanoseconds duration, std::uint64_t times = 1) noexcept {
    if (times == 0) return;
    const nanoseconds d = std::max(duration, nanoseconds{0});
    counts_[bucket_of(d)] += times;
    min_ = count_ == 0 ? d : std::min(min_, d);
    max_ = std::max(max_, d);
    total_ += static_cast<double>(d.count()) * static_cast<double>(times);
    count_ += times;
  }

  /// Counts what `other` counted as well.
  constexpr void merge(const histogram& other) noexcept {
    if (other.count_ == 0) return;
    for (std::size_t i = 0; i < buckets; ++i) counts_[i] += other.counts_[i];
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    total_ += other.total_;
    count_ += other.count_;
  }

  /// How many durations were counted.
  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }
  /// Whether none was counted.
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  /// Shortest duration, exact; 0 if empty.
  [[nodiscard]] constexpr nanoseconds min() const noexcept { return min_; }
  /// Longest duration, exact; 0 if empty.
  [[nodiscard]] constexpr nanoseconds max() const noexcept { return max_; }
  /// Of all durations; 0 if empty.
  [[nodiscard]] constexpr nanoseconds mean() const noexcept {
    if (count_ == 0) return nanoseconds{0};
    return nanoseconds{static_cast<std::int64_t>(total_ / static_cast<double>(count_))};
  }

  /// The duration that a share `q` of all does not exceed, between `min()` and `max()`; 0 if empty.
  /// Throws `invalid_argument` unless 0 <= q <= 1.
  [[nodiscard]] constexpr nanoseconds quantile(double q) const {
    if (!(q >= 0 && q <= 1)) {
      throw invalid_argument("histogram::quantile: " + std::to_string(q) +
                             " is not between 0 and 1");
    }
    if (count_ == 0) return nanoseconds{0};
    // Nearest rank, then the place of that rank within its bucket.
    const double rank = std::max(1.0, q * static_cast<double>(count_));
    double below = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
      const auto here = static_cast<double>(counts_[i]);
      if (here > 0 && below + here >= rank) {
        if (i + 1 == buckets) return max_;
        const double low = static_cast<double>(lower_bound(i).count());
        const double width = static_cast<double>(lower_bound(i + 1).count()) - low;
        const double place = low + (width - 1) * (rank - below) / here;
        return std::clamp(nanoseconds{static_cast<std::int64_t>(place)}, min_, max_);
      }
      below += here;
    }
    return max_;
  }

  /// The bucket a duration >= 0 falls into.
  [[nodiscard]] static constexpr std::size_t bucket_of(nanoseconds d) noexcept {
    const auto value = static_cast<std::uint64_t>(d.count());
    if (value >> range_bits != 0) return buckets - 1;
    constexpr std::uint64_t linear = std::uint64_t{1} << precision_bits;
    if (value < linear) return static_cast<std::size_t>(value);
    const auto octave = static_cast<unsigned>(std::bit_width(value)) - precision_bits;  // from 1
    const std::uint64_t within = (value >> (octave - 1)) - linear;
    return static_cast<std::size_t>((std::uint64_t{octave} << precision_bits) + within);
  }
  /// The shortest duration of a bucket.
  [[nodiscard]] static constexpr nanoseconds lower_bound(std::size_t bucket) noexcept {
    constexpr std::size_t linear = std::size_t{1} << precision_bits;
    if (bucket < linear) return nanoseconds{static_cast<std::int64_t>(bucket)};
    const std::size_t octave = bucket >> precision_bits;
    const std::size_t within = bucket & (linear - 1);
    return nanoseconds{static_cast<std::int64_t>((linear + within) << (octave - 1))};
  }
  /// How many durations fell into a bucket.
  [[nodiscard]] constexpr std::uint64_t count_in(std::size_t bucket) const noexcept {
    return counts_[bucket];
  }

  /// Whether the same was counted.
  friend constexpr bool operator==(const histogram&, const histogram&) = default;

 private:
  std::array<std::uint64_t, buckets> counts_{};
  std::uint64_t count_ = 0;
  double total_ = 0;
  nanoseconds min_{0};
  nanoseconds max_{0};
};

/// Why a gated workload that has something ready is not on the device.
enum class wait_cause : std::uint8_t {
  none,       ///< nothing ready, suspended, or on the device
  critical,   ///< the latency-critical side is active
  hold_off,   ///< it was, less than the workload's hold-off ago
  peer,       ///< another gated workload has the device, or is leaving it
  scheduler,  ///< nothing of these: the policy, or the way to the device
  rate_limit  ///< it has used up what `workload_options::limit` allows
};
/// How many causes there are.
inline constexpr std::size_t wait_causes = 6;

/// Time a workload waited, by cause.
struct waits {
  std::array<std::chrono::nanoseconds, wait_causes> time{};     ///< by cause; of `none` always 0
  std::array<std::chrono::nanoseconds, wait_causes> longest{};  ///< the longest wait, by cause
  /// Of the waits, each from ready to on the device.
  std::uint64_t count = 0;

  /// Time waited for this cause.
  [[nodiscard]] std::chrono::nanoseconds of(wait_cause c) const {
    return time[static_cast<std::size_t>(c)];
  }
  /// Time waited, all causes together.
  [[nodiscard]] std::chrono::nanoseconds total() const { return sum(time); }
  /// Length of the longest wait.
  [[nodiscard]] std::chrono::nanoseconds longest_total() const { return sum(longest); }
  /// What most of the time went to.
  [[nodiscard]] wait_cause mostly() const { return largest(time); }
  /// What most of the longest wait went to.
  [[nodiscard]] wait_cause longest_mostly() const { return largest(longest); }

  /// Member by member.
  friend bool operator==(const waits&, const waits&) = default;

 private:
  static std::chrono::nanoseconds sum(
      const std::array<std::chrono::nanoseconds, wait_causes>& times) {
    std::chrono::nanoseconds all{0};
    for (const std::chrono::nanoseconds t : times) all += t;
    return all;
  }
  static wait_cause largest(const std::array<std::chrono::nanoseconds, wait_causes>& times) {
    std::size_t most = 0;
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i] > times[most]) most = i;
    }
    return static_cast<wait_cause>(most);
  }
};

/// One workload since its scheduler began. Of a latency-critical one launches, submissions, tiles
/// and requests are counted and requests timed; what is launched is not followed to its end one by
/// one.
struct workload_stats {
  std::string name;              ///< `workload_options::name`
  priority level = best_effort;  ///< `workload_options::priority`
  std::uint64_t launches = 0;    ///< asked for
  std::uint64_t finished = 0;    ///< of these, done to the last tile; gated workloads only
  std::uint64_t submissions =
      0;                      ///< trips to the device; more than launches where some were resumed
  std::uint64_t yields = 0;   ///< submissions that left before the end
  std::uint64_t resumes = 0;  ///< submissions that went on where an earlier one left
  std::uint64_t tiles = 0;    ///< executed; latency-critical: of its launches
  std::chrono::nanoseconds gpu_time{0};      ///< on the device, as a best estimate
  std::chrono::nanoseconds longest_tile{0};  ///< 0 where it was not measured
  std::chrono::nanoseconds opaque_time{0};   ///< of `gpu_time`, work that cannot be preempted
  cede::waits waits;                         ///< had something ready and was kept out
  histogram turnaround;                      ///< raise to last block out
  /// Made by `request()` and answered, as noticed by a wait through cede or, while gated work is
  /// queued, at once. Launches outside are none.
  std::uint64_t requests = 0;
  histogram service;   ///< request taken up to answered
  histogram response;  ///< request arrived to answered
};

/// A scheduler since it began.
struct scheduler_stats {
  std::string device;        ///< its name
  std::uint64_t raises = 0;  ///< times a gate was raised
  /// Latency-critical work kept the rest out: a request was open or not answered yet (and did not
  /// wait for gated work itself), or, with gated work queued, other such work was seen to run.
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds idle{0};  ///< the rest: what best-effort work may use
  /// Of `idle`: gated work was on the device, as seen by the thread that submits it.
  std::chrono::nanoseconds harvested{0};
  /// Of `idle`: gated work was ready and none was on the device: hold-off, and the way back.
  std::chrono::nanoseconds lost{0};
  /// Latency-critical work found gated work on the device: from its raise until none was there,
  /// as seen by that thread. The longest it can have waited for others.
  histogram cleared;
  /// Of each workload, in the order they were made.
  std::vector<workload_stats> workloads;
  /// Times latency-critical work stood still for its `max_hold` and was passed over.
  std::uint64_t lifts = 0;
};

namespace detail {

/// At most `width` characters of UTF-8, padded on the right; what would break a table becomes '?'.
inline std::string table_name(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) ++end;
    if (characters + 1 == width && end < text.size()) {
      out += '~';  // more follows
      ++characters;
      break;
    }
    const auto first = static_cast<unsigned char>(text[i]);
    const bool control = first < 0x20 || first == 0x7F;
    control ? out += '?' : out += text.substr(i, end - i);
    ++characters;
    i = end;
  }
  out.append(width - std::min(width, characters), ' ');
  return out;
}

inline std::string padded_left(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

/// Three digits and the unit whose factor suits, such as "1.23k".
inline std::string three_digits(double value, const std::array<std::string_view, 5>& units,
                                const std::array<double, 5>& factors) {
  std::size_t u = 0;
  while (u + 1 < units.size() && value >= 999.5 * factors[u]) ++u;
  const double scaled = value / factors[u];
  const int decimals = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  double power = 1;
  for (int i = 0; i < decimals; ++i) power *= 10;
  const auto digits = static_cast<std::uint64_t>(scaled * power + 0.5);
  const auto unit = static_cast<std::uint64_t>(power);
  std::string text = std::to_string(digits / unit);
  if (decimals > 0) {
    std::string fraction = std::to_string(digits % unit);
    fraction.insert(0, static_cast<std::size_t>(decimals) - fraction.size(), '0');
    text += '.' + fraction;
  }
  return text.append(units[u]);
}

/// A count in at most six characters: exact below 100,000.
inline std::string short_count(std::uint64_t n) {
  if (n < 100'000) return std::to_string(n);
  return three_digits(static_cast<double>(n), {"k", "M", "G", "T", "P"},
                      {1e3, 1e6, 1e9, 1e12, 1e15});
}

/// A duration in at most seven characters, such as "12.3us"; "-" for 0.
inline std::string short_time(std::chrono::nanoseconds d) {
  if (d.count() <= 0) return "-";
  if (d.count() < 1000) return std::to_string(d.count()) + "ns";
  return three_digits(static_cast<double>(d.count()), {"us", "ms", "s", "ks", "Ms"},
                      {1e3, 1e6, 1e9, 1e12, 1e15});
}

inline std::string level_name(priority level) {
  if (level == latency_critical) return "critical";
  if (level == best_effort) return "effort";
  std::string text = std::to_string(static_cast<int>(level));
  return text.size() > 8 ? table_name(text, 8) : text;
}

}  // namespace detail

/// Requests answered, of all workloads.
[[nodiscard]] inline std::uint64_t requests(const scheduler_stats& stats) {
  std::uint64_t all = 0;
  for (const workload_stats& w : stats.workloads) all += w.requests;
  return all;
}

/// A table for a terminal of 80 columns: the device, a line of counts and a line of times for each
/// workload. Every line ends with a newline. Thread-safe; never waits.
[[nodiscard]] inline std::string to_text(const scheduler_stats& stats) {
  using detail::padded_left;
  using detail::short_count;
  using detail::short_time;
  constexpr std::size_t name_width = 17;
  constexpr std::size_t cell_width = 8;  // seven of them, each after a blank: 80 columns

  auto row = [](std::string head, const std::array<std::string, 7>& cells) {
    for (const std::string& cell : cells) head += ' ' + padded_left(cell, cell_width);
    while (!head.empty() && head.back() == ' ') head.pop_back();
    return head + '\n';
  };
  auto name = [&](std::string_view text) { return detail::table_name(text, name_width); };

  std::string text = "device " + detail::table_name(stats.device, 60);
  while (text.back() == ' ') text.pop_back();
  text += "\nbusy " + short_time(stats.busy) + ", idle " + short_time(stats.idle) + ", raises " +
          short_count(stats.raises) + "\nharvested " + short_time(stats.harvested) + ", lost " +
          short_time(stats.lost);
  if (const std::uint64_t n = requests(stats); n != 0) {
    text += ", per request " + short_time(stats.lost / static_cast<std::int64_t>(n));
  }
  if (stats.cleared.count() != 0) {
    text += "\ncleared within " + short_time(stats.cleared.quantile(0.5)) + ", P99 " +
            short_time(stats.cleared.quantile(0.99));
  }
  text += "\n\n";

  text += row(name("workload"), {"level", "launch", "done", "submit", "yield", "resume", "tiles"});
  for (const workload_stats& w : stats.workloads) {
    const auto gated = [&](std::uint64_t n) {
      return w.level == latency_critical ? std::string("-") : short_count(n);
    };
    text += row(name(w.name), {detail::level_name(w.level), short_count(w.launches),
                               gated(w.finished), short_count(w.submissions), gated(w.yields),
                               gated(w.resumes), short_count(w.tiles)});
  }

  text += '\n' +
          row(name("time"), {"gpu", "opaque", "waiting", "tile", "leave50", "leave99", "leavemax"});
  for (const workload_stats& w : stats.workloads) {
    text += row(name(w.name),
                {short_time(w.gpu_time), short_time(w.opaque_time), short_time(w.waits.total()),
                 short_time(w.longest_tile), short_time(w.turnaround.quantile(0.5)),
                 short_time(w.turnaround.quantile(0.99)), short_time(w.turnaround.max())});
  }

  const bool served = std::any_of(stats.workloads.begin(), stats.workloads.end(),
                                  [](const workload_stats& w) { return w.requests != 0; });
  if (!served) return text;
  text += '\n' +
          row(name("requests"), {"count", "serve50", "serve99", "max", "resp50", "resp99", "max"});
  for (const workload_stats& w : stats.workloads) {
    if (w.requests == 0) continue;
    text +=
        row(name(w.name), {short_count(w.requests), short_time(w.service.quantile(0.5)),
                           short_time(w.service.quantile(0.99)), short_time(w.service.max()),
                           short_time(w.response.quantile(0.5)),
                           short_time(w.response.quantile(0.99)), short_time(w.response.max())});
  }
  return text;
}

CEDE_END_NAMESPACE
