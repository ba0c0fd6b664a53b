// SPDX-License-Identifier: Apache-2.0
// What the user can put right: bad options, unreadable files, a device that is not there.
#pragma once

#include <stdexcept>
#include <string>

namespace colocate {

/// One sentence for the user; the program ends with status 2 and leaves no output behind.
class input_error : public std::runtime_error {
 public:
  explicit input_error(const std::string& sentence) : std::runtime_error(sentence) {}
};

/// A name as it appears in a sentence: quoted, shortened, and without control characters.
inline std::string shown(const std::string& text) {
  constexpr std::size_t longest = 60;
  std::string out = "'";
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? '?' : c;
  }
  return out + (text.size() > longest ? "...'" : "'");
}

}  // namespace colocate
