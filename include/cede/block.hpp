// SPDX-License-Identifier: Apache-2.0
// What a body sees of its tile: where it is, its threads, its barrier and its shared memory.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/atomics.hpp>
#include <cede/protocol.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if !CEDE_RTC
#include <atomic>
#endif

CEDE_BEGIN_NAMESPACE

namespace detail {

#if CEDE_RTC
class host_tile;
#else
/// What the host device lends a tile while it runs: the barrier and the shared memory.
class host_tile {
 public:
  virtual void sync() = 0;
  /// Storage of `bytes` bytes named by `key`, the same for all threads of the tile.
  virtual void* shared(const void* key, std::size_t bytes, std::size_t align) = 0;
  virtual void* dynamic_shared() = 0;
  virtual bool should_yield() = 0;
  [[nodiscard]] virtual bool resumed() const = 0;
  /// Where the tile keeps its state; throws unless it holds one of `bytes` bytes.
  [[nodiscard]] virtual void* state(std::size_t bytes) const = 0;

 protected:
  ~host_tile() = default;
};
#endif

/// One address per (type, tag): names a static shared object on the host device.
template <class T, int Tag>
struct shared_key {
  static constexpr char value = 0;
};

/// The same for a tile of a persistent launch on the CUDA device, a copy per thread.
struct device_tile {
  const protocol::slot<atomics>* slot = nullptr;
  void* state = nullptr;
  std::uint32_t state_bytes = 0;
  bool resumed = false;
  bool yielded = false;
};

#if CEDE_NVCC
extern __shared__ __align__(128) unsigned char cede_dynamic_shared[];
#endif

}  // namespace detail

/// One tile, as its body sees it. Passed by value; cheap to copy; valid during the call only.
///
/// Every member may be called by every thread of the tile, on the CUDA device and on the host
/// device alike. Only `sync()` and `should_yield()` wait.
class block {
 public:
  /// Position of this tile in the grid of the launch (what `blockIdx` is natively).
  [[nodiscard]] CEDE_BODY index3 index() const { return index_; }
  /// Tiles of the launch along each axis (natively `gridDim`).
  [[nodiscard]] CEDE_BODY index3 grid() const { return grid_; }
  /// Threads of a tile along each axis (natively `blockDim`).
  [[nodiscard]] CEDE_BODY index3 dim() const {
#if defined(__CUDA_ARCH__)
    return {blockDim.x, blockDim.y, blockDim.z};
#else
    return dim_;
#endif
  }
  /// Position of the calling thread in its tile (natively `threadIdx`).
  [[nodiscard]] CEDE_BODY index3 thread() const {
#if defined(__CUDA_ARCH__)
    return {threadIdx.x, threadIdx.y, threadIdx.z};
#else
    return thread_;
#endif
  }
  /// `thread()` as one number, x fastest.
  [[nodiscard]] CEDE_BODY std::uint32_t thread_rank() const {
    const index3 t = thread();
    const index3 d = dim();
    return t.x + d.x * (t.y + d.y * t.z);
  }
  /// Number of threads of a tile.
  [[nodiscard]] CEDE_BODY std::uint32_t size() const {
    const index3 d = dim();
    return d.x * d.y * d.z;
  }

  /// Barrier of the tile that also orders shared and global memory among its threads. Threads that
  /// returned from the body count as arrived, so a body may return early before a later `sync()`.
  /// Waits for the other threads of the tile.
  CEDE_BODY void sync() const {
#if defined(__CUDA_ARCH__)
    // The non-aligned vote: threads still in the body vote "in"; the adapter's end-of-tile loop
    // answers for those that returned. Non-aligned, because a diverged warp may arrive twice. The
    // result is always true here, and is looked at all the same: a vote whose result nobody uses is
    // assembled into a plain barrier, which carries no vote to the other side.
    asm volatile(
        "{\n\t.reg .pred in, any;\n\tsetp.ne.u32 in, 1, 0;\n\t"
        "barrier.cta.red.or.pred any, 0, in;\n\t@!any trap;\n\t}" ::
            : "memory");
#else
    host_->sync();
#endif
  }

