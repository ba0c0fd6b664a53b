// SPDX-License-Identifier: Apache-2.0
// Looks through PTX for what ported kernels must not do (docs/porting.md), as a test of one's own
// build: exit status 0 if nothing leaks, 1 if something does, 2 if it cannot tell.
//
//     port_check kernels.ptx ...
//     port_check kernels.cu -- nvcc -std=c++20 -Iinclude -arch=sm_90
//
// A source file may say what is known of it: for every line
//     // port-check: expect REGEX
// a leak that matches must be there, and is no failure.
#include <cede/port/check.hpp>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A folder that goes away with the object.
class scratch {
 public:
  scratch() : path_((std::filesystem::temp_directory_path() / "port_check.XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make " + path_);
  }
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  ~scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

int run(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ) != 0) {
    throw std::runtime_error("cannot run " + command[0]);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("lost " + command[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

/// The PTX of a source file. nvcc leaves it behind even where it does not assemble, as with a
/// function that was not inlined, which is for the check to explain.
std::string compile(const std::string& source, std::vector<std::string> command) {
  const scratch folder;
  const std::string ptx = folder.file("code.ptx");
  command.insert(command.end(), {"-ptx", "-o", ptx, source});
  const int status = run(command);
  if (!std::filesystem::exists(ptx)) {
    throw std::runtime_error(command[0] + " ended with exit status " + std::to_string(status) +
                             " and wrote no PTX for " + source);
  }
  return read(ptx);
}

std::vector<std::string> expectations(const std::string& text) {
  static const std::regex line("// port-check: expect (.+)");
  std::vector<std::string> all;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at) {
    all.push_back((*at)[1]);
  }
  return all;
}

/// Prints what is wrong with one file; returns how much.
int check(const std::string& path, const std::vector<std::string>& compiler) {
  const bool source = !std::string_view(path).ends_with(".ptx");
  if (source && compiler.empty()) {
    throw std::runtime_error(path + " is no .ptx file; give the compiler behind --");
  }
  std::vector<std::string> expected;
  if (source) expected = expectations(read(path));
  int wrong = 0;
  for (const auto& leak : cede::port::check(source ? compile(path, compiler) : read(path))) {
    const std::string text = leak.text();
    const auto known = std::find_if(
        expected.begin(), expected.end(),
        [&](const std::string& pattern) { return std::regex_search(text, std::regex(pattern)); });
    std::printf("%s: %s%s\n", path.c_str(),
                known == expected.end() ? "" : "expected: ", text.c_str());
    if (known == expected.end()) {
      ++wrong;
    } else {
      expected.erase(known);
    }
  }
  for (const std::string& pattern : expected) {
    std::printf("%s: nothing leaks that matches: %s\n", path.c_str(), pattern.c_str());
    ++wrong;
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> files(argv + 1, argv + argc);
    const auto dashes = std::find(files.begin(), files.end(), "--");
    const std::vector<std::string> compiler(dashes == files.end() ? dashes : dashes + 1,
                                            files.end());
    files.erase(dashes, files.end());
    if (files.empty() || files[0] == "--help") {
      std::puts("usage: port_check FILE.ptx... | port_check FILE.cu... -- nvcc ARGUMENTS...");
      return files.empty() ? 2 : 0;
    }
    int wrong = 0;
    for (const std::string& file : files) wrong += check(file, compiler);
    return wrong == 0 ? 0 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "port_check: %s\n", e.what());
    return 2;
  }
}
