// SPDX-License-Identifier: Apache-2.0
#include "csv.hpp"

#include <string_view>

#include "input_error.hpp"

namespace colocate {
namespace {

constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
// Far beyond any trace; a binary file without line ends is not read whole.
constexpr std::size_t longest_line = 65536;

}  // namespace

void csv_reader::refuse(const std::string& why) const {
  throw input_error(shown(name_) + ", line " + std::to_string(first_line_) + ": " + why + ".");
}

bool csv_reader::read_line(std::string& text) {
  text.clear();
  for (int c = in_.get(); c != std::istream::traits_type::eof(); c = in_.get()) {
    if (c == '\n') break;
    if (c != '\t' && c != '\r' && (c < 0x20 || c == 0x7f)) {
      first_line_ = lines_read_ + 1;
      refuse("there is a control character, this is not a text file");
    }
    if (text.size() == longest_line) {
      first_line_ = lines_read_ + 1;
      refuse("the line is too long, this is not a CSV file");
    }
    text += static_cast<char>(c);
  }
  if (text.empty() && in_.eof()) return false;
  if (lines_read_ == 0 && text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  ++lines_read_;
  if (!text.empty() && text.back() == '\r') text.pop_back();
  return true;
}

bool csv_reader::next(std::vector<std::string>& fields) {
  std::string text;
  do {
    if (!read_line(text)) return false;
  } while (text.empty());
  first_line_ = lines_read_;
  split(text, fields);
  return true;
}

void csv_reader::split(std::string& text, std::vector<std::string>& fields) {
  fields.assign(1, {});
  bool inside = false;  // between quotes
  bool closed = false;  // behind a closing quote
  for (std::size_t i = 0;; ++i) {
    if (i == text.size()) {
      if (!inside) return;
      fields.back() += '\n';  // a quoted field may hold line ends
      if (!read_line(text)) refuse("a quote is opened and never closed");
      i = static_cast<std::size_t>(-1);
      continue;
    }
    const char c = text[i];
    if (inside) {
      if (c != '"') {
        fields.back() += c;
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        fields.back() += '"';
        ++i;
      } else {
        inside = false;
        closed = true;
      }
    } else if (c == ',') {
      fields.emplace_back();
      closed = false;
    } else if (closed) {
      refuse("there is text behind a closing quote");
    } else if (c == '"' && fields.back().empty()) {
      inside = true;
    } else {
      fields.back() += c;
    }
  }
}

}  // namespace colocate
