// SPDX-License-Identifier: Apache-2.0
// One submission on the host device, and how an SM works on one block of it.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/atomics.hpp>
#include <cede/detail/host_faults.hpp>
#include <cede/detail/host_fibers.hpp>
#include <cede/detail/plan.hpp>
#include <cede/detail/tile_locator.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
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
      : what(s),
        body(s.body, s.kernel->bytes, s.kernel->align),
        grid(tile_locator::of(s.geometry.grid)) {
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
  tile_locator grid;
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
        run_persistent(k, static_cast<std::uint32_t>(number));
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

  void run_persistent(host_kernel& k, std::uint32_t number) {
    const submission& s = k.what;
    if (!protocol::enter<atomics>(*s.words.chain, s.terms)) return;
    protocol::slot<atomics>& slot = *s.words.slot;
    protocol::worker me{number, static_cast<std::uint32_t>(s.count), number, 0};
    std::uint64_t longest = 0;
    auto begin = clock::now();
    bool told = false;
    while (!told && !halted() && !gate_raised(s)) {
      protocol::holding h = protocol::next<atomics>(slot, s.words.records, s.terms, me);
      if (h.left == 0) break;
      // Without records a claimed tile runs whatever happens: a later one may be waiting for it.
      while (h.left != 0 && !told) {
        told = !run_tile(k, h.next, &h);
        const auto end = clock::now();
        longest = std::max(longest, since(begin, end));
        begin = end;
        h.half_done = told;
        if (told) break;
        ++h.next;
        --h.left;
        told = h.left != 0 && s.terms.records != 0 && gate_raised(s);
      }
      if (told) protocol::give_back<atomics>(slot, s.words.records, h);
    }
    // On a device that has failed or is going, nobody learns how far the launch got: some of the
    // tiles counted as claimed may not have run.
    if (halted()) return;
    protocol::record_longest<atomics>(*s.words.slot, longest);
    protocol::leave<atomics>(*s.words.slot, *s.words.chain, *s.words.published, s.terms);
  }

  /// False if the tile was left half done. `h`: of a persistent launch, what its worker holds.
  bool run_tile(host_kernel& k, std::uint64_t tile, const protocol::holding* h = nullptr) {
    if (injector_.any()) {
      const auto v = injector_.ask("tile");
      if (v.code != 0) health_.fail("tile", v);
      if (v.delay.count() > 0) std::this_thread::sleep_for(v.delay);
    }
    const submission& s = k.what;
    half_done half(s);
    if (h != nullptr && s.terms.records != 0) {
      half.state = s.words.state + h->record * state_stride(s.kernel->state_bytes);
      half.resumed = h->half_done;
    }
    running_body() = s.kernel;
    const std::exception_ptr error = tiles_.run(
        s.kernel->host_run, s.body, k.grid.locate(tile), k.grid.grid, to_index3(s.geometry.block),
        s.geometry.shared, &half, &k.threw, s.kernel->traits.barrier_free);
    running_body() = nullptr;
    if (error != nullptr) report(k, tile, error);
    return !half.yielded || error != nullptr;
  }

  /// What a tile may ask about giving way.
  struct half_done final : tile_yield {
    explicit half_done(const submission& s) : what(s) {}
    bool asked() override {
      if (state == nullptr) return false;
      yielded = gate_raised(what);
      return yielded;
    }
    [[nodiscard]] bool re_entered() const override { return resumed; }
    [[nodiscard]] void* kept(std::size_t bytes) const override {
      if (state == nullptr || !(resumed || yielded)) {
        throw contract_error(
            "state() where a tile keeps none: ask for it only where resumed() is true or "
            "should_yield() has returned true");
      }
      if (bytes > what.kernel->state_bytes) {
        throw contract_error("state() of " + std::to_string(bytes) + " bytes, the body declares " +
                             std::to_string(what.kernel->state_bytes) +
                             "; ask for the type it declares as 'state'");
      }
      return state;
    }
    const submission& what;
    std::byte* state = nullptr;
    bool resumed = false;
    bool yielded = false;
  };

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
