// SPDX-License-Identifier: Apache-2.0
// The results as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "results.hpp"

namespace colocate {

/// A table of at most 100 columns, and what its columns mean.
std::string table(const results& r);

/// The record. What is not a finite number is written as null.
std::string json(const results& r);

}  // namespace colocate
