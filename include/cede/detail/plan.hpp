// SPDX-License-Identifier: Apache-2.0
// How a launch will run: form, workers, batch, chunk. Decided from facts alone; nothing is launched
// here. Until the tuner measures, the defaults are the ones the first measurements favour: few
// workers per SM, one tile per claim.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/shape.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

CEDE_BEGIN_NAMESPACE

/// How one launch is to run. Zero or `automatic` leaves the choice to the library.
struct launch_options {
  cede::form form = cede::form::automatic;
  /// Resident workers per SM of a persistent launch; more than fit are cut to what fits.
  unsigned workers_per_sm = 0;
  /// Tiles a worker takes at once, at most 65535; multiplies turnaround.
  unsigned tiles_per_claim = 0;
  /// Native blocks launched at once in the gated form.
  std::uint64_t chunk = 0;
  /// Number of slices of a sliced launch.
  std::uint64_t slices = 0;
  /// Start workers while those of the launch in front are ending (programmatic dependent launch);
  /// they wait until it has ended. Persistent form, GPUs from sm_90 on; ignored elsewhere.
  bool overlap = false;
  /// Never preempt this launch: same as `form::whole`.
  bool whole = false;
};

namespace detail {

inline constexpr unsigned default_workers_per_sm = 4;
inline constexpr unsigned most_tiles_per_claim = 65535;
inline constexpr std::uint64_t default_chunk = 4096;
/// Chunks queued at once: what a raise leaves to fall through is bounded by it.
inline constexpr unsigned chunks_per_submission = 8;

/// Device memory of a persistent launch beside its control words, an entry per worker; offsets in
/// bytes. Its contents need not outlive the launch, nor be anything at its start.
struct worker_memory {
  std::size_t words = 0;  ///< the workers' own, where shared memory has no room for them
  std::size_t state = 0;  ///< what tiles left half done keep
  std::size_t bytes = 0;
};

struct plan {
  form how = form::whole;
  std::uint64_t tiles =
      0;  ///< what is claimed: tiles, or clusters of tiles where those are workers
  std::uint64_t workers = 0;  ///< persistent
  std::uint32_t batch = 1;    ///< persistent
  std::uint32_t guide = 0;    ///< persistent
  std::uint32_t records = 0;  ///< persistent: 0 = every claimed tile is executed
  worker_memory memory{};     ///< persistent
  std::uint64_t chunk = 0;    ///< gated
  std::uint64_t slices = 1;   ///< sliced
  unsigned workers_per_sm = 0;
  bool overlap = false;  ///< persistent
};

/// The form a launch takes, from what the body allows and the caller asks. Throws `not_supported`
/// in a sentence where they contradict.
inline form choose_form(const device_facts& facts, const kernel_entry& k, const shape& s,
                        const launch_options& o) {
  const std::string name(k.name);
  if (o.form > form::persistent) {
    throw invalid_argument("launch of " + name + ": launch_options.form is " +
                           std::to_string(static_cast<unsigned>(o.form)) +
                           ", which is none of cede::form");
  }
  form how = o.whole ? form::whole : o.form;
  if (how == form::automatic && o.slices > 0) how = form::sliced;
  const bool clusters = s.cluster != extent{};
  const bool preemptible = clusters ? k.traits.clustered && facts.clusters : !k.traits.whole;
  if (!preemptible || k.traits.whole) {
    if (how != form::automatic && how != form::whole) {
      throw not_supported("launch of " + name + ": " +
                          (k.traits.whole   ? "the body is declared `whole` and runs whole only"
                           : facts.clusters ? "its thread-block clusters run whole, unless the "
                                              "body is declared `clustered`"
                                            : "this device has no thread-block clusters to keep "
                                              "together, it runs whole") +
                          "; ask for form::whole or none");
    }
    return form::whole;
  }
  if (clusters && how != form::automatic && how != form::whole && how != form::persistent) {
    throw not_supported("launch of " + name +
                        ": thread-block clusters run whole or in persistent workers; ask for "
                        "form::persistent, form::whole or none");
  }
  if (how == form::automatic) how = k.traits.native ? form::gated : form::persistent;
  if (how == form::persistent && k.traits.native) {
    throw not_supported("launch of " + name +
                        ": the body is declared `native` and cannot run in persistent workers; use "
                        "form::gated");
  }
  return how;
}

constexpr worker_memory lay_out(std::uint64_t workers, bool words, std::size_t state_bytes) {
  worker_memory m;
  m.state = words ? workers * worker_words_bytes : 0;
  m.bytes = m.state + workers * state_stride(state_bytes);
  return m;
}

/// Decides a launch; `resident` tells how many of its blocks (persistent clusters: clusters) fit on
/// the device at once, `words_in_memory` that its shared memory has no room for the workers' words.
template <class Resident>
plan make_plan(const device_facts& facts, const kernel_entry& k, const shape& s,
               const launch_options& o, Resident&& resident, bool words_in_memory = false) {
  validate(s, facts.limits, k.name);
  plan p;
  p.how = choose_form(facts, k, s, o);
  const std::uint64_t fit = resident(p.how);
  p.tiles = s.tiles() / (p.how == form::persistent ? s.cluster.count() : 1);
  const std::uint64_t tiles = p.tiles;
  switch (p.how) {
    case form::persistent: {
      const std::uint64_t wanted =
          o.workers_per_sm == 0 ? default_workers_per_sm : o.workers_per_sm;
      const std::uint64_t at_most = fit / facts.sms * s.cluster.count();  // blocks per SM
      p.workers_per_sm =
          static_cast<unsigned>(std::min(wanted, std::max<std::uint64_t>(at_most, 1)));
      // The watcher takes a worker's place for as long as tiles are left; where no place is free,
      // one worker less starts, instead of one that waits for the watcher to end.
      p.workers = std::max<std::uint64_t>(wanted * facts.sms / s.cluster.count(), 1);
      p.workers =
          std::min(p.workers, std::max<std::uint64_t>(fit, facts.watchers + 1) - facts.watchers);
      p.workers = std::min(p.workers, tiles);
      p.overlap = o.overlap;
      p.batch = std::clamp(o.tiles_per_claim, 1U, most_tiles_per_claim);
      // At most half of an even share of what is left, so that no worker ends a batch late.
      if (p.batch > 1) p.guide = static_cast<std::uint32_t>(std::bit_width(2 * p.workers - 1));
      if (k.traits.independent && (p.batch > 1 || k.state_bytes != 0))
        p.records = static_cast<std::uint32_t>(p.workers);
      p.memory = lay_out(p.workers, words_in_memory, p.records != 0 ? k.state_bytes : 0);
      break;
    }
    case form::gated:
      p.chunk =
          std::min<std::uint64_t>(o.chunk == 0 ? default_chunk : o.chunk, std::uint64_t{1} << 30U);
      break;
    case form::sliced:
      // A native launch carries at most 2^31 - 1 blocks along x.
      p.slices = std::max<std::uint64_t>({1, o.slices, (tiles + 2147483646U) / 2147483647U});
      p.slices = std::min(p.slices, tiles);
      break;
    default:
      break;
  }
  return p;
}

/// Tiles a worker may run to their ends after a raise: what is left of its claim, and the one that
/// its leader has made meanwhile. What can be given back is, except for the first of each.
constexpr std::uint32_t tiles_after_raise(const plan& p) {
  if (p.how != form::persistent) return 1;
  return p.records != 0 ? 2 : 2 * p.batch;
}

/// The batch that keeps a turnaround, given the longest tile seen (0 = none seen yet).
constexpr std::uint32_t batch_within(const plan& p, std::chrono::nanoseconds turnaround,
                                     std::chrono::nanoseconds longest) {
  if (p.records != 0 || p.batch <= 1 || longest.count() <= 0) return p.batch;
  const std::int64_t tiles = turnaround / longest;
  return tiles >= 2 * std::int64_t{p.batch} ? p.batch
         : tiles >= 2                       ? static_cast<std::uint32_t>(tiles / 2)
                                            : 1;
}

/// What a persistent submission of the plan carries beside `terms` of the launch: how many workers,
/// what they claim, where `p.memory.bytes` bytes of memory are (null if that is 0).
inline void fill_persistent(submission& what, const plan& p, std::uint64_t rest, unsigned watchers,
                            std::byte* memory) {
  // Records are read by the workers they belong to, however little is left to claim.
  what.count = p.records != 0 ? p.workers : std::min(p.workers, rest);
  what.overlap = p.overlap;
  what.terms.batch = p.batch;
  what.terms.guide = p.guide;
  what.terms.records = p.records;
  what.terms.participants = static_cast<std::uint32_t>(what.count) + watchers;
  what.words.words = memory;
  what.words.state = memory == nullptr ? nullptr : memory + p.memory.state;
}

/// Decides a launch on a device, whose code for the body is loaded. Throws `invalid_argument` where
/// no block fits.
inline plan plan_on(device& d, const kernel_entry& k, const shape& s, const launch_options& o) {
  return make_plan(
      d.facts(), k, s, o,
      [&](form how) {
        std::string why;
        const bool clusters = how == form::persistent && s.cluster != extent{};
        const std::uint64_t fit =
            clusters ? d.resident_clusters(k, s, &why)
                     : std::uint64_t{d.blocks_per_sm(k, s, how, &why)} * d.facts().sms;
        if (fit == 0) throw invalid_argument("launch of " + std::string(k.name) + ": " + why);
        return fit;
      },
      d.words_in_memory(k, s));
}

}  // namespace detail

CEDE_END_NAMESPACE
