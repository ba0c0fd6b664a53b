// SPDX-License-Identifier: Apache-2.0
// The kernels around a body: native (whole and slices), gated blocks, persistent workers, and the
// closing step of the gated form. All transitions are those of protocol.hpp.
#pragma once

#include <cede/config.hpp>

#if !CEDE_NVCC
#error "cede/detail/cuda_kernels.hpp holds device code: compile this file with nvcc"
#endif

#include <cede/block.hpp>
#include <cede/body.hpp>
#include <cede/detail/atomics.hpp>
#include <cede/detail/cuda_launch.hpp>
#include <cede/detail/registration.hpp>
#include <cede/protocol.hpp>

#include <cuda_runtime.h>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Where the leader leaves the next tile for the block. Two of them: a slow warp may still read one
/// while the leader fills the other.
struct mailbox {
  std::uint32_t x, y, z, valid;
};

__device__ inline unsigned long long nanoseconds_now() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

/// Where a block stands in the grid that was launched, which is not where its tile stands in the
/// grid the body sees. Marked, so that <cede/port/check.hpp> can tell these reads from a body's.
__device__ inline index3 physical_block() {
  index3 at;
  asm("/* cede: physical block */ mov.u32 %0, %%ctaid.x;" : "=r"(at.x));
  asm("/* cede: physical block */ mov.u32 %0, %%ctaid.y;" : "=r"(at.y));
  asm("/* cede: physical block */ mov.u32 %0, %%ctaid.z;" : "=r"(at.z));
  return at;
}

__device__ inline bool is_leader() { return (threadIdx.x | threadIdx.y | threadIdx.z) == 0; }

/// The end-of-tile side of the vote barrier: true while some thread is still in the body.
__device__ inline bool anyone_in_body() {
  int any;
  asm volatile(
      "{\n\t.reg .pred in, any;\n\tsetp.ne.u32 in, 0, 0;\n\t"
      "barrier.cta.red.or.pred any, 0, in;\n\tselp.s32 %0, 1, 0, any;\n\t}"
      : "=r"(any)::"memory");
  return any != 0;
}

/// A tile's end is no block's exit: what the thread has copied asynchronously into shared memory
/// must have arrived before the next tile uses it.
__device__ inline void await_async_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// Tile number to coordinates, x fastest.
__device__ inline mailbox locate(std::uint64_t tile, const index3& grid) {
  if (grid.y == 1 && grid.z == 1) return {static_cast<std::uint32_t>(tile), 0, 0, 1};
  if ((tile >> 32U) == 0) {  // nearly always; 64-bit division takes several times as long
    const auto low = static_cast<std::uint32_t>(tile);
    const std::uint32_t line = low / grid.x;
    if (grid.z == 1) return {low - line * grid.x, line, 0, 1};
    const std::uint32_t layer = line / grid.y;
    return {low - line * grid.x, line - layer * grid.y, layer, 1};
  }
  const std::uint64_t row = tile / grid.x;
  const auto x = static_cast<std::uint32_t>(tile - row * grid.x);
  if (grid.z == 1) return {x, static_cast<std::uint32_t>(row), 0, 1};
  const std::uint64_t plane = row / grid.y;
  return {x, static_cast<std::uint32_t>(row - plane * grid.y), static_cast<std::uint32_t>(plane),
          1};
}

__device__ inline mailbox* mail_at(std::uint32_t offset) {
  return reinterpret_cast<mailbox*>(cede_dynamic_shared + offset);
}

/// One thread of a submission's first block: moves the host's gate to where the workers meet it.
/// Leaves as soon as nothing more can be claimed.
__device__ inline bool watch(const worker_args& a, std::uint64_t limit) {
  if (!protocol::enter<atomics>(*a.words.chain, a.terms)) return false;
  while (!protocol::exhausted<atomics>(*a.words.slot, limit)) {
    const std::uint32_t now =
        atomics::load<protocol::order::relaxed, protocol::scope::system>(a.words.host_gate->epoch);
    if (protocol::passed(now, a.terms.epoch)) {
      protocol::forward<atomics>(*a.words.device_gate, now);
      protocol::stop<atomics>(*a.words.slot, a.terms);
      break;
    }
  }
  return true;
}

