// SPDX-License-Identifier: Apache-2.0
// Words that kernels and the host exchange while both run, and the device's clock. Device code
// only.
#pragma once

namespace bench {

using word64 = unsigned long long;

static __device__ __forceinline__ word64 load_system(const word64* p) {
  word64 v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p));
  return v;
}
static __device__ __forceinline__ word64 load_device(const word64* p) {
  word64 v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p));
  return v;
}
static __device__ __forceinline__ void store_system(word64* p, word64 v) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
static __device__ __forceinline__ word64 nanoseconds_now() {
  word64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}

}  // namespace bench
