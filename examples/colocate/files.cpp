// SPDX-License-Identifier: Apache-2.0
#include "files.hpp"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include "input_error.hpp"

namespace colocate {
namespace {

namespace fs = std::filesystem;

std::string reason(int code) { return std::generic_category().message(code); }

// A pipe or a device such as /dev/null: written to directly, never replaced.
bool is_special(const std::string& path) {
  std::error_code ignored;
  const auto status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

// On the same file system as `path`, so that renaming replaces it in one step.
std::string beside(const std::string& path) {
  return path + ".partial-" + std::to_string(::getpid());
}

// Removes the file on the way out unless it was moved away.
struct partial_file {
  std::string path;
  ~partial_file() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

void open_to_write(std::ofstream& out, const std::string& path, const std::string& name) {
  errno = 0;
  out.open(path, std::ios::binary | std::ios::app);
  if (!out)
    throw input_error("The output " + shown(name) + " cannot be written: " + reason(errno) + ".");
}

}  // namespace

std::ifstream open_input(const std::string& path, const std::string& what) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw input_error("The " + what + " " + shown(path) + " is a folder, not a file.");
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    throw input_error("The " + what + " " + shown(path) + " cannot be read: " + reason(errno) +
                      ".");
  }
  return in;
}

void check_output(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw input_error("The output " + shown(path) + " is a folder, not a file.");
  }
  std::ofstream out;
  if (fs::exists(path, ignored)) open_to_write(out, path, path);
  if (is_special(path)) return;
  const partial_file probe{beside(path)};
  std::ofstream neighbour;
  open_to_write(neighbour, probe.path, path);
}

void write_output(const std::string& path, const std::function<void(const std::string&)>& fill) {
  if (is_special(path)) {
    fill(path);
    return;
  }
  const partial_file partial{beside(path)};
  fill(partial.path);
  std::error_code failed;
  fs::rename(partial.path, path, failed);
  if (failed) {
    throw input_error("The output " + shown(path) + " cannot be written: " + failed.message() +
                      ".");
  }
}

void write_output_text(const std::string& path, const std::string& text) {
  write_output(path, [&](const std::string& target) {
    std::ofstream out;
    open_to_write(out, target, path);
    out << text << std::flush;
    if (!out) throw input_error("The output " + shown(path) + " cannot be written to its end.");
  });
}

void check_printed(const std::string& what) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw input_error(what + " could not be written to standard output.");
}

}  // namespace colocate
