// SPDX-License-Identifier: Apache-2.0
// The configurations a launch may be tried in: which ones its body allows, and how much of it each
// leaves to be waited for.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// One configuration of a launch. What its form does not use is 0.
struct candidate {
  form how = form::whole;
  unsigned workers_per_sm = 0;  ///< persistent
  std::uint32_t batch = 0;      ///< persistent: tiles a claim
  std::uint64_t chunk = 0;      ///< gated: native blocks launched at once
  std::uint64_t slices = 0;     ///< sliced
  friend bool operator==(const candidate&, const candidate&) = default;
};

constexpr candidate whole() { return {.how = form::whole}; }
constexpr candidate sliced(std::uint64_t slices) { return {.how = form::sliced, .slices = slices}; }
constexpr candidate gated(std::uint64_t chunk) { return {.how = form::gated, .chunk = chunk}; }
constexpr candidate persistent(unsigned workers_per_sm, std::uint32_t batch) {
  return {.how = form::persistent, .workers_per_sm = workers_per_sm, .batch = batch};
}

/// What the choice depends on of a device.
struct machine_facts {
  unsigned sms = 1;
  unsigned watchers = 0;  ///< blocks beside the workers that forward the gate
  bool clusters = false;  ///< has thread-block clusters
  /// Chunks of a gated launch, and slices or whole launches, that are queued on the device at once:
  /// a raise has to wait for what is queued.
  unsigned chunks_in_flight = 8;
  unsigned pieces_in_flight = 2;
};

/// What it depends on of a body and a shape.
struct launch_facts {
  body_traits traits{};
  std::size_t state_bytes = 0;  ///< what a tile left half done keeps; 0 = nothing
  std::uint64_t tiles = 1;
  unsigned cluster = 1;      ///< tiles a cluster; 1 = no clusters
  unsigned workers_fit = 1;  ///< persistent workers an SM can hold; 0 = none
  unsigned native_fit = 1;   ///< native blocks an SM can hold
};

/// Whether a body and shape may run in a form at all, on this machine.
constexpr bool allows(const launch_facts& l, const machine_facts& m, form how) {
  const bool clusters = l.cluster > 1;
  switch (how) {
    case form::whole:
      return true;
    case form::sliced:
    case form::gated:
      return !l.traits.whole && !clusters;
    case form::persistent:
      return !l.traits.whole && !l.traits.native && l.workers_fit >= 1 &&
             (!clusters || (l.traits.clustered && m.clusters));
    default:
      return false;
  }
}

/// Workers a persistent candidate has on the device, in blocks; a worker of clusters counts as one
/// for each of its blocks.
constexpr std::uint64_t workers_of(const candidate& c, const launch_facts& l,
                                   const machine_facts& m) {
  const std::uint64_t cluster = std::max(1U, l.cluster);
  const std::uint64_t fit = std::uint64_t{l.workers_fit} * m.sms / cluster;
  const std::uint64_t wanted =
      std::max<std::uint64_t>(std::uint64_t{c.workers_per_sm} * m.sms / cluster, 1);
  // The watcher takes the place of a worker where no place is free.
  const std::uint64_t room = std::max<std::uint64_t>(fit, m.watchers + 1) - m.watchers;
  return std::min({wanted, room, std::max<std::uint64_t>(l.tiles / cluster, 1)}) * cluster;
}

/// Tiles of a claim as they come out: claims shrink towards the end of the grid, at most half of an
/// even share.
constexpr std::uint32_t largest_batch(const launch_facts& l, const machine_facts& m,
                                      unsigned workers_per_sm) {
  const std::uint64_t workers = workers_of(persistent(workers_per_sm, 1), l, m);
  return static_cast<std::uint32_t>(
      std::clamp<std::uint64_t>(l.tiles / (2 * workers), 1, std::uint64_t{1} << 15U));
}

/// Whether tiles claimed and not begun are given back after a raise.
constexpr bool gives_back(const candidate& c, const launch_facts& l) {
  return c.how == form::persistent && l.traits.independent && (c.batch > 1 || l.state_bytes != 0);
}

