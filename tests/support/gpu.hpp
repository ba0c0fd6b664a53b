// SPDX-License-Identifier: Apache-2.0
// What GPU tests share: device memory, bodies with a checkable result, a thread that raises at
// random.
#pragma once

#include <cede/cede.hpp>

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#define CUDA_OK(call) REQUIRE_MESSAGE((call) == cudaSuccess, cudaGetErrorString(cudaGetLastError()))

namespace test {

/// Device memory, zeroed, read back as a vector.
template <class T>
class buffer {
 public:
  explicit buffer(std::size_t n) : n_(n) {
    CUDA_OK(cudaMalloc(&p_, n * sizeof(T)));
    clear();
  }
  explicit buffer(const std::vector<T>& v) : n_(v.size()) {
    CUDA_OK(cudaMalloc(&p_, n_ * sizeof(T)));
    CUDA_OK(cudaMemcpy(p_, v.data(), n_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  buffer(const buffer&) = delete;
  buffer& operator=(const buffer&) = delete;
  ~buffer() { cudaFree(p_); }
  void clear(int byte = 0) {
    CUDA_OK(cudaMemset(p_, byte, n_ * sizeof(T)));
    CUDA_OK(cudaStreamSynchronize(nullptr));
  }
  [[nodiscard]] T* get() const { return p_; }
  [[nodiscard]] std::size_t size() const { return n_; }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> v(n_);
    CUDA_OK(cudaMemcpy(v.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost));
    return v;
  }

 private:
  T* p_ = nullptr;
  std::size_t n_ = 0;
};

/// How many raises a test makes: many natively, few under a tool that slows everything down.
inline int raises(int native = 10000) {
  const char* text = std::getenv("CEDE_TEST_RAISES");
  return text == nullptr ? native : std::atoi(text);
}

/// Whether a tool such as compute-sanitizer runs the test, many times slower.
inline bool under_tool() { return std::getenv("CEDE_TEST_RAISES") != nullptr; }
/// A grid of `n` tiles, smaller under a tool.
inline unsigned sized(unsigned n) { return under_tool() ? n / 16 : n; }
/// How long a wait may take before it counts as a hang.
inline std::chrono::seconds patience() { return std::chrono::seconds(under_tool() ? 200 : 20); }

CEDE_BODY inline unsigned mix(unsigned x) {
  x ^= x >> 16U;
  x *= 0x7feb352dU;
  x ^= x >> 15U;
  x *= 0x846ca68bU;
  return x ^ (x >> 16U);
}

/// Counts executions of every tile and mixes some work in, so that tiles take a while.
struct count_tiles {
  unsigned* hits;
  unsigned* out;
  int rounds;
  CEDE_BODY void operator()(cede::block b) const {
    const auto g = b.grid();
    const auto i = b.index();
    const unsigned tile = i.x + g.x * (i.y + g.y * i.z);
    unsigned v = tile * b.size() + b.thread_rank();
    for (int r = 0; r < rounds; ++r) v = mix(v + static_cast<unsigned>(r));
    out[tile * b.size() + b.thread_rank()] = v;
    if (b.thread_rank() == 0) b.atomic_add(hits + tile, 1U);
  }
};

/// A tree reduction through shared memory: many barriers, none of them skipped.
struct reduce_tile {
  const unsigned* in;
  unsigned* out;
  unsigned* hits;
  CEDE_BODY void operator()(cede::block b) const {
    unsigned* part = b.dynamic_shared<unsigned>();
    const unsigned tile = b.index().x;
    const unsigned t = b.thread_rank();
    part[t] = in[tile * b.size() + t];
    b.sync();
    for (unsigned half = b.size() / 2; half > 0; half /= 2) {
      if (t < half) part[t] += part[t + half];
      b.sync();
    }
    if (t == 0) {
      out[tile] = part[0];
      b.atomic_add(hits + tile, 1U);
    }
  }
};

/// Threads past the end return before a barrier the others meet twice.
struct early_return {
  unsigned n;
  const unsigned* in;
  unsigned* out;
  CEDE_BODY void operator()(cede::block b) const {
    unsigned* row = b.dynamic_shared<unsigned>();
    const unsigned base = b.index().x * b.size();
    const unsigned t = b.thread_rank();
    if (base + t >= n) return;
    const unsigned here = n - base < b.size() ? n - base : b.size();
    row[t] = in[base + t];
    b.sync();
    const unsigned other = row[here - 1 - t];
    b.sync();
    row[t] = other + 1;
    b.sync();
    out[base + t] = row[here - 1 - t] + other;
  }
};

/// Waits for the tile before: a running sum over tiles.
struct look_back {
  static constexpr bool looks_back = true;
  volatile unsigned long long* sums;  // sum + 1, 0 = not there yet
  unsigned* order_violations;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() != 0) return;
    const unsigned tile = b.index().x;
    unsigned long long before = 1;
    if (tile > 0) {
      while ((before = sums[tile - 1]) == 0) {
      }
    }
    if (sums[tile] != 0) b.atomic_add(order_violations, 1U);
    sums[tile] = before + tile;
  }
};

/// Keeps an SM busy for about `cycles` clock cycles per tile.
struct spin_cycles {
  long long cycles;
  unsigned* hits;
  CEDE_BODY void operator()(cede::block b) const {
#if defined(__CUDA_ARCH__)
    const long long begin = clock64();
    while (clock64() - begin < cycles) {
    }
#endif
    if (b.thread_rank() == 0) b.atomic_add(hits + b.index().x, 1U);
  }
};

/// Raises at random moments until told to stop; counts.
template <class Raise>
class random_raiser {
 public:
  random_raiser(Raise raise, int most, int max_pause_us, unsigned seed)
      : thread_([this, raise, most, max_pause_us, seed] {
          std::mt19937 random(seed);
          std::uniform_int_distribution<int> pause(0, max_pause_us);
          while (!stop_.load() && made_.load() < most) {
            const auto until =
                std::chrono::steady_clock::now() + std::chrono::microseconds(pause(random));
            while (std::chrono::steady_clock::now() < until) {
            }
            raise();
            ++made_;
          }
        }) {}
  random_raiser(const random_raiser&) = delete;
  random_raiser& operator=(const random_raiser&) = delete;
  ~random_raiser() { stop(); }
  int stop() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
    return made_.load();
  }
  [[nodiscard]] int made() const { return made_.load(); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<int> made_{0};
  std::thread thread_;
};

/// Launches until finished while another thread raises; returns how often the launch left early.
template <class Job>
int run_preempted(Job& job, cudaStream_t s) {
  int yields = 0;
  for (;;) {
    job.launch(s);
    REQUIRE_MESSAGE(job.wait_for(patience()), "the launch neither finished nor left in time");
    if (job.finished()) return yields;
    ++yields;
  }
}

struct raw_stream {
  cudaStream_t s = nullptr;
  raw_stream() { CUDA_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking)); }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;
  ~raw_stream() { cudaStreamDestroy(s); }
  void finish() const { CUDA_OK(cudaStreamSynchronize(s)); }
};

}  // namespace test
