// SPDX-License-Identifier: Apache-2.0
// What the tool says of a fit: a table for people, JSON for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "regression.hpp"

namespace plan {

struct fitted {
  std::string model;
  std::vector<std::string> features;
  line found;
  quality train;
  std::optional<quality> test;
};

std::string table_of(const fitted& f);

/// {"model", "train": {"rows", …}, "test": {"rows", "r2", "mae", "mape", "p95"} or null,
/// "coefficients": {"intercept", by feature}, "mean": {…}, "deviation": {…}}. What is not defined
/// is null.
std::string json_of(const fitted& f);

}  // namespace plan
