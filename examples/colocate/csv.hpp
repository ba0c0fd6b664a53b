// SPDX-License-Identifier: Apache-2.0
// Splits CSV text (RFC 4180) into records.
#pragma once

#include <cstddef>
#include <istream>
#include <string>
#include <vector>

namespace colocate {

/// Reads one record after another. Throws `input_error`, naming the file and the line, for text
/// that is not CSV: control characters, a quote that never closes, text behind a closing quote.
class csv_reader {
 public:
  csv_reader(std::istream& in, std::string name) : in_(in), name_(std::move(name)) {}

  /// The next record that is not an empty line; false at the end of the file.
  bool next(std::vector<std::string>& fields);

  /// The line on which the last record began, from 1.
  [[nodiscard]] std::size_t line() const { return first_line_; }

  /// Throws `input_error` for the last record.
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  bool read_line(std::string& text);
  void split(std::string& text, std::vector<std::string>& fields);

  std::istream& in_;
  std::string name_;
  std::size_t lines_read_ = 0;
  std::size_t first_line_ = 0;
};

}  // namespace colocate
