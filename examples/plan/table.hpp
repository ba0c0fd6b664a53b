// SPDX-License-Identifier: Apache-2.0
// Columns of numbers from a CSV file.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

namespace plan {

/// Some columns of a file, in the order they were asked for.
struct table {
  std::vector<std::vector<double>> columns;
  [[nodiscard]] std::size_t rows() const { return columns.empty() ? 0 : columns[0].size(); }
};

/// Reads the columns `names` of CSV with a header (RFC 4180). Throws `input_error`, naming the
/// file, the line and the column, for one that is missing or there twice, for fields that are no
/// finite numbers, for records of another length than the header, and for files without a record.
table read_table(std::istream& in, const std::string& file, const std::vector<std::string>& names);

/// The same from a file that is opened here.
table read_table(const std::string& path, const std::vector<std::string>& names);

}  // namespace plan
