// SPDX-License-Identifier: Apache-2.0
// What a launch on the CUDA device looks like before it is one: grids, shared memory and kernel
// arguments, computed from a submission. No CUDA call is made here, so it is tested without a GPU.
#pragma once

#include <cede/config.hpp>
#include <cede/device.hpp>
#include <cede/protocol.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>

CEDE_BEGIN_NAMESPACE

namespace detail {

struct native_args {
  index3 grid{};            ///< of the whole launch, as the body sees it
  std::uint64_t first = 0;  ///< first tile, where `linear`
  bool linear = false;      ///< the native grid is one row of tiles starting at `first`
};

struct worker_args {
  protocol::terms terms{};
  control words{};
  index3 grid{};
  std::uint64_t limit = 0;  ///< gated: cursor at which this chunk is used up
  std::uint32_t mail = 0;   ///< byte offset of the mailboxes in dynamic shared memory
  bool overlay = false;     ///< they share the body's bytes, at the price of a barrier more
};

/// Two mailboxes of 16 bytes.
inline constexpr std::size_t mail_bytes = 32;

struct mail_place {
  std::size_t offset = 0;
  std::size_t shared = 0;  ///< dynamic shared bytes of the launch
  bool overlay = false;
};

/// The adapter's words go behind the body's dynamic shared memory, so that its alignment stays;
/// where the body leaves no room they share its first bytes between tiles, when the contents are
/// undefined.
constexpr mail_place place_mail(std::size_t dynamic, std::size_t static_bytes, std::size_t limit) {
  const std::size_t offset = (dynamic + 15) / 16 * 16;
  if (static_bytes + offset + mail_bytes <= limit) return {offset, offset + mail_bytes, false};
  return {0, dynamic < mail_bytes ? mail_bytes : dynamic, true};
}

struct native_grid {
  std::uint32_t x = 1, y = 1, z = 1;
  std::size_t shared = 0;
};

constexpr index3 as_index(const extent& e) {
  return {static_cast<std::uint32_t>(e.x), static_cast<std::uint32_t>(e.y),
          static_cast<std::uint32_t>(e.z)};
}

/// Grid and arguments of whole launches and slices.
constexpr native_grid plan_native(const submission& s, native_args& a) {
  a.grid = as_index(s.geometry.grid);
  a.first = s.first;
  a.linear = s.first != 0 || s.count != s.geometry.tiles();
  if (a.linear) return {static_cast<std::uint32_t>(s.count), 1, 1, s.geometry.shared};
  return {a.grid.x, a.grid.y, a.grid.z, s.geometry.shared};
}

/// Grid and arguments of gated chunks and persistent workers: one block more, the watcher.
constexpr native_grid plan_workers(const submission& s, std::size_t static_bytes,
                                   std::size_t shared_limit, worker_args& a) {
  const mail_place mail = place_mail(s.geometry.shared, static_bytes, shared_limit);
  a.terms = s.terms;
  a.words = s.words;
  a.grid = as_index(s.geometry.grid);
  a.limit = s.limit;
  a.mail = static_cast<std::uint32_t>(mail.offset);
  a.overlay = mail.overlay;
  return {static_cast<std::uint32_t>(s.count + 1), 1, 1, mail.shared};
}

}  // namespace detail

CEDE_END_NAMESPACE
