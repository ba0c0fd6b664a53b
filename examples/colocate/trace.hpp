// SPDX-License-Identifier: Apache-2.0
// Reads arrivals from a CSV file.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

namespace colocate {

/// The arrivals of a file, in its order.
struct trace {
  std::vector<std::int64_t> ticks;  ///< since the first arrival, in units of 100 ns; never falling
  std::vector<std::uint32_t> tokens;  ///< context tokens of each arrival; empty without that column
};

inline constexpr double seconds_per_tick = 1e-7;

/// Reads CSV with a header (RFC 4180: quoted fields, CRLF or LF). The column of timestamps is found
/// by name: timestamp, arrival, arrival_time, arrived or time; that of tokens: ContextTokens or
/// context_tokens; in any case. A timestamp is `YYYY-MM-DD hh:mm:ss[.fffffff]` (`T` between and a
/// zone `Z` or `+hh:mm` behind are allowed) or a plain number of seconds, with at most 7 digits
/// behind the point. Throws `input_error`, naming `name` and the line, for anything else, for times
/// that fall, and for files with less than two different arrival times.
trace read_trace(std::istream& in, const std::string& name);

/// The same from a file that is opened here.
trace read_trace(const std::string& path);

}  // namespace colocate
