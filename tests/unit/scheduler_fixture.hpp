// SPDX-License-Identifier: Apache-2.0
// What the tests of the scheduler share: bodies that leave traces, and ways to look at them.
#pragma once

#include <cede/cede.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

namespace cede_test {

using namespace std::chrono_literals;

/// For whatever must happen sooner or later: a loaded machine under a sanitizer is slow.
inline constexpr std::chrono::seconds patience{60};

inline cede::workload_options critical(std::string name = "serve") {
  return {.name = std::move(name), .priority = cede::latency_critical};
}
inline cede::workload_options effort(std::string name = "train") {
  return {.name = std::move(name), .priority = cede::best_effort};
}

/// Waits until `done()`; false if it does not become true in time.
template <class Done>
bool eventually(Done done, std::chrono::nanoseconds limit = patience) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(50us);
  }
  return true;
}

/// Counts how often each tile ran.
struct count_runs {
  int* runs;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) b.atomic_add(&runs[b.index().x], 1);
  }
};

/// The same, after some work.
struct busy_runs {
  int* runs;
  unsigned rounds;
  CEDE_BODY void operator()(cede::block b) const {
    volatile unsigned x = b.index().x;
    for (unsigned i = 0; i < rounds; ++i) x = x * 1664525U + 1013904223U;
    b.atomic_add(&runs[b.index().x], 1);
  }
};

/// Turns `from` into `from + 1` in every tile and counts the tiles that found something else: shows
/// launches out of order, tiles run twice and tiles left out.
struct step_up {
  int* values;
  int from;
  int* wrong;
  CEDE_BODY void operator()(cede::block b) const {
    int& v = values[b.index().x];
    if (v != from) b.atomic_add(wrong, 1);
    v = from + 1;
  }
};

/// Notes marks in the order in which they come.
class marks {
 public:
  explicit marks(std::size_t room = 4096) : list_(room) {}
  struct body {
    std::atomic<std::size_t>* length;
    int* list;
    int mark;
    void operator()(cede::block) const { list[length->fetch_add(1)] = mark; }
  };
  [[nodiscard]] body operator()(int mark) { return {&length_, list_.data(), mark}; }
  void note(int mark) { list_[length_.fetch_add(1)] = mark; }
  [[nodiscard]] std::vector<int> all() const {
    return {list_.begin(), list_.begin() + static_cast<std::ptrdiff_t>(length_.load())};
  }
  [[nodiscard]] std::size_t size() const { return length_.load(); }

 private:
  std::vector<int> list_;
  std::atomic<std::size_t> length_{0};
};

/// A door that tiles wait in front of: a launch that runs exactly as long as a test wants.
class door {
 public:
  struct body {
    std::atomic<int>* waiting;
    std::atomic<bool>* open;
    void operator()(cede::block) const {
      waiting->fetch_add(1);
      while (!open->load()) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  };
  ~door() { open(); }
  [[nodiscard]] body tile() { return {&waiting_, &open_}; }
  void open() { open_ = true; }
  [[nodiscard]] int waiting() const { return waiting_.load(); }
  /// Waits until `n` tiles have come.
  bool reached(int n = 1) const {
    return eventually([&] { return waiting() >= n; });
  }

 private:
  std::atomic<int> waiting_{0};
  std::atomic<bool> open_{false};
};

inline std::vector<int> ones(std::size_t n) { return std::vector<int>(n, 1); }

/// Statistics of the workload of this name.
inline cede::workload_stats stats_of(const cede::scheduler& s, const std::string& name) {
  for (const auto& w : s.stats().workloads) {
    if (w.name == name) return w;
  }
  throw std::runtime_error("no workload " + name);
}

/// What the program writes to stderr while in scope.
class captured_stderr {
 public:
  captured_stderr() : file_(std::tmpfile()) {
    std::fflush(stderr);
    kept_ = ::dup(STDERR_FILENO);
    ::dup2(::fileno(file_), STDERR_FILENO);
  }
  captured_stderr(const captured_stderr&) = delete;
  captured_stderr& operator=(const captured_stderr&) = delete;
  ~captured_stderr() {
    std::fflush(stderr);
    ::dup2(kept_, STDERR_FILENO);
    ::close(kept_);
    std::fclose(file_);
  }
  [[nodiscard]] std::string text() const {
    std::fflush(stderr);
    std::string all;
    char buffer[4096];
    const int file = ::fileno(file_);
    for (off_t at = 0;;) {
      const ssize_t n = ::pread(file, buffer, sizeof buffer, at);
      if (n <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(n));
      at += n;
    }
  }
  [[nodiscard]] bool says(const std::string& words) const {
    return text().find(words) != std::string::npos;
  }

 private:
  std::FILE* file_;
  int kept_ = -1;
};

/// The message of what `call` throws; empty if it throws nothing of the kind.
template <class Error = cede::error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}
inline bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

/// Opens a request of a workload, launches once and ends it, again and again until destroyed.
class steady_requests {
 public:
  steady_requests(cede::workload work, std::chrono::microseconds gap, unsigned launches = 1)
      : thread_([this, work, gap, launches]() mutable {
          cede::stream s = work.stream();
          while (!stop_.load()) {
            {
              auto request = work.request();
              for (unsigned i = 0; i < launches; ++i) s.launch({.grid = 2}, bump{&tiles_});
            }
            s.synchronize();
            served_.fetch_add(1);
            std::this_thread::sleep_for(gap);
          }
        }) {}
  steady_requests(const steady_requests&) = delete;
  steady_requests& operator=(const steady_requests&) = delete;
  ~steady_requests() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  [[nodiscard]] unsigned served() const { return served_.load(); }
  [[nodiscard]] unsigned tiles() const { return tiles_.load(); }

 private:
  struct bump {
    std::atomic<unsigned>* count;
    void operator()(cede::block) const { count->fetch_add(1); }
  };
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> served_{0};
  std::atomic<unsigned> tiles_{0};
  std::thread thread_;
};

}  // namespace cede_test
