// SPDX-License-Identifier: Apache-2.0
// One entry of a gated stream's queue: what was asked, and how far it is.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/deadline.hpp>
#include <cede/detail/plan.hpp>
#include <cede/device.hpp>
#include <cede/policy/pieces.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <variant>

CEDE_BEGIN_NAMESPACE

namespace detail {

struct stream_core;

/// Bytes of a body, small ones without an allocation of their own.
class body_bytes {
 public:
  body_bytes() = default;
  body_bytes(const void* from, std::size_t bytes) {
    if (bytes > sizeof inline_)
      large_ = std::make_unique<std::max_align_t[]>((bytes + sizeof(std::max_align_t) - 1) /
                                                    sizeof(std::max_align_t));
    std::memcpy(large_ ? static_cast<void*>(large_.get()) : inline_, from, bytes);
  }
  [[nodiscard]] const void* data() const {
    return large_ ? static_cast<const void*>(large_.get()) : inline_;
  }

 private:
  alignas(std::max_align_t) std::byte inline_[192];
  std::unique_ptr<std::max_align_t[]> large_;
};

/// A point in a stream: everything up to operation `number`.
struct stream_point {
  std::shared_ptr<stream_core> stream;
  std::uint64_t number = 0;
};

struct launch_work {
  const kernel_entry* kernel = nullptr;
  body_bytes body;
  shape geometry{};
  detail::plan plan{};
  std::uint64_t tiles = 0;
  std::uint64_t ordinal = 0;  ///< protocolled forms only
  std::uint64_t cursor = 0;   ///< tiles known to be executed
  std::uint64_t id = 0;       ///< current submission
  std::uint32_t epoch = 0;
  std::uint64_t next_slice = 0;  ///< sliced and whole
  std::byte* memory = nullptr;   ///< plan.memory, the stream's
  clock::time_point submitted_at{};
  bool resumed = false;        ///< the next submission resumes it after a yield
  bool was_preempted = false;  ///< gave way at least once
  bool all_submitted = false;  ///< the submission in flight carries all that is left
  [[nodiscard]] bool protocolled() const {
    return plan.how == form::gated || plan.how == form::persistent;
  }
};
/// A copy, or where `from` is null a fill. Goes to the device in pieces.
struct copy_work {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  unsigned char byte = 0;  ///< of a fill
  std::size_t bytes = 0;
  std::size_t sent = 0;   ///< of these, to the device
  std::size_t piece = 0;  ///< the newest one's size
  policy::pieces pace{};
};
/// Shared by the thread that waits for admission and the dispatcher that grants it.
struct admission {
  bool granted = false;
  bool called = false;  ///< the callable has returned; its work is on the lane
  std::exception_ptr refused;
};
struct opaque_work {
  std::shared_ptr<admission> turn;
  std::function<void(cudaStream_t)> deferred;  ///< empty for `run`, and once it is on its way
  bool is_deferred = false;
  clock::time_point granted_at{};
};
struct wait_work {
  stream_point until;             ///< either a point of a stream,
  cudaEvent_t foreign = nullptr;  ///< or an event of ours that stands for one of the program's
};

struct operation {
  std::uint64_t number = 0;
  std::variant<std::monostate, launch_work, copy_work, opaque_work, wait_work> work;
  bool in_flight = false;
  std::uint64_t token = 0;      ///< value of the stream's token word that ends it
  cudaEvent_t after = nullptr;  ///< adopted streams: the user's work before this operation
  bool after_done = false;
  clock::time_point handed_at{};  ///< copies and fills: the first piece

  [[nodiscard]] launch_work* launch() { return std::get_if<launch_work>(&work); }
  [[nodiscard]] bool protocolled() {
    auto* l = launch();
    return l != nullptr && l->protocolled();
  }
};

/// A copy, or where `from` is null a fill with `byte`.
inline operation copy_operation(void* to, const void* from, unsigned char byte, std::size_t bytes) {
  operation op;
  op.work = copy_work{.to = static_cast<std::byte*>(to),
                      .from = static_cast<const std::byte*>(from),
                      .byte = byte,
                      .bytes = bytes};
  return op;
}
/// Calls `f` when its turn has come.
inline operation deferred_operation(std::function<void(cudaStream_t)> f) {
  operation op;
  op.work = opaque_work{std::make_shared<admission>(), std::move(f), true, {}};
  return op;
}

}  // namespace detail

CEDE_END_NAMESPACE
