// SPDX-License-Identifier: Apache-2.0
// Points in time as traces write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace colocate {

/// A point in time in units of 100 ns: `YYYY-MM-DD hh:mm:ss[.fffffff]` (UTC where no zone is given)
/// or a plain number of seconds, each with at most 7 digits behind the point. Empty for anything
/// else.
std::optional<std::int64_t> parse_timestamp(std::string_view text);

}  // namespace colocate
