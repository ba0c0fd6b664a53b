// SPDX-License-Identifier: Apache-2.0
// What crosses from a launch to the kernels around a body, and what those keep in shared memory.
// Device code: nothing of the host is named here, so that NVRTC compiles it, too.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/atomics.hpp>
#include <cede/detail/tile_locator.hpp>
#include <cede/protocol.hpp>

#include <cstddef>
#include <cstdint>

CEDE_BEGIN_NAMESPACE

namespace detail {

using gate_words = protocol::gate<atomics>;
using slot_words = protocol::slot<atomics>;
using chain_words = protocol::chain<atomics>;
using publication_words = protocol::publication<atomics>;
using record_words = protocol::record<atomics>;
using activity_words = protocol::activity<atomics>;

/// Where one submission finds its words.
struct control {
  slot_words* slot = nullptr;
  chain_words* chain = nullptr;
  gate_words* host_gate = nullptr;    ///< in memory both sides see
  gate_words* device_gate = nullptr;  ///< the device's copy; may be null where it reads the host's
  publication_words* published = nullptr;
  record_words* records = nullptr;  ///< terms.records of them; null if none
  std::byte* words = nullptr;       ///< of the workers, where shared memory has no room for them
  std::byte* state = nullptr;       ///< what tiles left half done keep, an area per record
};

struct native_args {
  tile_locator grid;        ///< of the whole launch, as the body sees it
  std::uint64_t first = 0;  ///< first tile, where `linear`
  bool linear = false;      ///< the native grid is one row of tiles starting at `first`
};

struct worker_args {
  protocol::terms terms{};
  control words{};
  tile_locator grid;
  std::uint64_t limit = 0;        ///< gated: cursor at which this chunk is used up
  std::uint32_t own = 0;          ///< byte offset of the adapter's words in dynamic shared memory
  std::uint32_t state_bytes = 0;  ///< persistent: what a tile left half done keeps
  bool overlay = false;           ///< gated: they share the body's bytes, for a barrier more
  bool in_memory = false;         ///< persistent: they are in device memory
};

/// Where the leader of a block leaves tiles for the others. Aligned to be read at once.
struct alignas(16) mailbox {
  std::uint64_t tile = 0;    ///< the first
  std::uint32_t record = 0;  ///< persistent: that of the worker, or that the tile came from
  std::uint16_t count = 0;   ///< 0: the worker leaves
  bool resumed = false;
};

/// Bytes of a worker's own words.
inline constexpr std::size_t worker_words_bytes = 128;

/// What a persistent worker knows, in shared memory rather than in registers of every thread. Two
/// mailboxes: a slow warp may still read one while the leader fills the other.
struct worker_words {
  mailbox mail[2];
  protocol::holding held;
  protocol::worker place;
  std::uint64_t began = 0;          ///< the present claim, in cycles of the SM
  std::uint64_t longest = 0;        ///< tile so far, likewise; of a claim, the mean
  std::uint64_t entered_cycle = 0;  ///< when the worker began, to tell how long a cycle is
  std::uint64_t entered_ns = 0;     ///< likewise; 0: it has not entered
};
static_assert(sizeof(worker_words) <= worker_words_bytes);

/// Distance of two tiles' states: whole cache lines.
CEDE_BODY constexpr std::size_t state_stride(std::size_t bytes) {
  return (bytes + 127) / 128 * 128;
}

}  // namespace detail

CEDE_END_NAMESPACE
