// SPDX-License-Identifier: Apache-2.0
// The last handle of a scheduler may go on a thread that the end would have to wait for: inside a
// callable of the scheduler's own `run`, or on one of its threads, with what a callable given to
// `defer` owned.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>

#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Whether the calling thread is inside a callable of `run` or `defer` of this scheduler.
inline bool inside_callable_of(const engine& e) {
  for (const run_hold* h = this_thread_runs(); h != nullptr; h = h->outer) {
    if (h->owner == &e) return true;
  }
  for (const gated_call* c = this_thread_calls(); c != nullptr; c = c->outer) {
    if (c->owner == &e) return true;
  }
  return false;
}

/// Schedulers that end when the outermost of their callables on this thread has returned.
inline std::vector<std::shared_ptr<engine>>& this_thread_ends() {
  thread_local std::vector<std::shared_ptr<engine>> ends;
  return ends;
}

/// Ends a scheduler on a thread of its own. Whoever is still at it when the program exits is waited
/// for.
inline void end_elsewhere(const std::shared_ptr<engine>& e) {
  static std::mutex mutex;
  static std::vector<std::future<void>> ends;
  const std::scoped_lock lock(mutex);
  std::erase_if(ends, [](const std::future<void>& f) {
    return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  });
  ends.push_back(std::async(std::launch::async, [ending = e]() mutable {
    ending->shutdown();
    ending.reset();
  }));
}

/// Ends a scheduler whose last handle is gone, as soon as that can be waited for.
inline void end_scheduler(const std::shared_ptr<engine>& e) noexcept {
  try {
    if (this_thread_serves().owner == e.get()) {
      end_elsewhere(e);
    } else if (inside_callable_of(*e)) {
      this_thread_ends().push_back(e);
    } else {
      e->shutdown();
    }
  } catch (const std::exception& trouble) {
    // Its threads cannot be waited for here: they stay, and what they use with them.
    static_cast<void>(new std::shared_ptr<engine>(e));
    std::fprintf(stderr, "cede: a scheduler could not be ended: %s\n", trouble.what());
  }
}

/// Lives around a callable of `run`: ends the schedulers whose last handle went inside it.
class ends_after_run {
 public:
  ends_after_run() = default;
  ends_after_run(const ends_after_run&) = delete;
  ends_after_run& operator=(const ends_after_run&) = delete;
  ~ends_after_run() {
    auto& ends = this_thread_ends();
    for (std::size_t i = 0; i < ends.size();) {
      if (inside_callable_of(*ends[i])) {
        ++i;
        continue;
      }
      const auto e = std::move(ends[i]);
      ends.erase(ends.begin() + static_cast<std::ptrdiff_t>(i));
      e->shutdown();
    }
  }
};

}  // namespace detail

CEDE_END_NAMESPACE
