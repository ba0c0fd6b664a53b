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
#include <cede/detail/kernel_args.hpp>
#include <cede/protocol.hpp>

#if !CEDE_RTC
#include <cede/detail/registration.hpp>

#include <cuda_runtime.h>
#endif

CEDE_BEGIN_NAMESPACE

namespace detail {

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

/// What was read before is read again.
__device__ __forceinline__ void forget_memory() { asm volatile("" ::: "memory"); }

/// One thread of a submission's first block: moves the host's gate to where the workers meet it.
/// Leaves as soon as nothing more can be claimed.
__device__ inline bool watch(const worker_args& a, std::uint64_t limit) {
  if (!protocol::enter<atomics>(*a.words.chain, a.terms)) return false;
  while (!protocol::exhausted<atomics>(*a.words.slot, a.terms, limit)) {
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
  return a.linear ? a.grid.locate(a.first + at.x) : at;
}

template <class B>
__device__ __forceinline__ void run_native(const B& body, const native_args& a) {
  body(block(native_tile(a), a.grid.grid));
}

/// The tile of a gated block; none where the block falls through.
__device__ __forceinline__ mailbox gated_tile(const worker_args& a) {
  if (physical_block().x == 0) {
    if (is_leader()) watch(a, a.limit);
    return {};
  }
  auto* mail = reinterpret_cast<mailbox*>(cede_dynamic_shared + a.own);
  if (is_leader()) {
    protocol::claimed c{};
    if (protocol::enter<atomics>(*a.words.chain, a.terms) &&
        !protocol::notice<atomics, protocol::scope::device>(*a.words.device_gate, *a.words.slot,
                                                            a.terms)) {
      c = protocol::claim<atomics>(*a.words.slot, a.terms);
    }
    *mail = {c.first, 0, static_cast<std::uint16_t>(c.count != 0), false};
  }
  __syncthreads();
  const mailbox m = *mail;
  if (a.overlay) __syncthreads();  // the body may use these bytes
  return m;
}

template <class B>
__device__ __forceinline__ void run_gated(const B& body, const worker_args& a) {
  const mailbox m = gated_tile(a);
  if (m.count == 0) return;
  body(block(a.grid.locate(m.tile), a.grid.grid));
}

/// The words of the calling worker, in shared memory or, where that is full, in device memory.
__device__ __forceinline__ worker_words& words_in_shared(const worker_args& a) {
  return *reinterpret_cast<worker_words*>(cede_dynamic_shared + a.own);
}
__device__ __forceinline__ worker_words& words_in_memory(const worker_args& a) {
  return *reinterpret_cast<worker_words*>(a.words.words +
                                          (physical_block().x - 1) * worker_words_bytes);
}
/// For the leader. The address is hidden from the compiler, which would keep it in registers that
/// the body could have.
__device__ __forceinline__ worker_words& own_words(const worker_args& a) {
  worker_words* own = &(a.in_memory ? words_in_memory(a) : words_in_shared(a));
  asm volatile("" : "+l"(own));
  return *own;
}
/// For all threads: where it is in shared memory, the compiler sees it.
__device__ __forceinline__ mailbox read_mail(const worker_args& a, unsigned turn) {
  return a.in_memory ? words_in_memory(a).mail[turn] : words_in_shared(a).mail[turn];
}

// A variable, since device code may not call host functions, not even to make a constant.
template <class B>
inline constexpr bool gives_back = trait_independent<B>();
template <class B>
inline constexpr bool barrier_free = trait_barrier_free<B>();
template <class B>
inline constexpr bool keeps_state = trait_state_bytes<B>() != 0;

/// The leader's part when the tiles at hand are done: which are next? `yielded`: the last one was
/// left half done.
template <bool GivesBack>
__device__ __forceinline__ mailbox next_tiles(const worker_args& a, worker_words& own,
                                              bool yielded) {
  protocol::slot<atomics>& slot = *a.words.slot;
  protocol::holding& h = own.held;
  if constexpr (!GivesBack) {
    // Where the last claim ended is how far the cursor was seen.
    const protocol::claimed c =
        protocol::claim<atomics>(slot, a.terms, protocol::share(a.terms, h.next));
    h.next = c.first + c.count;
    return {c.first, 0, static_cast<std::uint16_t>(c.count), false};
  } else {
    if (yielded) {
      --h.next;
      ++h.left;
      h.half_done = true;
    }
    if (a.terms.records != 0 && h.left != 0 && (yielded || protocol::raised<atomics>(slot))) {
      protocol::give_back<atomics>(slot, a.words.records, h);
      return {};
    }
    if (h.left == 0) h = protocol::next<atomics>(slot, a.words.records, a.terms, own.place);
    if (h.left == 0) return {};
    // One at a time: the rest of a claim may have to be given back.
    const mailbox m{h.next, h.record, 1, h.half_done};
    ++h.next;
    --h.left;
    h.half_done = false;
    return m;
  }
}

// What the leader of a persistent launch does, be its worker a block or a cluster of blocks.

__device__ inline void count_out(const worker_args& a) {
  protocol::leave<atomics>(*a.words.slot, *a.words.chain, *a.words.published, a.terms);
}
/// The watcher's whole work: it is a participant like the workers.
__device__ inline void watch_and_leave(const worker_args& a) {
  if (watch(a, a.terms.tiles)) count_out(a);
}
/// `number`: of the worker, from 0. Fills the first mailbox.
template <bool GivesBack>
__device__ __forceinline__ void begin_work(const worker_args& a, worker_words& own,
                                           std::uint32_t number) {
  own.held = {};
  own.place = {number, a.terms.participants - 1, number, 0};  // the watcher is one, too
  own.longest = 0;
  own.entered_ns = 0;
  // Before the word that `enter` waits for, so that both are on their way at once.
  const std::uint32_t gate =
      atomics::load<protocol::order::relaxed, protocol::scope::device>(a.words.device_gate->epoch);
  mailbox first;
  if (protocol::enter<atomics>(*a.words.chain, a.terms)) {
    if (protocol::passed(gate, a.terms.epoch)) protocol::stop<atomics>(*a.words.slot, a.terms);
    first = next_tiles<GivesBack>(a, own, false);
    own.entered_ns = nanoseconds_now();
    own.entered_cycle = own.began = clock64();
  }
  own.mail[0] = first;
}
/// The tiles at hand are done: times them, and fills the mailbox for the next ones.
template <bool GivesBack>
__device__ __forceinline__ void go_on(const worker_args& a, worker_words& own, unsigned turn,
                                      bool yielded) {
  // In cycles: all SMs share the clock that counts nanoseconds. Per claim, the mean of its tiles:
  // per tile it would cost short ones several per cent.
  const std::uint64_t now = clock64();
  const std::uint32_t tiles = own.mail[turn].count;
  std::uint64_t took = now - own.began;
  if (tiles > 1) {
    took =
        static_cast<std::uint64_t>(__fdividef(static_cast<float>(took), static_cast<float>(tiles)));
  }
  own.began = now;
  if (took > own.longest) own.longest = took;
  const mailbox next = next_tiles<GivesBack>(a, own, yielded);
  own.mail[turn ^ 1U] = next;
  if (next.count != 0) return;
  // Here, and not in `end_work`, so that it is under way while slower warps end their tile.
  const auto cycles = static_cast<float>(now - own.entered_cycle);
  const auto ns = static_cast<float>(nanoseconds_now() - own.entered_ns);
  if (cycles > 0) {
    protocol::record_longest<atomics>(
        *a.words.slot, static_cast<std::uint64_t>(static_cast<float>(own.longest) * (ns / cycles)));
  }
}
__device__ __forceinline__ void end_work(const worker_args& a, const worker_words& own) {
  if (own.entered_ns != 0) count_out(a);
}

/// Programmatic dependent launch: nothing of this kernel, not even an exit, comes before the end of
/// the one in front. What a body loads depends on a mailbox that is filled afterwards, so that no
/// load of it can move above the wait, those through `const __restrict__` included.
__device__ inline void await_kernel_in_front() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Lets the next one's blocks in, when the tiles have run out rather than at the start: parked,
/// they would take the room that latency-critical blocks need.
__device__ inline void admit_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

template <class B>
__device__ __forceinline__ void run_persistent(const B& body, const worker_args& a) {
  await_kernel_in_front();
  const bool leader = is_leader();
  if (physical_block().x == 0) {
    if (leader) watch_and_leave(a);
    return;
  }
  if (leader) begin_work<gives_back<B>>(a, own_words(a), physical_block().x - 1);
  anyone_in_body();
  for (unsigned turn = 0;; turn ^= 1U) {
    mailbox m = read_mail(a, turn);
    if (m.count == 0) break;
    bool yielded = false;
    for (unsigned i = 0;;) {
      if constexpr (keeps_state<B>) {
        device_tile tile{a.words.slot, a.words.state + m.record * state_stride(a.state_bytes),
                         a.state_bytes, m.resumed, false};
        body(block(a.grid.locate(m.tile), a.grid.grid, &tile));
        yielded = tile.yielded;
      } else {
        body(block(a.grid.locate(m.tile + i), a.grid.grid));
      }
      await_async_copies();
      if constexpr (gives_back<B>) break;  // one at a time
      // Read anew, rather than kept in registers while the body runs, and before the barrier, where
      // there is time for it.
      forget_memory();
      m = read_mail(a, turn);
      if (++i == m.count) break;
      if constexpr (!barrier_free<B>) {
        while (anyone_in_body()) {
        }
      }
    }
    // The next claim is made while slower warps are still in this tile: of the tiles promised to a
    // raise it is the one "a worker may still finish".
    if (leader) go_on<gives_back<B>>(a, own_words(a), turn, yielded);
    while (anyone_in_body()) {
    }
  }
  admit_next_kernel();
  if (leader) end_work(a, own_words(a));
}

#if __CUDA_ARCH__ >= 900
/// Barrier of all threads of a cluster, of which none has exited.
__device__ inline void sync_cluster() {
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
}
/// The first block's copy of an object that lies at the same place in every block of the cluster.
template <class T>
__device__ inline T* in_first_block(T* mine) {
  std::uint64_t there;
  asm("mapa.u64 %0, %1, 0;" : "=l"(there) : "l"(mine));
  return reinterpret_cast<T*>(there);
}
__device__ inline index3 place_in_cluster() {
  index3 at;
  asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(at.x));
  asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(at.y));
  asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(at.z));
  return at;
}
__device__ inline index3 size_of_cluster() {
  index3 n;
  asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(n.x));
  asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(n.y));
  asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(n.z));
  return n;
}
#endif

