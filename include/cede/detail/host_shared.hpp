// SPDX-License-Identifier: Apache-2.0
// The shared memory of an SM of the host device: one tile's at a time.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/host_context.hpp>
#include <cede/error.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Gives a tile its dynamic shared memory and its static shared objects, named by an address.
///
/// What is handed out is filled with 0xff bytes (not-a-number as a float, -1 as an integer): a body
/// that forgets to initialise sees the same on every run, and never what the tile before left.
/// Under the address sanitizer the bytes between and behind the objects are out of bounds.
class shared_arena {
 public:
  static constexpr std::size_t dynamic_align = 1024;

  explicit shared_arena(std::size_t bytes) : limit_(bytes), capacity_(bytes + slack) {}
  shared_arena(const shared_arena&) = delete;
  shared_arena& operator=(const shared_arena&) = delete;
  ~shared_arena() {
    if (memory_ != nullptr) permit(0, capacity_);
  }

  // Memory comes with the first object: most bodies have none.

  /// Starts a tile with `dynamic_bytes` of dynamic shared memory; all earlier pointers are over.
  void begin(std::size_t dynamic_bytes) {
    if (end_ != 0) forbid(0, end_);
    objects_.clear();
    counted_ = 0;
    end_ = 0;
    if (dynamic_bytes != 0) take(dynamic_bytes, dynamic_align);
  }
  [[nodiscard]] void* dynamic() const { return memory_.get(); }

  /// The object of this tile that `key` names; made at the first call.
  void* named(const void* key, std::size_t bytes, std::size_t align) {
    for (const object& o : objects_) {
      if (o.key == key) return o.address;
    }
    void* const address = take(bytes, align);
    objects_.push_back({key, address});
    return address;
  }

 private:
  struct object {
    const void* key;
    void* address;
  };
  struct release {
    void operator()(std::byte* p) const { ::operator delete(p, std::align_val_t{dynamic_align}); }
  };
  using memory = std::unique_ptr<std::byte, release>;

  // Gaps and alignment come on top of what a tile may use, so that the limit is exact.
  static constexpr std::size_t slack = std::size_t{64} * 1024;
#if defined(CEDE_ASAN)
  static constexpr std::size_t gap = 32;
#else
  static constexpr std::size_t gap = 0;
#endif

  void* take(std::size_t bytes, std::size_t align) {
    const std::size_t begin = (end_ + align - 1) / align * align;
    counted_ = (counted_ + align - 1) / align * align + bytes;
    if (counted_ > limit_ || begin + bytes + gap > capacity_) {
      throw invalid_argument("a tile asks for " + std::to_string(counted_) +
                             " bytes of shared memory, the device has " + std::to_string(limit_) +
                             " per tile; raise host_device::shared_bytes or use less");
    }
    if (memory_ == nullptr) {
      memory_.reset(
          static_cast<std::byte*>(::operator new(capacity_, std::align_val_t{dynamic_align})));
      forbid(0, capacity_);
    }
    end_ = begin + bytes + gap;
    permit(begin, bytes);
    std::byte* const address = memory_.get() + begin;
    std::memset(address, 0xff, bytes);
    return address;
  }

#if defined(CEDE_ASAN)
  void forbid(std::size_t begin, std::size_t bytes) const {
    __asan_poison_memory_region(memory_.get() + begin, bytes);
  }
  void permit(std::size_t begin, std::size_t bytes) const {
    __asan_unpoison_memory_region(memory_.get() + begin, bytes);
  }
#else
  void forbid(std::size_t, std::size_t) const {}
  void permit(std::size_t, std::size_t) const {}
#endif

  std::size_t limit_;
  std::size_t capacity_;
  memory memory_;
  std::size_t end_ = 0;      // first byte not handed out
  std::size_t counted_ = 0;  // bytes the tile has asked for, without gaps
  std::vector<object> objects_;
};

}  // namespace detail

CEDE_END_NAMESPACE