  /// One object of `T` in static shared memory, the same for all threads of the tile and
  /// uninitialised at the start of each tile. `Tag` tells several objects of one type apart.
  template <class T, int Tag = 0>
  [[nodiscard]] CEDE_BODY T& shared() const {
    static_assert(
        std::is_trivially_default_constructible_v<T> && std::is_trivially_destructible_v<T>,
        "cede: an object in shared memory must be trivially constructible and destructible; "
        "initialise it in the body, then b.sync()");
#if defined(__CUDA_ARCH__)
    __shared__ alignas(T) unsigned char storage[sizeof(T)];
    return *reinterpret_cast<T*>(storage);
#else
    return *static_cast<T*>(
        host_->shared(&detail::shared_key<T, Tag>::value, sizeof(T), alignof(T)));
#endif
  }

  /// First byte of the launch's dynamic shared memory (`shape::shared` bytes), as `T*`.
  template <class T>
  [[nodiscard]] CEDE_BODY T* dynamic_shared() const {
#if defined(__CUDA_ARCH__)
    return reinterpret_cast<T*>(detail::cede_dynamic_shared);
#else
    return static_cast<T*>(host_->dynamic_shared());
#endif
  }

  /// True once the launch has been told to give way: the tile may keep what it needs in `state()`
  /// and return, and is re-entered later. Having returned true, the tile counts as half done.
  /// Always false of a body that declares no `state`, and in forms other than persistent. Called by
  /// all threads of the tile, none of which has returned; all get the same answer. Waits for the
  /// other threads of the tile.
  [[nodiscard]] CEDE_BODY bool should_yield() const {
#if defined(__CUDA_ARCH__)
    if (device_ == nullptr || device_->slot == nullptr) return false;
    const bool leader = (threadIdx.x | threadIdx.y | threadIdx.z) == 0;
    const unsigned told = leader && protocol::raised<detail::atomics>(*device_->slot) ? 1 : 0;
    unsigned any;
    asm volatile(
        "{\n\t.reg .pred in, any;\n\tsetp.ne.u32 in, %1, 0;\n\t"
        "barrier.cta.red.or.pred any, 0, in;\n\tselp.u32 %0, 1, 0, any;\n\t}"
        : "=r"(any)
        : "r"(told)
        : "memory");
    if (any != 0) device_->yielded = true;
    return any != 0;
#else
    return host_->should_yield();
#endif
  }
  /// True if this tile was left half done and is re-entered.
  [[nodiscard]] CEDE_BODY bool resumed() const {
#if defined(__CUDA_ARCH__)
    return device_ != nullptr && device_->resumed;
#else
    return host_->resumed();
#endif
  }
  /// What the tile keeps while it is left half done, in device memory, one object for the whole
  /// tile. `T` is the body's `state`. Only where `resumed()` is true, or `should_yield()` has
  /// returned true: elsewhere the host device throws `contract_error` and the CUDA device traps.
  template <class T>
  [[nodiscard]] CEDE_BODY T& state() const {
#if defined(__CUDA_ARCH__)
    if (device_ == nullptr || sizeof(T) > device_->state_bytes) asm volatile("trap;");
    return *static_cast<T*>(device_->state);
#else
    return *static_cast<T*>(host_->state(sizeof(T)));
#endif
  }

  /// Adds `v` to `*p` atomically among all tiles of the device; returns the value before. Relaxed.
  /// `T`: int, unsigned, unsigned long long, float or double.
  template <class T>
  CEDE_BODY T atomic_add(T* p, T v) const {
#if defined(__CUDA_ARCH__)
    return ::atomicAdd(p, v);
#else
    return std::atomic_ref<T>(*p).fetch_add(v, std::memory_order_relaxed);
#endif
  }

  /// Made by the adapters; user code receives it.
  CEDE_BODY block(index3 index, index3 grid, detail::device_tile* device = nullptr)
      : index_(index), grid_(grid), device_(device) {}
#if !CEDE_RTC
  /// Made by the host device; user code receives it.
  block(index3 index, index3 grid, index3 dim, index3 thread, detail::host_tile& host)
      : index_(index), grid_(grid), dim_(dim), thread_(thread), host_(&host) {}
#endif

 private:
  index3 index_;
  index3 grid_;
  index3 dim_{};
  index3 thread_{};
  detail::host_tile* host_ = nullptr;
  detail::device_tile* device_ = nullptr;
};

CEDE_END_NAMESPACE