/// Persistent workers that are clusters: one claim, one yield and one count for all their blocks.
/// `a.grid` is that of the clusters.
template <class B>
__device__ __forceinline__ void run_clustered(const B& body, const worker_args& a) {
#if __CUDA_ARCH__ >= 900
  await_kernel_in_front();
  const index3 place = place_in_cluster();
  const index3 size = size_of_cluster();
  const std::uint32_t number = physical_block().x / size.x;
  const bool leader = is_leader() && (place.x | place.y | place.z) == 0;
  if (number == 0) {
    if (leader) watch_and_leave(a);
    return;
  }
  // The first block's words count; the others read its mailboxes.
  worker_words* own =
      a.in_memory
          ? reinterpret_cast<worker_words*>(a.words.words + (number - 1) * worker_words_bytes)
          : in_first_block(reinterpret_cast<worker_words*>(cede_dynamic_shared + a.own));
  if (leader) begin_work<gives_back<B>>(a, *own, number - 1);
  sync_cluster();
  for (unsigned turn = 0;; turn ^= 1U) {
    mailbox m = own->mail[turn];
    if (m.count == 0) break;
    for (unsigned i = 0;;) {
      const index3 at = a.grid.locate(m.tile + i);
      body(block({at.x * size.x + place.x, at.y * size.y + place.y, at.z * size.z + place.z},
                 {a.grid.grid.x * size.x, a.grid.grid.y * size.y, a.grid.grid.z * size.z}));
      await_async_copies();
      forget_memory();
      m = own->mail[turn];
      const bool last = ++i == m.count;
      if (last && leader) go_on<gives_back<B>>(a, *own, turn, false);
      while (anyone_in_body()) {
      }
      sync_cluster();
      if (last) break;
    }
  }
  admit_next_kernel();
  sync_cluster();  // the first block stays until the others have read its mailbox
  if (leader) end_work(a, *own);
#endif
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
template <class B>
__global__ void clustered_kernel(const __grid_constant__ B body,
                                 const __grid_constant__ worker_args a) {
  run_clustered(body, a);
}
template <class B, unsigned Threads, unsigned Blocks>
__global__ void __launch_bounds__(Threads, Blocks)
    bounded_clustered_kernel(const __grid_constant__ B body,
                             const __grid_constant__ worker_args a) {
  run_clustered(body, a);
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

#if !CEDE_RTC

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
    if constexpr (Preemptible && trait_clustered<B>()) {
      if constexpr (threads == 0) {
        k.clustered = reinterpret_cast<const void*>(&kernels::clustered_kernel<B>);
      } else {
        k.clustered =
            reinterpret_cast<const void*>(&kernels::bounded_clustered_kernel<B, threads, blocks>);
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

#endif

}  // namespace detail

CEDE_END_NAMESPACE
