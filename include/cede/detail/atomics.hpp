// SPDX-License-Identifier: Apache-2.0
// The atomics the protocol runs on outside its model: one policy, the same words on both devices.
#pragma once

#include <cede/config.hpp>
#include <cede/protocol.hpp>

#include <cstdint>

#if !CEDE_RTC
#include <atomic>
#endif
#if CEDE_NVCC
#include <cuda/atomic>
#endif

CEDE_BEGIN_NAMESPACE

namespace detail {

#if !CEDE_RTC
constexpr std::memory_order host_order(protocol::order o) {
  switch (o) {
    case protocol::order::relaxed:
      return std::memory_order_relaxed;
    case protocol::order::acquire:
      return std::memory_order_acquire;
    case protocol::order::release:
      return std::memory_order_release;
    case protocol::order::acq_rel:
      return std::memory_order_acq_rel;
    default:
      return std::memory_order_seq_cst;
  }
}
#endif

#if CEDE_NVCC
CEDE_BODY constexpr cuda::std::memory_order cuda_order(protocol::order o) {
  switch (o) {
    case protocol::order::relaxed:
      return cuda::std::memory_order_relaxed;
    case protocol::order::acquire:
      return cuda::std::memory_order_acquire;
    case protocol::order::release:
      return cuda::std::memory_order_release;
    case protocol::order::acq_rel:
      return cuda::std::memory_order_acq_rel;
    default:
      return cuda::std::memory_order_seq_cst;
  }
}
template <class W, protocol::scope S>
using cuda_ref = cuda::atomic_ref<W, S == protocol::scope::device ? cuda::thread_scope_device
                                                                  : cuda::thread_scope_system>;
#endif

/// Plain words, accessed through `std::atomic_ref` on the host and `cuda::atomic_ref` on the
/// device.
struct atomics {
  template <class W>
  using word = W;

  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static W load(const W& w) {
#if defined(__CUDA_ARCH__)
    return cuda_ref<W, S>(const_cast<W&>(w)).load(cuda_order(O));
#else
    return std::atomic_ref<W>(const_cast<W&>(w)).load(host_order(O));
#endif
  }
  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static void store(W& w, W v) {
#if defined(__CUDA_ARCH__)
    cuda_ref<W, S>(w).store(v, cuda_order(O));
#else
    std::atomic_ref<W>(w).store(v, host_order(O));
#endif
  }
  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static W fetch_add(W& w, W v) {
#if defined(__CUDA_ARCH__)
    return cuda_ref<W, S>(w).fetch_add(v, cuda_order(O));
#else
    return std::atomic_ref<W>(w).fetch_add(v, host_order(O));
#endif
  }
  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static W fetch_or(W& w, W v) {
#if defined(__CUDA_ARCH__)
    return cuda_ref<W, S>(w).fetch_or(v, cuda_order(O));
#else
    return std::atomic_ref<W>(w).fetch_or(v, host_order(O));
#endif
  }
  /// For counters that may wrap, "larger" means ahead by less than half the range.
  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static W fetch_max(W& w, W v) {
#if defined(__CUDA_ARCH__)
    // 64-bit words hold times and numbers that never come near 2^63: one instruction does.
    if constexpr (sizeof(W) == 8) return cuda_ref<W, S>(w).fetch_max(v, cuda_order(O));
#endif
    W seen = load<protocol::order::relaxed, S>(w);
    while (static_cast<W>(v - seen - 1) < static_cast<W>(W{1} << (sizeof(W) * 8 - 1))) {
      if (exchange_if<O, S>(w, seen, v)) break;
    }
    return seen;
  }

 private:
  template <protocol::order O, protocol::scope S, class W>
  CEDE_BODY static bool exchange_if(W& w, W& expected, W desired) {
#if defined(__CUDA_ARCH__)
    return cuda_ref<W, S>(w).compare_exchange_weak(expected, desired, cuda_order(O),
                                                   cuda::std::memory_order_relaxed);
#else
    return std::atomic_ref<W>(w).compare_exchange_weak(expected, desired, host_order(O),
                                                       std::memory_order_relaxed);
#endif
  }
};

}  // namespace detail

CEDE_END_NAMESPACE
