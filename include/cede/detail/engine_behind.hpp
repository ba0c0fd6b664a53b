// SPDX-License-Identifier: Apache-2.0
// What stands behind a wait: the operations that have to end first, also by way of other streams.
// Found out before a caller waits for itself, or without a word for somebody who may not come.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <variant>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The first gated operation that `p` waits for, directly or through waits between streams, of
/// which `looked_for(stream, operation)` is true; its stream, or null. Call with the lock.
template <class F>
stream_core* engine::find_behind(const stream_point& p, F&& looked_for) {
  std::deque<stream_point> todo;
  todo.push_back(p);
  std::map<const stream_core*, std::uint64_t> seen;  // up to which number
  while (!todo.empty()) {
    const stream_point at = std::move(todo.back());
    todo.pop_back();
    stream_core& s = *at.stream;
    std::uint64_t& looked_at = seen[&s];
    if (looked_at >= at.number || is_done(at)) continue;
    looked_at = at.number;
    if (s.work->inline_path) {
      const std::scoped_lock requests(requests_mutex_);
      for (const blocker& b : blockers_) {
        // What the stream got before the wait does not wait.
        if (b.stream.get() == &s && b.after < at.number && b.until.stream) todo.push_back(b.until);
      }
      continue;
    }
    for (const operation& op : s.queue) {
      if (op.number > at.number) break;
      if (looked_for(s, op)) return &s;
      if (const auto* wait = std::get_if<wait_work>(&op.work);
          wait != nullptr && wait->until.stream)
        todo.push_back(wait->until);
    }
  }
  return nullptr;
}

/// Whether the calling thread is one that others may have to wait for.
inline bool may_wait_for_oneself() {
  return this_thread_calls() != nullptr || this_thread_serves().deferred;
}

/// Throws if what the calling thread is about to wait for needs that thread: a callable of `run` or
/// `defer` that it is inside of, or one that is deferred where it is the thread that runs those.
/// `why`: it waits, beside that it was asked to. Call with the lock.
inline void engine::refuse_wait_for_oneself(const stream_point& p, const char* why) {
  if (!may_wait_for_oneself()) return;
  const auto me = std::this_thread::get_id();
  const bool deferred = this_thread_serves().deferred && this_thread_serves().owner == this;
  bool behind_deferred = false;
  const stream_core* s = find_behind(p, [&](const stream_core& of, const operation& op) {
    if (of.inside_run.load() == me) return true;  // the operation is its callable
    const auto* opaque = std::get_if<opaque_work>(&op.work);
    behind_deferred = deferred && opaque != nullptr && opaque->is_deferred && !opaque->turn->called;
    return behind_deferred;
  });
  if (s == nullptr) return;
  if (behind_deferred) {
    throw contract_error("stream " + p.stream->name + ": " + why +
                         "waiting inside a callable given to defer() for one that was given to "
                         "defer() as well" +
                         (s == p.stream.get() ? "" : " (on stream " + s->name + ")") +
                         " would wait for itself, they run on one thread; use run(), or wait "
                         "elsewhere");
  }
  if (s == p.stream.get()) {
    throw contract_error(
        "stream " + s->name + ": " + why +
        "waiting for it inside its own run() would wait for itself; synchronise the raw stream "
        "that was passed in, or wait after run()");
  }
  throw contract_error("stream " + p.stream->name + ": " + why + "it waits for stream " + s->name +
                       ", and waiting for it inside a run() of that one would wait for itself; "
                       "wait after run()");
}

/// Says, once, that a wait without a limit is for a workload that is suspended. Looks every second;
/// `looked`: last, or when the wait began. Call with the lock.
inline void engine::tell_of_suspension(const stream_point& p, clock::time_point& looked,
                                       bool& told) {
  const auto now = clock::now();
  if (told || now - looked < std::chrono::seconds(1)) return;
  looked = now;
  const stream_core* s = find_behind(p, [](const stream_core& of, const operation& op) {
    return of.work->suspended && !op.in_flight;
  });
  if (s == nullptr) return;
  told = true;
  log("a call waits for stream " + p.stream->name +
      (s == p.stream.get() ? "" : ", which waits for stream " + s->name) + ", whose workload '" +
      s->work->options.name +
      "' is suspended; the call waits until another thread resumes the workload");
}

}  // namespace detail

CEDE_END_NAMESPACE