/// The tile of a native block.
__device__ __forceinline__ index3 native_tile(const native_args& a) {
  const index3 at = physical_block();
  if (!a.linear) return at;
  const mailbox m = locate(a.first + at.x, a.grid);
  return {m.x, m.y, m.z};
}

template <class B>
__device__ __forceinline__ void run_native(const B& body, const native_args& a) {
  body(block(native_tile(a), a.grid));
}

/// The tile of a gated block; not valid where the block falls through.
__device__ __forceinline__ mailbox gated_tile(const worker_args& a) {
  if (physical_block().x == 0) {
    if (is_leader()) watch(a, a.limit);
    return {0, 0, 0, 0};
  }
  mailbox* mail = mail_at(a.mail);
  if (is_leader()) {
    protocol::claimed c{};
    if (protocol::enter<atomics>(*a.words.chain, a.terms) &&
        !protocol::notice<atomics, protocol::scope::device>(*a.words.device_gate, *a.words.slot,
                                                            a.terms)) {
      c = protocol::claim<atomics>(*a.words.slot, a.terms);
    }
    mail[0] = c.count != 0 ? locate(c.first, a.grid) : mailbox{0, 0, 0, 0};
  }
  __syncthreads();
  const mailbox m = mail[0];
  if (a.overlay) __syncthreads();  // the body may use these bytes
  return m;
}

template <class B>
__device__ __forceinline__ void run_gated(const B& body, const worker_args& a) {
  const mailbox m = gated_tile(a);
  if (m.valid == 0) return;
  body(block({m.x, m.y, m.z}, a.grid));
}

/// The tiles a worker holds, and its clock.
struct worker_state {
  std::uint64_t next = 0;
  std::uint32_t left = 0;
  unsigned long long began = 0;
  unsigned long long longest = 0;
};

__device__ inline mailbox next_tile(const worker_args& a, worker_state& w) {
  if (w.left == 0) {
    const protocol::claimed c = protocol::claim<atomics>(*a.words.slot, a.terms);
    w.next = c.first;
    w.left = c.count;
  }
  if (w.left == 0) return {0, 0, 0, 0};
  --w.left;
  return locate(w.next++, a.grid);
}

template <class B>
__device__ __forceinline__ void run_persistent(const B& body, const worker_args& a) {
  const bool leader = is_leader();
  if (physical_block().x == 0) {
    if (leader && watch(a, a.terms.tiles)) {
      protocol::leave<atomics>(*a.words.slot, *a.words.chain, *a.words.published, a.terms);
    }
    return;
  }
  mailbox* mail = mail_at(a.mail);
  worker_state w;
  bool entered = false;
  if (leader) {
    entered = protocol::enter<atomics>(*a.words.chain, a.terms);
    mailbox m{0, 0, 0, 0};
    if (entered) {
      protocol::notice<atomics, protocol::scope::device>(*a.words.device_gate, *a.words.slot,
                                                         a.terms);
      m = next_tile(a, w);
      w.began = nanoseconds_now();
    }
    mail[0] = m;
  }
  anyone_in_body();
  for (unsigned turn = 0;; turn ^= 1U) {
    const mailbox m = mail[a.overlay ? 0 : turn];
    if (a.overlay) anyone_in_body();
    if (m.valid == 0) break;
    body(block({m.x, m.y, m.z}, a.grid));
    await_async_copies();
    // The next claim is made while slower warps are still in this tile: of the tiles promised to a
    // raise it is the one "a worker may still finish".
    mailbox next{0, 0, 0, 0};
    if (leader && !a.overlay) mail[turn ^ 1U] = next = next_tile(a, w);
    while (anyone_in_body()) {
    }
    if (a.overlay) {
      if (leader) mail[0] = next = next_tile(a, w);
      anyone_in_body();
    }
    if (leader) {
      const unsigned long long now = nanoseconds_now();
      if (now - w.began > w.longest) w.longest = now - w.began;
      w.began = now;
    }
  }
  if (leader && entered) {
    protocol::record_longest<atomics>(*a.words.slot, std::uint64_t{w.longest});
    protocol::leave<atomics>(*a.words.slot, *a.words.chain, *a.words.published, a.terms);
  }
}

