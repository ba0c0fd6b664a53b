// SPDX-License-Identifier: Apache-2.0
// Counts what the whole program allocates with `new`. Include in one file of a program only: it
// replaces the global operators.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace cede_test {

inline std::atomic<std::uint64_t> allocation_count{0};

/// Calls of `operator new` so far, by all threads.
inline std::uint64_t allocations() { return allocation_count.load(std::memory_order_relaxed); }

inline void* counted(std::size_t bytes) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace cede_test

// Not inlined: g++ would otherwise see malloc and delete, or new and free, and warn of a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return cede_test::counted(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return cede_test::counted(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
