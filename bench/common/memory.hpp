// SPDX-License-Identifier: Apache-2.0
// Where a problem keeps its arrays: on the host here, on the GPU in cuda_memory.cuh.
#pragma once

#include "common/random.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace bench {

/// Owns arrays of one machine and fills them. Every call has finished when it returns.
class memory {
 public:
  memory() = default;
  memory(const memory&) = delete;
  memory& operator=(const memory&) = delete;
  virtual ~memory() = default;

  template <class T>
  T* array(std::size_t n) {
    return static_cast<T*>(allocate(n * sizeof(T)));
  }
  template <class T>
  T* array(const std::vector<T>& v) {
    T* p = array<T>(v.size());
    upload(p, v.data(), v.size() * sizeof(T));
    return p;
  }
  template <class T>
  std::vector<T> read(const T* p, std::size_t n) {
    std::vector<T> v(n);
    download(v.data(), p, n * sizeof(T));
    return v;
  }

  /// Zeroed; freed with this object.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  virtual void clear(void* p, std::size_t bytes) = 0;
  /// How many of the 4-byte words of two arrays differ.
  virtual std::uint64_t count_different(const void* a, const void* b, std::size_t bytes) = 0;

  virtual void fill_floats(float* p, std::size_t n, float low, float high, std::uint32_t seed) = 0;
  virtual void fill_bfloat16(std::uint16_t* p, std::size_t n, float low, float high,
                             std::uint32_t seed) = 0;
  /// Integers below `below`; 0 = all 32 bits.
  virtual void fill_integers(std::uint32_t* p, std::size_t n, std::uint32_t below,
                             std::uint32_t seed) = 0;

  /// Shared memory a block may have, in bytes.
  [[nodiscard]] virtual std::size_t shared_limit() const = 0;
};

class host_memory final : public memory {
 public:
  ~host_memory() override {
    for (void* p : blocks_) std::free(p);
  }
  void* allocate(std::size_t bytes) override {
    void* p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (p == nullptr) throw std::bad_alloc();
    blocks_.push_back(p);
    std::memset(p, 0, bytes);
    return p;
  }
  void upload(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void clear(void* p, std::size_t bytes) override { std::memset(p, 0, bytes); }
  std::uint64_t count_different(const void* a, const void* b, std::size_t bytes) override {
    const auto* x = static_cast<const std::uint32_t*>(a);
    const auto* y = static_cast<const std::uint32_t*>(b);
    std::uint64_t n = 0;
    for (std::size_t i = 0; i < bytes / 4; ++i) n += x[i] != y[i] ? 1 : 0;
    return n;
  }
  void fill_floats(float* p, std::size_t n, float low, float high, std::uint32_t seed) override {
    for (std::size_t i = 0; i < n; ++i) p[i] = random_float(i, seed, low, high);
  }
  void fill_bfloat16(std::uint16_t* p, std::size_t n, float low, float high,
                     std::uint32_t seed) override {
    for (std::size_t i = 0; i < n; ++i) p[i] = to_bfloat16(random_float(i, seed, low, high));
  }
  void fill_integers(std::uint32_t* p, std::size_t n, std::uint32_t below,
                     std::uint32_t seed) override {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t r = random_bits(i, seed);
      p[i] = below == 0 ? r : r % below;
    }
  }
  [[nodiscard]] std::size_t shared_limit() const override { return std::size_t{227} * 1024; }

 private:
  std::vector<void*> blocks_;
};

}  // namespace bench
