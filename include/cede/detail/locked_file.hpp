// SPDX-License-Identifier: Apache-2.0
// A small file that several processes read and replace: readers see the old text or the new one,
// never a part; who replaces it has seen what the last one wrote.
#pragma once

#include <cede/config.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What went wrong with a file, in words; empty if nothing did.
using file_problem = std::string;

inline std::string last_system_error() {
  return std::error_code(errno, std::generic_category()).message();
}

/// A file descriptor that is closed at the end.
class open_file {
 public:
  open_file(const std::string& path, int flags)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {}  // NOLINT: varargs
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  ~open_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] bool good() const { return descriptor_ >= 0; }
  [[nodiscard]] int get() const { return descriptor_; }

 private:
  int descriptor_;
};

/// The text of a regular file; none if there is none, or with `problem` if it cannot be read or is
/// larger than `most` bytes. Does not wait for locks.
inline std::optional<std::string> read_file(const std::string& path, std::size_t most,
                                            file_problem& problem) {
  // Not blocking: opening a pipe would wait for its writer.
  const open_file file(path, O_RDONLY | O_NONBLOCK);
  if (!file.good()) {
    if (errno != ENOENT) problem = last_system_error();
    return std::nullopt;
  }
  struct stat what{};
  if (::fstat(file.get(), &what) != 0 || !S_ISREG(what.st_mode)) {
    problem = "it is no regular file";
    return std::nullopt;
  }
  std::string text;
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(file.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      problem = last_system_error();
      return std::nullopt;
    }
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > most) {
      problem = "it is larger than " + std::to_string(most) + " bytes";
      return std::nullopt;
    }
  }
}

/// Writes `text` beside the file and puts it in the file's place.
inline file_problem write_file(const std::string& path, std::string_view text) {
  static std::atomic<unsigned> number{0};
  const std::string beside =
      path + ".new." + std::to_string(::getpid()) + '.' + std::to_string(number.fetch_add(1));
  file_problem problem;
  {
    const open_file file(beside, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file.good()) return last_system_error();
    while (!text.empty() && problem.empty()) {
      const ssize_t n = ::write(file.get(), text.data(), text.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) {
        problem = last_system_error();
      } else {
        text.remove_prefix(static_cast<std::size_t>(n));
      }
    }
    // Else a crash of the machine might leave the new name with nothing in it.
    if (problem.empty() && ::fsync(file.get()) != 0) problem = last_system_error();
  }
  if (problem.empty() && ::rename(beside.c_str(), path.c_str()) != 0) problem = last_system_error();
  if (!problem.empty()) ::unlink(beside.c_str());
  return problem;
}

/// Replaces a file by what `change` makes of its text (none if there is no file; if it returns
/// none, nothing is written), while no other such call does. Waits up to `patience` for others.
template <class Change>
file_problem change_file(const std::string& path, std::size_t most,
                         std::chrono::milliseconds patience, Change&& change) {
  // A file of its own: the other one is replaced, and a lock would stay with the old one.
  const open_file lock(path + ".lock", O_RDWR | O_CREAT);
  if (!lock.good()) return last_system_error();
  const auto until = std::chrono::steady_clock::now() + patience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return last_system_error();
    if (std::chrono::steady_clock::now() >= until) {
      return "another process holds " + path + ".lock";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  file_problem problem;
  const std::optional<std::string> before = read_file(path, most, problem);
  if (!problem.empty()) return problem;
  const std::optional<std::string> after = std::forward<Change>(change)(before);
  if (!after) return {};
  return write_file(path, *after);
}

}  // namespace detail

CEDE_END_NAMESPACE
