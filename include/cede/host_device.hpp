// SPDX-License-Identifier: Apache-2.0
// The device made of CPU threads: what it looks like and how it may be made to fail.
#pragma once

#include <cede/config.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

CEDE_BEGIN_NAMESPACE

/// A device made of CPU threads, for machines without a GPU and for tests:
/// `cede::scheduler cpu{cede::host_device{.sms = 2}}`.
///
/// Each SM is a thread that runs one native block or one persistent worker at a time, to its end.
/// Streams are in order, kernels of different streams run side by side, and a priority decides only
/// which block an SM that has become free takes next: as on a GPU. The threads of a tile take turns
/// on the SM's thread; they change places in `b.sync()` and nowhere else. So a tile whose threads
/// wait for one another by other means never ends, while a wait for an earlier *tile* is fine.
/// An exception that leaves a body fails the device, as a fault does on a GPU.
///
/// Destroying the device drops what has not started and waits for the tiles that run. While nothing
/// is queued it takes no CPU time.
///
/// A plain value: thread-safe as such; never waits.
struct host_device {
  /// Number of SMs, at most 1024; 0 = one per CPU the process may use.
  unsigned sms = 0;
  /// Shared memory a tile may have, static and dynamic together, in bytes, at most 1 GiB.
  std::size_t shared_bytes = std::size_t{227} * 1024;
  /// Stack of a thread of a tile that waits at a barrier, in bytes, at least 16 KiB. Touching the
  /// page below it ends the process. (The first thread of a tile, and all of one that has no
  /// barrier, use the stack of the SM's thread.)
  std::size_t stack_bytes = std::size_t{64} * 1024;

  /// Fault injection: asked before every operation, with its name and its number among those of
  /// that name, from 1. A result other than 0 is the code it fails with.
  ///
  /// `kernel`, `tile`, `copy`, `fill`, `write_value`, `wait_value`, `record_event` and `wait_event`
  /// are asked when their turn in the stream comes; they fail the device for good: every later
  /// call throws `device_error` with that code, what is queued is dropped, running tiles end.
  /// `submit`, `prepare`, `words`, `make_stream` and `make_event` are asked inside the call, which
  /// alone throws.
  ///
  /// Called by one thread at a time, by any thread; must not throw, nor call the device or the
  /// scheduler.
  std::function<int(std::string_view operation, std::uint64_t nth)> fault{};
  /// Slows operations down: like `fault`, returns how long the operation is held back before it
  /// starts. Not asked for calls that fail or that `fault` lists as asked inside the call.
  std::function<std::chrono::nanoseconds(std::string_view operation, std::uint64_t nth)> delay{};
};

CEDE_END_NAMESPACE
