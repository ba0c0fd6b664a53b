// SPDX-License-Identifier: Apache-2.0
// One submission on the host device, and how an SM works on one block of it.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/atomics.hpp>
#include <cede/detail/host_faults.hpp>
#include <cede/detail/host_fibers.hpp>
#include <cede/device.hpp>
#include <cede/protocol.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Where a linear tile lies in its grid, x fastest.
constexpr index3 tile_index(std::uint64_t tile, const extent& grid) {
  if (grid.y == 1 && grid.z == 1) return {static_cast<std::uint32_t>(tile), 0, 0};
  const std::uint64_t row = tile / grid.x;
  return {static_cast<std::uint32_t>(tile - row * grid.x), static_cast<std::uint32_t>(row % grid.y),
          static_cast<std::uint32_t>(row / grid.y)};
}

constexpr index3 to_index3(const extent& e) {
  return {static_cast<std::uint32_t>(e.x), static_cast<std::uint32_t>(e.y),
          static_cast<std::uint32_t>(e.z)};
}

/// A copy of a body, aligned as its type asks.
class body_copy {
 public:
  body_copy(const void* body, std::size_t bytes, std::size_t align)
      : memory_(::operator new(bytes == 0 ? 1 : bytes, std::align_val_t{align}), release{align}) {
    if (bytes != 0) std::memcpy(memory_.get(), body, bytes);
  }
  [[nodiscard]] const void* get() const { return memory_.get(); }

 private:
  struct release {
    std::size_t align;
    void operator()(void* p) const { ::operator delete(p, std::align_val_t{align}); }
  };
  std::unique_ptr<void, release> memory_;
};

/// A submission on its way through the device: which of its blocks have started, which have ended.
struct host_kernel {
  explicit host_kernel(const submission& s)
      : what(s), body(s.body, s.kernel->bytes, s.kernel->align) {
    what.body = body.get();
  }

  /// The next block to start, or a number >= `what.count` when all have.
  std::uint64_t start() { return next.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] bool all_started() const {
    return next.load(std::memory_order_relaxed) >= what.count;
  }
  /// Counts ended blocks; true for the caller whose blocks were the last.
  bool end(std::uint64_t blocks) {
    return ended.fetch_add(blocks, std::memory_order_acq_rel) + blocks == what.count;
  }

  submission what;
  body_copy body;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<bool> threw{false};
};

/// The body that the calling thread executes a tile of; null outside.
inline const kernel_entry*& running_body() {
  thread_local const kernel_entry* body = nullptr;
  return body;
}

/// Says why, where a body ends the process: nvcc puts an exit() in the place of a `__device__` call
/// operator's host code.
inline void explain_exit_inside_body() {
  if (running_body() == nullptr) return;
  std::fprintf(stderr,
               "cede: body %s ended the process from inside a tile on the host device; if its call "
               "operator is marked __device__ alone, mark it CEDE_BODY\n",
               std::string(running_body()->name).c_str());
}

/// An SM's hands: runs blocks of kernels, one at a time, by the protocol of their form.
class host_worker {
 public:
  /// `stopping`: set when the device is being destroyed; workers then leave at their next claim.
  host_worker(const host_device& options, host_injector& injector, host_health& health,
              const std::atomic<bool>& stopping)
      : tiles_(options.stack_bytes, options.shared_bytes),
        injector_(injector),
        health_(health),
        stopping_(stopping) {
    static const bool registered = std::atexit(&explain_exit_inside_body) == 0;
    static_cast<void>(registered);
  }

  void run_block(host_kernel& k, std::uint64_t number) {
    switch (k.what.how) {
      case form::gated:
        run_gated(k);
        break;
      case form::persistent:
        run_persistent(k);
        break;
      default:
        run_tile(k, k.what.first + number);
    }
  }

  /// What follows the last block of a kernel, before anything behind it in its stream.
  static void close(const host_kernel& k) {
    const submission& s = k.what;
    if (s.how != form::gated || !s.closes) return;
    if (!protocol::enter<atomics>(*s.words.chain, s.terms)) return;
    protocol::close<atomics>(*s.words.slot, *s.words.chain, *s.words.published, s.terms);
  }

 private:
  using clock = std::chrono::steady_clock;

  [[nodiscard]] bool halted() const {
    return health_.failed() || stopping_.load(std::memory_order_relaxed);
  }
  static std::uint64_t since(clock::time_point begin, clock::time_point end) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(ns, 0));
  }
  static bool gate_raised(const submission& s) {
    return protocol::notice<atomics, protocol::scope::system>(*s.words.host_gate, *s.words.slot,
                                                              s.terms);
  }

  void run_gated(host_kernel& k) {
    const submission& s = k.what;
    if (!protocol::enter<atomics>(*s.words.chain, s.terms)) return;
    if (gate_raised(s)) return;
    const protocol::claimed c = protocol::claim<atomics>(*s.words.slot, s.terms);
    if (c.count == 0) return;
    const auto begin = clock::now();
    run_tile(k, c.first);
    protocol::record_longest<atomics>(*s.words.slot, since(begin, clock::now()));
  }

  void run_persistent(host_kernel& k) {
    const submission& s = k.what;
    if (!protocol::enter<atomics>(*s.words.chain, s.terms)) return;
    std::uint64_t longest = 0;
    auto begin = clock::now();
    while (!halted() && !gate_raised(s)) {
      const protocol::claimed c = protocol::claim<atomics>(*s.words.slot, s.terms);
      if (c.count == 0) break;
      // A claimed tile runs whatever happens: a later one may be waiting for it.
      for (std::uint32_t i = 0; i < c.count; ++i) {
        run_tile(k, c.first + i);
        const auto end = clock::now();
        longest = std::max(longest, since(begin, end));
        begin = end;
      }
    }
    // On a device that has failed or is going, nobody learns how far the launch got: some of the
    // tiles counted as claimed may not have run.
    if (halted()) return;
    protocol::record_longest<atomics>(*s.words.slot, longest);
    protocol::leave<atomics>(*s.words.slot, *s.words.chain, *s.words.published, s.terms);
  }

  void run_tile(host_kernel& k, std::uint64_t tile) {
    if (injector_.any()) {
      const auto v = injector_.ask("tile");
      if (v.code != 0) health_.fail("tile", v);
      if (v.delay.count() > 0) std::this_thread::sleep_for(v.delay);
    }
    const submission& s = k.what;
    running_body() = s.kernel;
    const std::exception_ptr error = tiles_.run(
        s.kernel->host_run, s.body, tile_index(tile, s.geometry.grid), to_index3(s.geometry.grid),
        to_index3(s.geometry.block), s.geometry.shared, &k.threw);
    running_body() = nullptr;
    if (error != nullptr) report(k, tile, error);
  }

  void report(host_kernel& k, std::uint64_t tile, const std::exception_ptr& error) {
    const std::string where =
        "body " + std::string(k.what.kernel->name) + ", tile " + std::to_string(tile);
    k.threw.store(true, std::memory_order_relaxed);
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      health_.fail(host_launch_failure, where, where + " threw \"" + e.what() + "\"");
    } catch (...) {
      health_.fail(host_launch_failure, where, where + " threw something");
    }
  }

  tile_runner tiles_;
  host_injector& injector_;
  host_health& health_;
  const std::atomic<bool>& stopping_;
};

}  // namespace detail

CEDE_END_NAMESPACE
