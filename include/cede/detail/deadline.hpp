// SPDX-License-Identifier: Apache-2.0
// The clock of all waits on the host, and how far from now it can tell.
#pragma once

#include <cede/config.hpp>

#include <chrono>

CEDE_BEGIN_NAMESPACE

namespace detail {

using clock = std::chrono::steady_clock;

/// `limit` from now, or the end of time where that is farther than the clock can tell.
inline clock::time_point deadline_after(std::chrono::nanoseconds limit) {
  const auto now = clock::now();
  return limit < clock::time_point::max() - now ? now + limit : clock::time_point::max();
}

}  // namespace detail

CEDE_END_NAMESPACE
