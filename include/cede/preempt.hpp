// SPDX-License-Identifier: Apache-2.0
// A launch that can be told to leave and goes on later where it stopped.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/detail/adapter.hpp>
#include <cede/detail/deadline.hpp>
#include <cede/detail/plan.hpp>
#include <cede/detail/registration.hpp>
#include <cede/detail/worker_memory.hpp>
#include <cede/shape.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#if CEDE_NVCC
#include <cede/cuda_device.hpp>
#endif

CEDE_BEGIN_NAMESPACE

/// A body and a shape as one preemptible launch, without a scheduler.
///
///     cede::preemptible job{shape, body};
///     job.launch(stream);  job.yield();  job.wait();
///     if (!job.finished()) job.launch(stream);
///
/// Every tile runs exactly once, however often the launch yields. `Form` fixes the form at compile
/// time, `launch_options::form` at run time; by default the body's traits decide.
///
/// Move-only. `yield` may be called from any thread at any time, the rest from one thread at a
/// time. Work put on the stream behind the launch runs when the launch has left, finished or not:
/// call `wait` and look at `finished` first. The destructor waits for the launch to end.
template <class Body, form Form = form::automatic, detail::compiler By = detail::this_compiler>
class preemptible {
 public:
  /// Throws `invalid_argument` if the shape does not fit the device, `not_supported` if the body
  /// forbids the form. Set-up: may wait for the device.
  preemptible(const shape& s, Body body, launch_options options = {},
              adapter_device on = adapter_device())
      : shape_(s), body_(std::move(body)), device_(std::move(on)) {
    check();
    detail::device& d = device_.machine();
    if constexpr (Form != form::automatic) options.form = Form;
    d.prepare(entry());
    plan_ = detail::plan_on(d, entry(), shape_, options);
    if (plan_.how != form::gated && plan_.how != form::persistent) {
      throw not_supported(
          "launch of " + std::string(entry().name) +
          ": a preemptible launch is gated or persistent; use cede::sliceable for whole launches "
          "and slices");
    }
    tiles_ = plan_.tiles;
    words_ = device_.take_words();
    if (plan_.records != 0 && words_.records == nullptr) {
      words_.records = static_cast<detail::record_words*>(
          d.words(sizeof(detail::record_words) * detail::most_workers(d.facts()), false));
    }
    if (plan_.memory.bytes > words_.memory_bytes) {
      words_.memory = detail::make_worker_memory(d, entry(), plan_);
      words_.memory_bytes = plan_.memory.bytes;
    }
    owned_ = true;
    cursor_ = tiles_;  // nothing launched yet: the first launch starts anew
  }
  /// The other may only be destroyed.
  preemptible(preemptible&& other) noexcept
      : shape_(other.shape_),
        body_(other.body_),
        device_(other.device_),
        plan_(other.plan_),
        words_(other.words_),
        tiles_(other.tiles_),
        cursor_(other.cursor_),
        longest_(other.longest_),
        running_(std::exchange(other.running_, false)),
        launched_(other.launched_),
        owned_(std::exchange(other.owned_, false)) {}
  preemptible& operator=(preemptible&&) = delete;
  preemptible(const preemptible&) = delete;
  preemptible& operator=(const preemptible&) = delete;
  ~preemptible() {
    if (!owned_) return;
    try {
      wait();
      if (cursor_ < tiles_) settle();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "cede: a preemptible launch of %s ended with: %s\n",
                   std::string(entry().name).c_str(), e.what());
      return;  // its words are not reused
    }
    device_.return_words(words_);
  }

  /// Queues the launch on a stream: anew if it is finished, else from where it stopped. Throws
  /// `contract_error` while it is running, and what the device refuses it with; it may then be
  /// launched again. Does not wait, unless a part of it went out before another was refused.
  void launch(cudaStream_t stream) {
    must_own("launch");
    must_be_idle("launch()", "wait() for it, after yield() if it is to leave early");
    const bool anew = cursor_ >= tiles_;
    if (anew) {
      ++words_.ordinal;
      cursor_ = 0;
    }
    detail::submission what;
    what.kernel = &entry();
    what.body = &body_;
    what.geometry = shape_;
    what.how = plan_.how;
    what.terms = {.ordinal = words_.ordinal,
                  .tiles = tiles_,
                  .id = ++words_.id,
                  .epoch = protocol::sample<detail::atomics>(*words_.host_gate),
                  .participants = 1,
                  .batch = plan_.batch};
    what.words = {.slot = words_.slot,
                  .chain = words_.chain,
                  .host_gate = words_.host_gate,
                  .device_gate = words_.device_gate,
                  .published = words_.published,
                  .records = words_.records};
    bool some_went = false;
    try {
      submit(stream, what, some_went);
    } catch (...) {
      if (some_went) {
        read_cursor_back(stream);
        launched_ = true;
      } else if (anew) {
        --words_.ordinal;
        cursor_ = tiles_;
      }
      throw;
    }
    running_ = true;
    launched_ = true;
  }
  /// The same on a stream of its own.
  void launch() {
    must_own("launch");
    launch(words_.lane);
  }

  /// Tells the launch in progress to leave after the tiles it has claimed. From any thread; needs
  /// no lock and no driver. Does nothing to launches made later. Does not wait.
  void yield() {
    must_own("yield");
    protocol::raise<detail::atomics>(*words_.host_gate);
  }

  /// Waits until the launch has finished or left. Throws what the device failed with.
  void wait() { static_cast<void>(wait_until(std::chrono::steady_clock::time_point::max())); }
  /// The same for at most `limit`; false if that passed first.
  [[nodiscard]] bool wait_for(std::chrono::nanoseconds limit) {
    return wait_until(detail::deadline_after(limit));
  }

  /// True if the last launch ran to its last tile. Does not wait.
  [[nodiscard]] bool finished() { return !running() && launched_ && cursor_ >= tiles_; }
  /// Tiles executed so far of the launch that is not finished; exact once `wait` has returned.
  [[nodiscard]] std::uint64_t cursor() {
    static_cast<void>(running());
    return cursor_;
  }
  /// Longest tile seen by the last launch, in ns; 0 where it was not measured. Of several tiles a
  /// claim, the mean over the claim. Exact after `wait`.
  [[nodiscard]] std::chrono::nanoseconds longest_tile() const { return longest_; }

  /// How long the blocks that are in tiles may take to leave after a `yield`, computed from the
  /// longest tile seen so far and the tiles a worker may still run; 0 where none was measured.
  /// Blocks that fall through (gated form) and the way of the gate to the device come on top.
  [[nodiscard]] std::chrono::nanoseconds leaving_bound() const {
    return longest_ * detail::tiles_after_raise(plan_);
  }

  /// Makes the next launch start at a tile: one that is known to have executed all before it, such
  /// as one restored from a checkpoint. Throws `contract_error` while running, `invalid_argument`
  /// past the end. Waits for the device.
  void seek(std::uint64_t tile) {
    must_own("seek");
    must_be_idle("seek()", "wait() for it first");
    if (tile >= tiles_) {
      throw invalid_argument("seek() to tile " + std::to_string(tile) + " of " +
                             std::to_string(tiles_));
    }
    if (cursor_ >= tiles_) ++words_.ordinal;
    cursor_ = tile;
    set_slot_cursor(tile);
  }

  /// The form that was chosen.
  [[nodiscard]] form how() const { return plan_.how; }
  /// Resident workers of the persistent form; 0 in the gated one.
  [[nodiscard]] std::uint64_t workers() const { return plan_.workers; }
  /// What it was made with.
  [[nodiscard]] const cede::shape& shape() const { return shape_; }

 private:
  static constexpr std::uint64_t max_chunks = 4096;

  static constexpr void check() {
    if constexpr (Form == form::persistent) {
      detail::check_persistent<Body>();
    } else {
      detail::check_preemptible<Body>();
    }
    static_assert(Form != form::whole && Form != form::sliced,
                  "cede: preemptible has two forms, gated and persistent; use cede::sliceable for "
                  "whole launches and "
                  "slices");
  }
  [[nodiscard]] const detail::kernel_entry& entry() const {
    return detail::entry_for<Body, By, !detail::trait_whole<Body>()>(body_, shape_);
  }

  void must_own(const char* call) const {
    if (!owned_) {
      throw contract_error(std::string(call) + "() on a preemptible launch of " +
                           std::string(entry().name) +
                           " that was moved from; use the object it was moved to");
    }
  }
  /// A device that has failed says so: its launch would seem to run for ever.
  void must_be_idle(const char* call, const char* remedy) {
    if (!running()) return;
    device_.machine().check();
    throw contract_error(std::string(call) + " of " + std::string(entry().name) +
                         ": it is still running; " + remedy);
  }
  /// `some_went`: a part of the launch is on the stream.
  void submit(cudaStream_t stream, detail::submission& what, bool& some_went) {
    detail::device& d = device_.machine();
    if (plan_.how == form::persistent) {
      detail::fill_persistent(what, plan_, tiles_ - cursor_, d.facts().watchers, words_.memory);
      d.submit(stream, what);
      return;
    }
    for (std::uint64_t at = cursor_; at < tiles_;) {
      // A raise in the middle of a huge grid needs no more blocks to fall through.
      what.count = std::min(plan_.chunk, tiles_ - at);
      at += what.count;
      what.limit = at;
      what.closes = at == tiles_ || (at - cursor_) / plan_.chunk >= max_chunks;
      d.submit(stream, what);
      some_went = true;
      if (what.closes) break;
    }
  }
  /// Chunks have gone out and nothing will close them: waits for them and goes on from what they
  /// have executed.
  void read_cursor_back(cudaStream_t stream) {
    detail::device& d = device_.machine();
    d.synchronize(stream);
    const auto read = [&](const void* word) {
      d.copy(words_.lane, words_.scratch, word, sizeof *words_.scratch);
      d.synchronize(words_.lane);
      return *words_.scratch;
    };
    const std::uint64_t at = read(&words_.slot->cursor);
    cursor_ = (at & protocol::raised_bit) == 0 ? at : read(&words_.slot->stopped_at);
    set_slot_cursor(cursor_);
  }
  bool running() {
    if (!running_) return false;
    const auto end = protocol::read<detail::atomics>(*words_.published, words_.id);
    if (!end.published) return true;
    cursor_ = end.cursor;
    longest_ = std::chrono::nanoseconds(end.longest);
    running_ = false;
    return false;
  }
  bool wait_until(std::chrono::steady_clock::time_point deadline) {
    const auto began = std::chrono::steady_clock::now();
    auto checked = began;
    for (unsigned turn = 0; running(); ++turn) {
      if ((turn & 255U) != 255U) continue;
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return false;
      // Not on a mapped word alone: a device that died will never write it.
      if (now - checked > std::chrono::milliseconds(20)) {
        checked = now;
        check_device();
      }
      // A launch that was told to leave has done so by then; others take as long as they take.
      if (now - began > std::chrono::microseconds(200)) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
    return true;
  }
  /// Throws what the device failed with, once nothing of it uses the caller's memory any more.
  void check_device() {
    detail::device& d = device_.machine();
    try {
      d.check();
    } catch (const error&) {
      d.synchronize(words_.lane);  // of a failed device: waits for the tiles that run, then throws
      throw;
    }
  }
  /// Leaves the words as a finished launch would, for their next owner.
  void settle() {
    detail::device& d = device_.machine();
    d.fill(words_.lane, words_.slot, 0, sizeof *words_.slot);
    clear_records();
    *words_.scratch = words_.ordinal;
    d.copy(words_.lane, &words_.chain->last, words_.scratch, sizeof *words_.scratch);
    d.synchronize(words_.lane);
  }
  void clear_records() {
    if (plan_.records == 0) return;
    device_.machine().fill(words_.lane, words_.records, 0,
                           plan_.records * sizeof(detail::record_words));
  }
  void set_slot_cursor(std::uint64_t tile) {
    detail::device& d = device_.machine();
    // Nothing is left half done or given back of what came before.
    d.fill(words_.lane, words_.slot, 0, sizeof *words_.slot);
    clear_records();
    *words_.scratch = tile;
    d.copy(words_.lane, &words_.slot->cursor, words_.scratch, sizeof *words_.scratch);
    d.synchronize(words_.lane);
  }

  cede::shape shape_;
  Body body_;
  adapter_device device_;
  detail::plan plan_{};
  detail::adapter_words words_{};
  std::uint64_t tiles_ = 0;
  std::uint64_t cursor_ = 0;
  std::chrono::nanoseconds longest_{0};
  bool running_ = false;
  bool launched_ = false;  ///< by this adapter; its words may have had another owner
  bool owned_ = false;
};

/// The body's type is that of the argument.
template <class Body>
preemptible(const shape&, Body) -> preemptible<Body>;
/// The body's type is that of the argument.
template <class Body>
preemptible(const shape&, Body, launch_options) -> preemptible<Body>;
/// The body's type is that of the argument.
template <class Body>
preemptible(const shape&, Body, launch_options, adapter_device) -> preemptible<Body>;

CEDE_END_NAMESPACE
