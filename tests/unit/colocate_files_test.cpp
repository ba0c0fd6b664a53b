// SPDX-License-Identifier: Apache-2.0
// Outputs that appear whole or not at all, and texts to train on.
#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "support/folder.hpp"
#include "support/skip.hpp"

#include "../examples/colocate/files.cpp"
#include "../examples/colocate/text.cpp"

using namespace colocate;
using cede_test::folder;
namespace fs = std::filesystem;

namespace {

template <class F>
std::string refusal(F&& f) {
  try {
    f();
    return {};
  } catch (const input_error& e) {
    return e.what();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("colocate files: checking an output leaves nothing behind and changes nothing") {
  const folder f;
  check_output(f / "new.json");
  CHECK(f.count() == 0);
  f.write("old.json", "kept");
  check_output(f / "old.json");
  CHECK(f.read("old.json") == "kept");
  CHECK(f.count() == 1);
}

TEST_CASE("colocate files: an output that cannot be written is refused") {
  const folder f;
  CHECK(has(refusal([&] { check_output(f / "no/such/out.json"); }),
            "cannot be written: No such file"));
  CHECK(has(refusal([&] { check_output(f.path().string()); }), "is a folder"));
  CHECK(f.count() == 0);
  if (::geteuid() != 0) {
    fs::permissions(f.path(), fs::perms::owner_read | fs::perms::owner_exec);
    CHECK(has(refusal([&] { check_output(f / "out.json"); }), "Permission denied"));
  }
}

TEST_CASE("colocate files: an output is replaced in one step") {
  const folder f;
  f.write("out.json", "old");
  write_output_text(f / "out.json", "new\n");
  CHECK(f.read("out.json") == "new\n");
  CHECK(f.count() == 1);
}

TEST_CASE("colocate files: where writing fails, the old file stays and no other appears") {
  const folder f;
  f.write("out.json", "old");
  CHECK_THROWS_AS(write_output(f / "out.json",
                               [](const std::string& to) {
                                 std::ofstream(to) << "half";
                                 throw std::runtime_error("interrupted");
                               }),
                  std::runtime_error);
  CHECK(f.read("out.json") == "old");
  CHECK(f.count() == 1);
  CHECK(has(refusal([&] { write_output_text(f / "gone/out.json", "x"); }), "cannot be written"));
}

TEST_CASE("colocate files: devices are written to, not replaced") {
  check_output("/dev/null");
  write_output_text("/dev/null", "text");
  struct stat s{};
  REQUIRE(::stat("/dev/null", &s) == 0);
  CHECK(S_ISCHR(s.st_mode));
}

TEST_CASE("colocate files: an input that cannot be read is refused") {
  const folder f;
  CHECK(has(refusal([&] { open_input(f / "none.csv", "trace"); }), "The trace '"));
  CHECK(has(refusal([&] { open_input(f.path().string(), "text"); }), "is a folder, not a file"));
}

TEST_CASE("colocate text: frequent bytes have symbols of their own, rare ones share the last") {
  const auto symbols = to_symbols("aaabbc~", 3);
  CHECK(symbols == std::vector<std::uint8_t>{0, 0, 0, 1, 1, 2, 2});
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  const auto all = to_symbols(every, 64);
  CHECK(*std::max_element(all.begin(), all.end()) == 63);
  CHECK(std::count(all.begin(), all.end(), 63) == 256 - 63);
}

TEST_CASE("colocate text: lengths are checked") {
  const folder f;
  f.write("short.txt", std::string(999, 'x'));
  CHECK(has(refusal([&] { read_text(f / "short.txt"); }), "too short"));
  f.write("enough.txt", std::string(1000, 'x'));
  CHECK(read_text(f / "enough.txt").size() == 1000);
  CHECK(has(refusal([&] { read_text(f / "none.txt"); }), "cannot be read"));
}

TEST_CASE("colocate text: the example's own text is found, and large enough") {
  const std::string text =
      read_text(fs::path(CEDE_SOURCE_ROOT) / "examples/colocate/data/harbour.txt");
  CHECK(text.size() >= 100'000);
  // All of its bytes have a symbol of their own.
  const auto symbols = to_symbols(text, 64);
  CHECK(std::count(symbols.begin(), symbols.end(), 63) == 0);
}
