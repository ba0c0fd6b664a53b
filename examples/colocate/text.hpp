// SPDX-License-Identifier: Apache-2.0
// The text to train on, as symbols of a small alphabet.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace colocate {

/// Symbols below `alphabet`: the most frequent bytes have one each, all others share the last.
std::vector<std::uint8_t> to_symbols(std::string_view text, std::uint32_t alphabet);

/// Reads a text; an empty `path` means the one that comes with the example, which is looked for
/// where the program was built and in the folders above the program and above the current one.
/// Throws `input_error` where there is none, or where it is shorter than 1,000 or longer than 2^30
/// bytes.
std::string read_text(const std::string& path);

}  // namespace colocate
