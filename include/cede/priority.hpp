// SPDX-License-Identifier: Apache-2.0
// Levels of workloads.
#pragma once

#include <cede/config.hpp>

CEDE_BEGIN_NAMESPACE

/// Priority of a workload: larger goes first. Any number between the two named ones is a level of
/// its own.
enum class priority : int {};
inline constexpr priority best_effort{0};
inline constexpr priority latency_critical{1000};

CEDE_END_NAMESPACE