// Hidden by the namespace: two shared libraries may each hold the same kernel template, and an
// attribute on the template itself is refused for bodies without linkage.
namespace CEDE_HIDDEN kernels {

// Two sets of entry points: with the body's launch bounds, and without where it declares none.
template <class B>
__global__ void native_kernel(const __grid_constant__ B body,
                              const __grid_constant__ native_args a) {
  run_native(body, a);
}
template <class B>
__global__ void gated_kernel(const __grid_constant__ B body,
                             const __grid_constant__ worker_args a) {
  run_gated(body, a);
}
template <class B>
__global__ void persistent_kernel(const __grid_constant__ B body,
                                  const __grid_constant__ worker_args a) {
  run_persistent(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_native_kernel(const __grid_constant__ B body, const __grid_constant__ native_args a) {
  run_native(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_gated_kernel(const __grid_constant__ B body, const __grid_constant__ worker_args a) {
  run_gated(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_persistent_kernel(const __grid_constant__ B body,
                              const __grid_constant__ worker_args a) {
  run_persistent(body, a);
}

/// Behind the chunks of a gated submission: reads how far they came and publishes it.
template <class Tag>
__global__ void closing_kernel(const __grid_constant__ worker_args a) {
  if (protocol::enter<atomics>(*a.words.chain, a.terms)) {
    protocol::close<atomics>(*a.words.slot, *a.words.chain, *a.words.published, a.terms);
  }
}
struct closing_tag {};

}  // namespace CEDE_HIDDEN kernels

CEDE_HIDDEN inline int resolve_symbol(const void* symbol, void** function) {
  return static_cast<int>(cudaGetFuncBySymbol(reinterpret_cast<cudaFunction_t*>(function), symbol));
}

template <class B, bool Preemptible>
struct device_code<B, compiler::nvcc, Preemptible> {
  static cuda_kernels make() {
    constexpr unsigned threads = trait_max_threads<B>();
    constexpr unsigned blocks = trait_min_blocks<B>();
    cuda_kernels k;
    k.resolve = &resolve_symbol;
    if constexpr (threads == 0) {
      k.native = reinterpret_cast<const void*>(&kernels::native_kernel<B>);
      if constexpr (Preemptible) k.gated = reinterpret_cast<const void*>(&kernels::gated_kernel<B>);
      if constexpr (Preemptible && !trait_native<B>()) {
        k.persistent = reinterpret_cast<const void*>(&kernels::persistent_kernel<B>);
      }
    } else {
      k.native = reinterpret_cast<const void*>(&kernels::bounded_native_kernel<B, threads, blocks>);
      if constexpr (Preemptible) {
        k.gated = reinterpret_cast<const void*>(&kernels::bounded_gated_kernel<B, threads, blocks>);
      }
      if constexpr (Preemptible && !trait_native<B>()) {
        k.persistent =
            reinterpret_cast<const void*>(&kernels::bounded_persistent_kernel<B, threads, blocks>);
      }
    }
    if constexpr (Preemptible)
      k.closing = reinterpret_cast<const void*>(&kernels::closing_kernel<kernels::closing_tag>);
    return k;
  }
  static const cuda_kernels* get() {
    static const cuda_kernels k = make();
    return &k;
  }
};

}  // namespace detail

CEDE_END_NAMESPACE
