// SPDX-License-Identifier: Apache-2.0
// What the tests of the host device share: bodies as kernel entries, and the least of a scheduler
// that resumes preempted launches.
#pragma once

#include <cede/body.hpp>
#include <cede/detail/host_machine.hpp>
#include <cede/device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

namespace cede_test {

using cede::block;
using cede::form;
using cede::host_device;
using cede::index3;
using cede::shape;
namespace detail = cede::detail;
namespace protocol = cede::protocol;
using detail::stream_class;

template <class B>
void run_body(const void* body, block b) {
  (*static_cast<const B*>(body))(b);
}

/// The entry of a body type: one for the whole program.
template <class B>
const detail::kernel_entry& entry_of() {
  static const detail::kernel_entry entry = [] {
    detail::kernel_entry e;
    e.name = detail::type_name<B>();
    e.traits = cede::traits_of<B>();
    e.bytes = sizeof(B);
    e.align = alignof(B);
    e.host_run = &run_body<B>;
    return e;
  }();
  return entry;
}

/// A submission of native blocks for the whole grid.
template <class B>
detail::submission native(const B& body, const shape& geometry) {
  detail::submission s;
  s.kernel = &entry_of<B>();
  s.body = &body;
  s.geometry = geometry;
  s.count = geometry.tiles();
  return s;
}

template <class T>
T* words_of(detail::device& d, bool shared = true) {
  return static_cast<T*>(d.words(sizeof(T), shared));
}

/// The words of one preemptible stream, and what it takes to work through its launches.
class preemptible_stream {
 public:
  preemptible_stream(detail::device& d, std::uint32_t batch = 1)
      : raw(d.make_stream(stream_class::lane)), device_(d), batch_(batch) {
    words.slot = words_of<detail::slot_words>(d, false);
    words.chain = words_of<detail::chain_words>(d, false);
    words.host_gate = words_of<detail::gate_words>(d);
    words.published = words_of<detail::publication_words>(d);
  }

  /// A submission of launch `ordinal`, which has run up to `cursor`.
  template <class B>
  detail::submission make(const B& body, const shape& geometry, form how, std::uint64_t ordinal,
                          std::uint64_t cursor = 0, std::uint64_t workers = 0) {
    detail::submission s = native(body, geometry);
    s.how = how;
    s.words = words;
    s.terms.ordinal = ordinal;
    s.terms.tiles = geometry.tiles();
    s.terms.id = ++last_id;
    s.terms.epoch = protocol::sample<detail::atomics>(*words.host_gate);
    s.count = geometry.tiles() - cursor;
    if (how == form::persistent) {
      s.count = workers != 0 ? workers : device_.facts().sms;
      s.terms.participants = static_cast<std::uint32_t>(s.count);
      s.terms.batch = batch_;
    }
    return s;
  }
  [[nodiscard]] protocol::outcome outcome_of(const detail::submission& s) const {
    return protocol::read<detail::atomics>(*words.published, s.terms.id);
  }
  std::uint32_t raise() { return protocol::raise<detail::atomics>(*words.host_gate); }
  [[nodiscard]] std::uint64_t finished() const {
    return detail::atomics::load<protocol::order::acquire, protocol::scope::system>(
        words.chain->last);
  }

  /// Runs one launch to its end, resuming it as often as it takes; returns how many submissions.
  /// The gated form goes in chunks of `chunk` blocks, of which the last closes.
  template <class B>
  unsigned complete(const B& body, const shape& geometry, form how, std::uint64_t chunk = 0) {
    const std::uint64_t ordinal = ++last_ordinal;
    std::uint64_t cursor = 0;
    for (unsigned n = 1;; ++n) {
      detail::submission s = make(body, geometry, how, ordinal, cursor);
      std::uint64_t left = s.count;
      while (how == form::gated && chunk != 0 && left > chunk) {
        s.count = chunk;
        s.closes = false;
        device_.submit(raw, s);
        left -= chunk;
      }
      if (how == form::gated) s.count = left;
      s.closes = true;
      device_.submit(raw, s);
      device_.synchronize(raw);
      const auto o = outcome_of(s);
      if (!o.published || o.cursor < cursor) return 0;
      cursor = o.cursor;
      if (o.reason == protocol::stop_reason::none) return cursor == s.terms.tiles ? n : 0;
    }
  }

  cudaStream_t raw;
  detail::control words;
  std::uint64_t last_id = 0;
  std::uint64_t last_ordinal = 0;

 private:
  detail::device& device_;
  std::uint32_t batch_;
};

/// A device of so many SMs.
inline std::shared_ptr<detail::device> make(unsigned sms = 2) {
  return detail::make_host_device({.sms = sms});
}

/// True if `done()` becomes true in time.
template <class Done>
bool within(std::chrono::milliseconds limit, Done done) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Notes which tile of a huge grid ran.
struct note_index {
  index3* seen;
  int* n;
  void operator()(block b) const { seen[b.atomic_add(n, 1)] = b.index(); }
};

/// Appends its mark: shows the order in which blocks ran.
struct append {
  std::atomic<int>* length;
  int* list;
  int mark;
  void operator()(block) const { list[length->fetch_add(1)] = mark; }
};

/// Tells that it runs, and holds its SM until told.
struct hold {
  std::atomic<int>* started;
  std::atomic<bool>* go;
  void operator()(block) const {
    started->fetch_add(1);
    while (!go->load()) std::this_thread::yield();
  }
};

/// Holds all SMs of a device while in scope.
class occupied {
 public:
  explicit occupied(detail::device& d) : device_(d), stream_(d.make_stream(stream_class::lane)) {
    d.submit(stream_, native(hold{&started_, &go_}, {.grid = d.facts().sms}));
    while (started_ < static_cast<int>(d.facts().sms)) std::this_thread::yield();
  }
  ~occupied() { end(); }
  void end() {
    go_ = true;
    device_.synchronize(stream_);
  }

 private:
  detail::device& device_;
  cudaStream_t stream_;
  std::atomic<int> started_{0};
  std::atomic<bool> go_{false};
};

/// Raises a gate at random instants until destroyed.
class raiser {
 public:
  raiser(preemptible_stream& s, unsigned most_us, unsigned seed)
      : thread_([this, &s, most_us, seed] {
          std::uint32_t state = seed * 2654435761U + 1;
          while (!stop_.load()) {
            state = state * 1664525U + 1013904223U;
            std::this_thread::sleep_for(std::chrono::microseconds(state % most_us));
            s.raise();
            ++raises_;
          }
        }) {}
  ~raiser() {
    stop_ = true;
    thread_.join();
  }
  [[nodiscard]] unsigned raises() const { return raises_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> raises_{0};
  std::thread thread_;
};

}  // namespace cede_test
