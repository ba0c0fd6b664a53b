// SPDX-License-Identifier: Apache-2.0
// Memory of the device that a run is on. Everything here is set-up and may wait for the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace colocate {

/// Where bodies run.
enum class place : std::uint8_t { host, cuda };

/// Who may touch an allocation: bodies alone, or bodies and the host at any time.
enum class reach : std::uint8_t { device, both };

/// True if there is a CUDA device; otherwise `why` becomes a sentence.
bool cuda_present(std::string& why);

namespace memory {
/// Zeroed. Throws `cede::device_error` where there is not enough.
void* allocate(place where, reach who, std::size_t bytes);
void release(place where, reach who, void* p) noexcept;
void copy(place where, void* to, const void* from, std::size_t bytes);
}  // namespace memory

/// Owns an array of plain values in device memory. Move-only.
template <class T>
class array {
 public:
  array() = default;
  array(place where, std::size_t size, reach who = reach::device)
      : data_(static_cast<T*>(memory::allocate(where, who, size * sizeof(T)))),
        size_(size),
        where_(where),
        who_(who) {}
  array(place where, const std::vector<T>& values) : array(where, values.size()) {
    memory::copy(where, data_, values.data(), values.size() * sizeof(T));
  }
  array(array&& other) noexcept { swap(other); }
  array& operator=(array&& other) noexcept {
    array(std::move(other)).swap(*this);
    return *this;
  }
  ~array() {
    if (data_ != nullptr) memory::release(where_, who_, data_);
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// The first `count` values, copied to the host.
  [[nodiscard]] std::vector<T> values(std::size_t count) const {
    std::vector<T> out(count);
    memory::copy(where_, out.data(), data_, count * sizeof(T));
    return out;
  }
  [[nodiscard]] std::vector<T> values() const { return values(size_); }

  /// Copies values from the host to the place `first`.
  void assign(std::size_t first, std::span<const T> from) {
    memory::copy(where_, data_ + first, from.data(), from.size() * sizeof(T));
  }

 private:
  void swap(array& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(where_, other.where_);
    std::swap(who_, other.who_);
  }

  T* data_ = nullptr;
  std::size_t size_ = 0;
  place where_ = place::host;
  reach who_ = reach::device;
};

}  // namespace colocate
