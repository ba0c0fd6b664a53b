// SPDX-License-Identifier: Apache-2.0
// Two kernels that get into each other's way through the memory system alone: both make what they
// write visible to the whole system, tile by tile, and what one streams drives what the other reads
// out of the second-level cache.
#pragma once

#include "measure/system_words.cuh"

#include <cuda_runtime.h>

namespace bench {

inline constexpr unsigned fenced_threads = 256;
inline constexpr unsigned background_loads = 4;  ///< of 16 bytes, a thread and tile
inline constexpr unsigned background_tile = background_loads * fenced_threads;
inline constexpr unsigned critical_steps = 4;  ///< each ends with a fence
inline constexpr unsigned critical_loads = 8;  ///< of 16 bytes, a thread and step
inline constexpr unsigned critical_share = critical_steps * critical_loads * fenced_threads;

/// Device memory, zero at first.
struct background_words {
  alignas(128) word64 ticket;
  alignas(128) word64 stop;  ///< the launch that was told to end last
  alignas(128) word64 begin_ns;
  alignas(128) unsigned left;
};
/// Memory both sides see.
struct background_report {
  alignas(128) word64 stop;  ///< the host writes it
  alignas(128) word64 started;
  alignas(128) word64 tickets;  ///< of all launches
  word64 ns;                    ///< how long the launch ran
  word64 left;                  ///< the launch that these speak of
};
struct background_launch {
  background_words* words;
  background_report* report;
  word64* host_lines;  ///< 256 bytes a block, in the host's memory
  uint4* array;
  word64 tiles;  ///< of the array
  word64 id;
  word64 limit_ns;  ///< ends by itself after that
};

/// Device memory; `begin_ns` all ones at first, the rest zero.
struct critical_words {
  alignas(128) word64 begin_ns;
  alignas(128) unsigned left;
};
struct critical_report {
  alignas(128) word64 ns;  ///< from the first block's begin to the last one's end
  word64 done;
};
struct critical_launch {
  critical_words* words;
  critical_report* report;
  const uint4* in;  ///< `critical_share` a block
  unsigned* sums;   ///< one a thread
  word64 id;
};

namespace fenced {

/// Best-effort: persistent blocks that add one to each word of an array, over and over.
static __global__ void __launch_bounds__(fenced_threads)
    background(const __grid_constant__ background_launch a) {
  constexpr word64 none = ~word64{0};
  __shared__ word64 next;
  const unsigned t = threadIdx.x;
  const word64 begin = nanoseconds_now();
  if (blockIdx.x == 0 && t == 0) {
    a.words->begin_ns = begin;
    store_system(&a.report->started, a.id);
  }
  for (;;) {
    if (t == 0) {
      // One block asks the host, all ask the device.
      if (blockIdx.x == 0 && load_system(&a.report->stop) >= a.id) atomicMax(&a.words->stop, a.id);
      const bool ends =
          load_device(&a.words->stop) >= a.id || nanoseconds_now() - begin > a.limit_ns;
      next = ends ? none : atomicAdd(&a.words->ticket, word64{1});
    }
    __syncthreads();
    const word64 ticket = next;
    __syncthreads();
    if (ticket == none) break;
    uint4* p = a.array + ticket % a.tiles * background_tile + t;
    uint4 v[background_loads];
#pragma unroll
    for (unsigned i = 0; i < background_loads; ++i) v[i] = p[i * fenced_threads];
#pragma unroll
    for (unsigned i = 0; i < background_loads; ++i) {
      p[i * fenced_threads] = make_uint4(v[i].x + 1, v[i].y + 1, v[i].z + 1, v[i].w + 1);
    }
    if (t < 32) a.host_lines[blockIdx.x * 32 + t] = ticket;
    __threadfence_system();
  }
  if (t != 0) return;
  __threadfence();
  if (atomicAdd(&a.words->left, 1U) + 1 != gridDim.x) return;
  __threadfence();
  a.words->left = 0;
  store_system(&a.report->tickets, load_device(&a.words->ticket));
  store_system(&a.report->ns, nanoseconds_now() - load_device(&a.words->begin_ns));
  __threadfence_system();
  store_system(&a.report->left, a.id);
}

/// Latency-critical: adds up an array that fits the second-level cache.
static __global__ void __launch_bounds__(fenced_threads)
    critical(const __grid_constant__ critical_launch a) {
  const unsigned t = threadIdx.x;
  const word64 begin = nanoseconds_now();
  const uint4* p = a.in + word64{blockIdx.x} * critical_share + t;
  unsigned sum = 0;
  for (unsigned step = 0; step < critical_steps; ++step) {
#pragma unroll
    for (unsigned i = 0; i < critical_loads; ++i, p += fenced_threads) {
      const uint4 v = *p;
      sum += v.x + v.y + v.z + v.w;
    }
    a.sums[blockIdx.x * fenced_threads + t] = sum;
    __threadfence_system();
    __syncthreads();
  }
  if (t != 0) return;
  atomicMin(&a.words->begin_ns, begin);
  __threadfence();
  if (atomicAdd(&a.words->left, 1U) + 1 != gridDim.x) return;
  __threadfence();
  store_system(&a.report->ns, nanoseconds_now() - load_device(&a.words->begin_ns));
  a.words->left = 0;
  a.words->begin_ns = ~word64{0};
  __threadfence_system();
  store_system(&a.report->done, a.id);
}

/// Adds all words of an array up.
static __global__ void add_up(const uint4* p, word64 n, word64* sum) {
  const word64 step = word64{gridDim.x} * blockDim.x;
  word64 mine = 0;
  for (word64 i = word64{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    mine += word64{p[i].x} + p[i].y + p[i].z + p[i].w;
  }
  atomicAdd(sum, mine);
}

}  // namespace fenced

}  // namespace bench
