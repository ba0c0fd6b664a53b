// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <optional>
#include <system_error>

#include "files.hpp"
#include "input_error.hpp"

namespace colocate {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t shortest_text = 1000;
constexpr std::size_t longest_text = std::size_t{1} << 30U;
constexpr const char* own_text = "examples/colocate/data/harbour.txt";

std::optional<std::string> above(fs::path folder) {
  for (std::error_code ignored;; folder = folder.parent_path()) {
    if (fs::is_regular_file(folder / own_text, ignored)) return (folder / own_text).string();
    if (folder == folder.parent_path()) return std::nullopt;
  }
}

// Where the program was built from a copy of the sources that is still there, or runs within one.
std::string find_own_text() {
  std::error_code ignored;
#ifdef CEDE_EXAMPLE_DIR
  const fs::path built_from = fs::path(CEDE_EXAMPLE_DIR) / "data" / "harbour.txt";
  if (fs::is_regular_file(built_from, ignored)) return built_from.string();
#endif
  auto found = above(fs::read_symlink("/proc/self/exe", ignored).parent_path());
  if (!found) found = above(fs::current_path(ignored));
  if (!found) {
    throw input_error(
        "The example's own text was not found above the program or the current "
        "folder; name a text with --text FILE.");
  }
  return *found;
}

}  // namespace

std::vector<std::uint8_t> to_symbols(std::string_view text, std::uint32_t alphabet) {
  constexpr std::size_t bytes = 256;
  std::array<std::size_t, bytes> count{};
  for (const char c : text) ++count[static_cast<unsigned char>(c)];
  std::array<std::size_t, bytes> by_count{};
  std::iota(by_count.begin(), by_count.end(), std::size_t{0});
  std::stable_sort(by_count.begin(), by_count.end(),
                   [&](std::size_t a, std::size_t b) { return count[a] > count[b]; });
  std::array<std::uint8_t, bytes> symbol{};
  for (std::size_t rank = 0; rank < bytes; ++rank) {
    symbol[by_count[rank]] = static_cast<std::uint8_t>(std::min<std::size_t>(rank, alphabet - 1));
  }
  std::vector<std::uint8_t> out(text.size());
  std::transform(text.begin(), text.end(), out.begin(),
                 [&](char c) { return symbol[static_cast<unsigned char>(c)]; });
  return out;
}

std::string read_text(const std::string& path) {
  const std::string name = path.empty() ? find_own_text() : path;
  std::ifstream in = open_input(name, "text");
  std::string text;
  for (char c; text.size() <= longest_text && in.get(c);) text += c;
  if (text.size() < shortest_text || text.size() > longest_text) {
    throw input_error("The text " + shown(name) + " is too " +
                      (text.size() < shortest_text ? "short" : "long") +
                      " to train on; it needs 1,000 to 2^30 bytes.");
  }
  return text;
}

}  // namespace colocate
