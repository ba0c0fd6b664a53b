// SPDX-License-Identifier: Apache-2.0
// What a launch on the CUDA device looks like before it is one: grids, shared memory and kernel
// arguments, computed from a submission. No CUDA call is made here, so it is tested without a GPU.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/kernel_args.hpp>
#include <cede/detail/plan.hpp>
#include <cede/detail/tile_locator.hpp>
#include <cede/device.hpp>
#include <cede/protocol.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

CEDE_BEGIN_NAMESPACE

namespace detail {

static_assert(most_tiles_per_claim <= std::numeric_limits<decltype(mailbox::count)>::max());

/// Bytes of the adapter's words in a block of each form.
constexpr std::size_t own_bytes(form how) {
  return how == form::persistent ? worker_words_bytes : how == form::gated ? sizeof(mailbox) : 0;
}

struct own_place {
  std::size_t offset = 0;
  std::size_t shared = 0;  ///< dynamic shared bytes of the launch
  bool fits = true;
};

/// The adapter's words go behind the body's dynamic shared memory, so that its alignment stays.
/// Where the body leaves no room, a worker's go to device memory, and a gated block's share the
/// body's first bytes before the body begins.
constexpr own_place place_own(form how, std::size_t dynamic, std::size_t static_bytes,
                              std::size_t limit) {
  const std::size_t own = own_bytes(how);
  const std::size_t offset = (dynamic + 15) / 16 * 16;
  if (static_bytes + offset + own <= limit) return {offset, offset + own, true};
  return {0, how == form::gated && dynamic < own ? own : dynamic, false};
}

struct native_grid {
  std::uint32_t x = 1, y = 1, z = 1;
  std::size_t shared = 0;
};

/// Grid and arguments of whole launches and slices.
constexpr native_grid plan_native(const submission& s, native_args& a) {
  a.grid = tile_locator::of(s.geometry.grid);
  a.first = s.first;
  a.linear = s.first != 0 || s.count != s.geometry.tiles();
  if (a.linear) return {static_cast<std::uint32_t>(s.count), 1, 1, s.geometry.shared};
  return {a.grid.grid.x, a.grid.grid.y, a.grid.grid.z, s.geometry.shared};
}

/// Grid and arguments of gated chunks and persistent workers: one block more, the watcher, or one
/// cluster.
constexpr native_grid plan_workers(const submission& s, std::size_t static_bytes,
                                   std::size_t shared_limit, worker_args& a) {
  const own_place own = place_own(s.how, s.geometry.shared, static_bytes, shared_limit);
  const extent& c = s.geometry.cluster;
  a.terms = s.terms;
  a.words = s.words;
  a.grid =
      tile_locator::of({s.geometry.grid.x / c.x, s.geometry.grid.y / c.y, s.geometry.grid.z / c.z});
  a.limit = s.limit;
  a.own = static_cast<std::uint32_t>(own.offset);
  a.state_bytes = static_cast<std::uint32_t>(s.kernel->state_bytes);
  a.overlay = s.how == form::gated && !own.fits;
  a.in_memory = s.how == form::persistent && !own.fits;
  return {static_cast<std::uint32_t>((s.count + 1) * c.x), static_cast<std::uint32_t>(c.y),
          static_cast<std::uint32_t>(c.z), own.shared};
}

}  // namespace detail

CEDE_END_NAMESPACE
