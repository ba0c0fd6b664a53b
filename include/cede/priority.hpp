// SPDX-License-Identifier: Apache-2.0
// Levels of workloads.
#pragma once

#include <cede/config.hpp>

CEDE_BEGIN_NAMESPACE

/// Priority of a workload: larger goes first. Any number between the two named ones is a level of
/// its own.
enum class priority : int {};
inline constexpr priority best_effort{0};          ///< the lowest level: gives way to all others
inline constexpr priority latency_critical{1000};  ///< starts at once; all others give way

CEDE_END_NAMESPACE
