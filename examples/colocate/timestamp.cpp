// SPDX-License-Identifier: Apache-2.0
#include "timestamp.hpp"

#include <chrono>
#include <cstddef>

namespace colocate {
namespace {

constexpr std::int64_t ticks_per_second = 10'000'000;
constexpr std::size_t fraction_digits = 7;
// Seconds that still fit after scaling; more is no point in time.
constexpr std::int64_t most_seconds = 400'000'000'000;

// Reads from the front of a text; every step says whether it succeeded.
class cursor {
 public:
  explicit cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }

  bool skip(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  // Exactly `digits` digits.
  bool number(std::size_t digits, int& value) {
    if (rest_.size() < digits) return false;
    value = 0;
    for (std::size_t i = 0; i < digits; ++i) {
      if (!is_digit(rest_[i])) return false;
      value = value * 10 + (rest_[i] - '0');
    }
    rest_.remove_prefix(digits);
    return true;
  }

  // One or more digits, up to `most`.
  bool number_up_to(std::int64_t most, std::int64_t& value) {
    value = 0;
    bool any = false;
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1), any = true) {
      value = value * 10 + (rest_.front() - '0');
      if (value > most) return false;
    }
    return any;
  }

  // Nothing, or a point and 1 to 7 digits.
  bool fraction(std::int64_t& ticks) {
    ticks = 0;
    if (!skip('.')) return true;
    std::size_t digits = 0;
    for (; !rest_.empty() && is_digit(rest_.front()); rest_.remove_prefix(1), ++digits) {
      if (digits == fraction_digits) return false;
      ticks = ticks * 10 + (rest_.front() - '0');
    }
    for (std::size_t i = digits; i < fraction_digits; ++i) ticks *= 10;
    return digits > 0;
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  std::string_view rest_;
};

std::optional<std::int64_t> parse_seconds(std::string_view text) {
  cursor at(text);
  std::int64_t seconds = 0;
  std::int64_t fraction = 0;
  if (!at.number_up_to(most_seconds, seconds) || !at.fraction(fraction) || !at.at_end()) return {};
  return seconds * ticks_per_second + fraction;
}

// Nothing, `Z`, or `+hh:mm` / `-hh:mm`: how far local time is ahead, in seconds.
bool parse_zone(cursor& at, std::int64_t& ahead) {
  ahead = 0;
  if (at.at_end() || at.skip('Z')) return true;
  const bool minus = at.skip('-');
  int hours = 0;
  int minutes = 0;
  if (!minus && !at.skip('+')) return false;
  if (!at.number(2, hours) || !at.skip(':') || !at.number(2, minutes)) return false;
  if (hours > 14 || minutes > 59) return false;
  ahead = (minus ? -1 : 1) * (hours * 3600 + minutes * 60);
  return true;
}

std::optional<std::int64_t> parse_date_and_time(std::string_view text) {
  cursor at(text);
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  std::int64_t fraction = 0;
  std::int64_t ahead = 0;
  if (!at.number(4, year) || !at.skip('-') || !at.number(2, month) || !at.skip('-') ||
      !at.number(2, day) || !(at.skip(' ') || at.skip('T')) || !at.number(2, hour) ||
      !at.skip(':') || !at.number(2, minute) || !at.skip(':') || !at.number(2, second) ||
      !at.fraction(fraction) || !parse_zone(at, ahead) || !at.at_end()) {
    return {};
  }
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return {};
  const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
  const std::int64_t seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - ahead;
  return seconds * ticks_per_second + fraction;
}

}  // namespace

std::optional<std::int64_t> parse_timestamp(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  text = text.substr(first, text.find_last_not_of(" \t") - first + 1);
  if (const auto seconds = parse_seconds(text)) return seconds;
  return parse_date_and_time(text);
}

}  // namespace colocate
