// SPDX-License-Identifier: Apache-2.0
// A persistent loop with nothing in it but tickets, tiles and a raise, which reaches the workers by
// one of several routes. The library uses the first; here they meet under equal conditions.
#pragma once

#include "measure/system_words.cuh"

#include <cuda_runtime.h>

namespace bench {

/// How a raise gets from the host to the leaders of the worker blocks.
enum class flag_route {
  none,            ///< it does not: the loop that the others are held against
  ticket_watcher,  ///< a block polls the host's word and sets a bit in the ticket word
  word_watcher,    ///< a block polls the host's word and forwards it to a word leaders read
  mapped,          ///< each leader reads the host's word before each claim
  asynchronous,    ///< a few leaders load it before a tile, use it after, and set the bit for all
  stream_write,    ///< the driver writes the word that leaders read before each claim
};

template <flag_route R>
inline constexpr bool has_watcher =
    R == flag_route::ticket_watcher || R == flag_route::word_watcher;

inline constexpr word64 flag_raised_bit = word64{1} << 63;
inline constexpr unsigned flag_threads = 256;

/// Device memory, zero at first; each word has a cache line of its own.
struct flag_words {
  alignas(128) word64 ticket;  ///< next tile, and the raised bit
  alignas(128) word64 raised;  ///< raises so far, where it is not the host's word that is read
  alignas(128) word64 stopped_at;
  alignas(128) unsigned left;  ///< blocks that have left
};

/// Memory both sides see.
struct flag_report {
  alignas(128) word64 raised;   ///< raises so far; the host writes it
  alignas(128) word64 started;  ///< the launch whose first tile was claimed last
  alignas(128) word64 cursor;   ///< tiles executed, of the whole grid
  word64 left;                  ///< the launch that `cursor` speaks of
};

struct flag_launch {
  flag_words* words;
  flag_report* report;
  float* out;      ///< one value a tile
  unsigned* runs;  ///< how often each tile ran
  word64 tiles;
  word64 id;            ///< of the launch, from 1
  word64 raises;        ///< those before it: it leaves when there are more
  unsigned rounds;      ///< of a tile
  unsigned blocks;      ///< that count themselves out
  unsigned poll_every;  ///< one leader of so many loads the host's word (asynchronous)
};

/// Kernels and what they call are hidden: every file of the programs may have them.
namespace flag_device {

/// Of several callers the first keeps the exact cursor: all tickets below it were handed out.
static __device__ __forceinline__ void set_raised_bit(const flag_launch& a) {
  const word64 before = atomicOr(&a.words->ticket, flag_raised_bit);
  if ((before & flag_raised_bit) == 0) {
    a.words->stopped_at = before < a.tiles ? before : a.tiles;
  }
}

/// The next tile; none at the end of the grid or after a raise. What was claimed is executed, so
/// that a loop without the bit needs no other cursor than its ticket word.
template <flag_route R>
__device__ __forceinline__ word64 claim(const flag_launch& a) {
  word64 raises = 0;
  if constexpr (R == flag_route::mapped) raises = load_system(&a.report->raised);
  if constexpr (R == flag_route::word_watcher) raises = load_device(&a.words->raised);
  if constexpr (R == flag_route::stream_write) raises = load_system(&a.words->raised);
  if (raises > a.raises) return a.tiles;
  return atomicAdd(&a.words->ticket, word64{1});
}

/// Ends at the latest when all tiles are claimed.
template <flag_route R>
__device__ void watch(const flag_launch& a) {
  while (load_device(&a.words->ticket) < a.tiles) {
    const word64 raises = load_system(&a.report->raised);
    if (raises <= a.raises) continue;
    if constexpr (R == flag_route::ticket_watcher) set_raised_bit(a);
    if constexpr (R == flag_route::word_watcher) atomicMax(&a.words->raised, raises);
    break;
  }
}

/// The last block out makes the words ready for the next launch and tells the host.
static __device__ void count_out(const flag_launch& a) {
  __threadfence();
  if (atomicAdd(&a.words->left, 1U) + 1 != a.blocks) return;
  __threadfence();
  const word64 ticket = load_device(&a.words->ticket);
  word64 reached = (ticket & flag_raised_bit) != 0 ? load_device(&a.words->stopped_at) : ticket;
  if (reached > a.tiles) reached = a.tiles;
  a.words->ticket = reached == a.tiles ? 0 : reached;
  a.words->left = 0;
  store_system(&a.report->cursor, reached);
  __threadfence_system();
  store_system(&a.report->left, a.id);
}

/// Blocks of `flag_threads` threads, all resident; block 0 is the watcher where there is one.
template <flag_route R>
__global__ void __launch_bounds__(flag_threads) loop(const __grid_constant__ flag_launch a) {
  __shared__ word64 next[2];
  const bool leader = threadIdx.x == 0;
  if constexpr (has_watcher<R>) {
    if (blockIdx.x == 0) {
      if (leader) {
        watch<R>(a);
        count_out(a);
      }
      return;
    }
  }
  const unsigned worker = blockIdx.x - (has_watcher<R> ? 1 : 0);
  const bool polls = R == flag_route::asynchronous && leader && worker % a.poll_every == 0;
  if (leader) {
    next[0] = claim<R>(a);
    if (worker == 0) store_system(&a.report->started, a.id);
  }
  __syncthreads();
  for (unsigned turn = 0;; turn ^= 1U) {
    const word64 tile = next[turn];
    if (tile >= a.tiles) break;
    word64 raises = 0;
    if (polls) raises = load_system(&a.report->raised);  // arrives while the tile runs
    float v = static_cast<float>(tile & 1023U) + static_cast<float>(threadIdx.x);
    for (unsigned i = 0; i < a.rounds; ++i) v = v * 0.999F + 0.5F;
    // Never less than 0: no more than one thread stores, but all have to calculate.
    if (v < 0 || leader) a.out[tile] = v;
    if (leader) {
      atomicAdd(a.runs + tile, 1U);
      if (polls && raises > a.raises) set_raised_bit(a);
      next[turn ^ 1U] = claim<R>(a);  // while slower warps are still in this tile
    }
    __syncthreads();
  }
  if (leader) count_out(a);
}

/// Counts tiles that did not run `times` times, and forgets what ran.
static __global__ void check(unsigned* runs, word64 tiles, unsigned times, unsigned* wrong) {
  const word64 step = word64{gridDim.x} * blockDim.x;
  for (word64 i = word64{blockIdx.x} * blockDim.x + threadIdx.x; i < tiles; i += step) {
    if (runs[i] != times) atomicAdd(wrong, 1U);
    runs[i] = 0;
  }
}

}  // namespace flag_device

}  // namespace bench
