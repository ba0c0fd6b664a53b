// SPDX-License-Identifier: Apache-2.0
// Launches a body in contiguous ranges of tiles, each a native launch of its own.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/detail/adapter.hpp>
#include <cede/detail/plan.hpp>
#include <cede/detail/registration.hpp>
#include <cede/shape.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#if CEDE_NVCC
#include <cede/cuda_device.hpp>
#endif

CEDE_BEGIN_NAMESPACE

/// A contiguous range of tiles, x fastest.
struct slice {
  std::uint64_t first = 0;  ///< number of its first tile
  std::uint64_t count = 0;  ///< tiles
};

/// How to cut: either into `count` slices, or into slices of `tiles` tiles. Neither: one slice.
struct slicing {
  std::uint64_t count = 0;  ///< how many slices; 0: not stated
  std::uint64_t tiles = 0;  ///< tiles of a slice; 0: not stated
};

/// A body and a shape, launchable in slices: every tile runs natively, in the slice that holds it.
///
///     cede::sliceable parts{shape, body};
///     for (auto p : parts.slices({.count = 16})) parts.launch(stream, p);
///
/// Move-only. Launches may be made from any thread, one at a time. Nothing waits, except that
/// making the first adapter of a body and device loads the body.
template <class Body, detail::compiler By = detail::this_compiler>
class sliceable {
 public:
  /// Throws `invalid_argument` if the shape does not fit the device.
  sliceable(const shape& s, Body body, adapter_device on = adapter_device())
      : shape_(s), body_(std::move(body)), device_(std::move(on)) {
    detail::check_sliceable<Body>();
    detail::device& d = device_.machine();
    validate(shape_, d.facts().limits, entry().name);
    d.prepare(entry());
    std::string why;
    if (d.blocks_per_sm(entry(), shape_, form::sliced, &why) == 0) {
      throw invalid_argument("launch of " + std::string(entry().name) + ": " + why);
    }
  }
  /// The other may only be destroyed or assigned to.
  sliceable(sliceable&&) noexcept = default;
  /// The other may only be destroyed or assigned to.
  sliceable& operator=(sliceable&&) noexcept = default;
  sliceable(const sliceable&) = delete;
  sliceable& operator=(const sliceable&) = delete;
  ~sliceable() = default;

  /// The slices of this launch in ascending order; they differ by at most one tile (`count`), or
  /// all but the last have `tiles`. Never more than 2^31 - 1 tiles in one. A body declared `whole`
  /// has one. Throws `invalid_argument` if both or more slices than 2^24 are asked for.
  [[nodiscard]] std::vector<slice> slices(slicing how = {}) const {
    const std::uint64_t tiles = shape_.tiles();
    if (how.count != 0 && how.tiles != 0) {
      throw invalid_argument(
          "slices(): both a count and a number of tiles were given; give one of them");
    }
    constexpr std::uint64_t most = 2147483647;
    std::uint64_t n =
        how.tiles != 0 ? (tiles - 1) / how.tiles + 1 : std::max<std::uint64_t>(how.count, 1);
    if (entry().traits.whole) {
      if (n > 1) {
        throw not_supported("slices(): the body " + std::string(entry().name) +
                            " is declared `whole` and cannot be cut; ask for one slice");
      }
      return {{0, tiles}};
    }
    if (shape_.cluster != extent{}) {
      if (n > 1) {
        throw not_supported("slices(): the launch of " + std::string(entry().name) +
                            " in thread-block clusters cannot be cut; ask for one slice");
      }
      return {{0, tiles}};
    }
    const bool by_tiles = how.tiles != 0;
    const std::uint64_t size = by_tiles ? std::min(how.tiles, most) : 0;
    n = by_tiles ? (tiles - 1) / size + 1 : std::min(std::max(n, (tiles - 1) / most + 1), tiles);
    if (n > (std::uint64_t{1} << 24U)) {
      throw invalid_argument("slices(): " + std::to_string(n) + " slices of " +
                             std::to_string(tiles) +
                             " tiles are more than 2^24; make slices larger");
    }
    std::vector<slice> all;
    all.reserve(n);
    std::uint64_t first = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t count =
          by_tiles ? std::min(size, tiles - first) : tiles / n + (i < tiles % n ? 1 : 0);
      all.push_back({first, count});
      first += count;
    }
    return all;
  }

  /// Queues one slice on a stream. Throws `invalid_argument` if it does not lie within the grid.
  void launch(cudaStream_t stream, slice part) {
    const std::uint64_t tiles = shape_.tiles();
    if (part.count == 0 || part.first >= tiles || part.count > tiles - part.first) {
      throw invalid_argument("launch of " + std::string(entry().name) + ": the slice of " +
                             std::to_string(part.count) + " tiles from " +
                             std::to_string(part.first) + " does not lie within its " +
                             std::to_string(tiles) + " tiles");
    }
    detail::submission what;
    what.kernel = &entry();
    what.body = &body_;
    what.geometry = shape_;
    what.how = part.count == tiles ? form::whole : form::sliced;
    what.first = part.first;
    what.count = part.count;
    if (what.how == form::sliced && part.count > 2147483647) {
      throw invalid_argument("launch of " + std::string(entry().name) +
                             ": a slice has at most 2^31 - 1 tiles; use slices()");
    }
    device_.machine().submit(stream, what);
  }
  /// Queues the whole launch.
  void launch(cudaStream_t stream) { launch(stream, slice{0, shape_.tiles()}); }

  /// What it was made with.
  [[nodiscard]] const cede::shape& shape() const { return shape_; }

 private:
  [[nodiscard]] const detail::kernel_entry& entry() const {
    return detail::entry_for<Body, By, !detail::trait_whole<Body>()>(body_, shape_);
  }

  cede::shape shape_;
  Body body_;
  adapter_device device_;
};

/// The body's type is that of the argument.
template <class Body>
sliceable(const shape&, Body) -> sliceable<Body>;
/// The body's type is that of the argument.
template <class Body>
sliceable(const shape&, Body, adapter_device) -> sliceable<Body>;

CEDE_END_NAMESPACE