/// Pieces that may still run to their ends after a raise: tiles of one worker (persistent, gated),
/// or slices or launches of those in flight.
constexpr std::uint32_t pieces_after_raise(const candidate& c, const launch_facts& l,
                                           const machine_facts& m) {
  switch (c.how) {
    case form::persistent:
      // What is left of its claim, and the claim that its leader has made meanwhile.
      return gives_back(c, l) ? 2 : 2 * std::max(1U, c.batch);
    case form::gated:
      return 1;
    case form::sliced:
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(
          std::max(1U, m.pieces_in_flight), std::max<std::uint64_t>(1, c.slices)));
    default:
      return std::max(1U, m.pieces_in_flight);
  }
}

/// Native blocks that may be left to fall through after a raise.
constexpr std::uint64_t blocks_after_raise(const candidate& c, const launch_facts& l,
                                           const machine_facts& m) {
  if (c.how != form::gated) return 0;
  const std::uint64_t chunks = std::max(1U, m.chunks_in_flight);
  return c.chunk >= l.tiles / chunks ? l.tiles : c.chunk * chunks;
}

/// Share of the places for blocks that a candidate occupies, 0 to 1: what it leaves is where blocks
/// of the latency-critical side can start before the others have left.
constexpr double occupied(const candidate& c, const launch_facts& l) {
  if (c.how != form::persistent || l.workers_fit == 0) return 1;
  return std::min(1.0, static_cast<double>(c.workers_per_sm) / l.workers_fit);
}

/// Whether a candidate is one the body and shape allow, with sensible numbers.
constexpr bool allowed(const candidate& c, const launch_facts& l, const machine_facts& m) {
  if (!allows(l, m, c.how)) return false;
  switch (c.how) {
    case form::persistent:
      return c.workers_per_sm >= 1 && c.workers_per_sm <= l.workers_fit && c.batch >= 1 &&
             c.batch <= 65535 && c.chunk == 0 && c.slices == 0;
    case form::gated:
      return c.chunk >= 1 && c.workers_per_sm == 0 && c.batch == 0 && c.slices == 0;
    case form::sliced:
      return c.slices >= 1 && c.slices <= l.tiles && c.workers_per_sm == 0 && c.batch == 0 &&
             c.chunk == 0;
    default:
      return c == whole();
  }
}

/// All candidates worth a thought: every number of workers up to 8 and then two for each doubling,
/// batches, chunks and slices in powers of two. At most a few hundred; no two are the same.
inline std::vector<candidate> enumerate(const launch_facts& l, const machine_facts& m) {
  std::vector<candidate> all;
  if (allows(l, m, form::persistent)) {
    std::uint64_t before = 0;
    for (unsigned w = 1;;) {
      const std::uint64_t workers = workers_of(persistent(w, 1), l, m);
      if (workers == before) break;  // no more tiles, or no more room
      before = workers;
      const std::uint32_t most = std::min(64U, largest_batch(l, m, w));
      for (std::uint32_t b = 1; b <= most; b *= 2) all.push_back(persistent(w, b));
      if (w >= l.workers_fit) break;
      w = std::min(w + (w < 8 ? 1U : std::bit_floor(w) / 2), l.workers_fit);
    }
  }
  if (allows(l, m, form::gated)) {
    for (std::uint64_t chunk = 1024;; chunk *= 4) {
      all.push_back(gated(chunk));
      if (chunk >= l.tiles || chunk >= std::uint64_t{1} << 20U) break;
    }
  }
  if (allows(l, m, form::sliced)) {
    const std::uint64_t wave = std::uint64_t{m.sms} * std::max(1U, l.native_fit);
    for (std::uint64_t k = 2; k <= 256 && l.tiles / k >= wave; k *= 2) all.push_back(sliced(k));
  }
  all.push_back(whole());
  return all;
}

/// In words, such as "persistent, 4 workers per SM, 2 tiles a claim".
[[nodiscard]] inline std::string to_text(const candidate& c) {
  const auto counted = [](std::uint64_t n, const char* one) {
    return std::to_string(n) + ' ' + one + (n == 1 ? "" : "s");
  };
  switch (c.how) {
    case form::persistent:
      return "persistent, " + counted(c.workers_per_sm, "worker") + " per SM, " +
             counted(c.batch, "tile") + " a claim";
    case form::gated:
      return "gated, chunks of " + counted(c.chunk, "block");
    case form::sliced:
      return counted(c.slices, "slice");
    default:
      return "whole";
  }
}

}  // namespace tuning

CEDE_END_NAMESPACE
