// SPDX-License-Identifier: Apache-2.0
// Inclusive sum of 32-bit integers in one pass: a tile sums its 4096, then looks back at the tiles
// before it until it meets one that knows its prefix.
#pragma once

#include "common/problem.hpp"
#include "common/tile.cuh"

#include <cede/block.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

/// Which run the status words speak of: they need no clearing between runs.
struct scan_run {
  std::uint32_t number;
  std::uint32_t done;  ///< tiles of this run
};

struct scan {
  static constexpr bool looks_back = true;
  static constexpr unsigned threads = 256;
  static constexpr unsigned chunks = 4;  // of 256 vectors of four
  std::uint32_t tiles;
  const uint_4* in;
  uint_4* out;
  std::uint64_t* status;  ///< of a tile: run * 2 + (1 if a prefix, 0 if its own sum), value
  scan_run* run;

  template <class Block>
  CEDE_BODY void operator()(Block b) const {
    const unsigned t = b.thread().x;
    const std::size_t first = std::size_t{b.index().x} * threads * chunks + t;
    uint_4 v[chunks];
    std::uint32_t mine[chunks];
    for (unsigned c = 0; c < chunks; ++c) v[c] = in[first + c * threads];
    for (unsigned c = 0; c < chunks; ++c) {
      v[c].y += v[c].x;
      v[c].z += v[c].y;
      v[c].w += v[c].z;
      mine[c] = v[c].w;
    }
    before_each_thread(b, mine);
    for (unsigned c = 0; c < chunks; ++c) {
      v[c].x += mine[c];
      v[c].y += mine[c];
      v[c].z += mine[c];
      v[c].w += mine[c];
      out[first + c * threads] = v[c];
    }
  }

 private:
  static constexpr unsigned warps = threads / 32;
  static_assert(warps * chunks == 32, "one warp sums the sums of all warps and chunks");

  CEDE_BODY static std::uint64_t pack(std::uint32_t run, bool prefix, std::uint32_t value) {
    return (std::uint64_t{run * 2 + (prefix ? 1U : 0U)} << 32U) | value;
  }
  CEDE_BODY void publish(std::uint32_t tile, std::uint64_t word) const {
#if defined(__CUDA_ARCH__)
    *static_cast<volatile std::uint64_t*>(status + tile) = word;
#else
    std::atomic_ref<std::uint64_t>(status[tile]).store(word);
#endif
  }
  CEDE_BODY std::uint64_t look(std::uint32_t tile) const {
#if defined(__CUDA_ARCH__)
    return *static_cast<volatile const std::uint64_t*>(status + tile);
#else
    return std::atomic_ref<std::uint64_t>(status[tile]).load();
#endif
  }
  CEDE_BODY std::uint32_t run_number() const {
#if defined(__CUDA_ARCH__)
    return *static_cast<volatile const std::uint32_t*>(&run->number);
#else
    return std::atomic_ref<std::uint32_t>(run->number).load();
#endif
  }
  /// The last tile begins the next run: all others have looked their last.
  template <class Block>
  CEDE_BODY void count_done(const Block& b, std::uint32_t number) const {
#if defined(__CUDA_ARCH__)
    __threadfence();
#endif
    if (b.atomic_add(&run->done, 1U) + 1 != tiles) return;
#if defined(__CUDA_ARCH__)
    run->done = 0;
    run->number = number + 1;
#else
    std::atomic_ref<std::uint32_t>(run->done).store(0);
    std::atomic_ref<std::uint32_t>(run->number).store(number + 1);
#endif
  }

  /// Replaces the sums of the threads by what comes before them in the whole array.
  template <class Block>
  CEDE_BODY void before_each_thread(const Block& b, std::uint32_t (&sums)[chunks]) const {
    const unsigned t = b.thread().x;
    const std::uint32_t tile = b.index().x;
#if defined(__CUDA_ARCH__)
    constexpr unsigned all = 0xffffffffU;
    std::uint32_t* part = b.template shared<array_of<std::uint32_t, 32>, 0>().at;
    const unsigned lane = t % 32;
    std::uint32_t own[chunks];
    for (unsigned c = 0; c < chunks; ++c) {
      own[c] = sums[c];
      for (unsigned offset = 1; offset < 32; offset *= 2) {
        const std::uint32_t left = __shfl_up_sync(all, sums[c], offset);
        if (lane >= offset) sums[c] += left;
      }
      if (lane == 31) part[c * warps + t / 32] = sums[c];
    }
    __syncthreads();
    if (t < 32) {
      std::uint32_t up_to = part[lane];
      const std::uint32_t alone = up_to;
      for (unsigned offset = 1; offset < 32; offset *= 2) {
        const std::uint32_t left = __shfl_up_sync(all, up_to, offset);
        if (lane >= offset) up_to += left;
      }
      const std::uint32_t total = __shfl_sync(all, up_to, 31);
      part[lane] = up_to - alone + look_back(b, tile, total, lane);
    }
    __syncthreads();
    for (unsigned c = 0; c < chunks; ++c) sums[c] += part[c * warps + t / 32] - own[c];
#else
    auto& kept = b.template shared<array_of<array_of<std::uint32_t, threads>, chunks>, 1>().at;
    std::uint32_t& prefix = b.template shared<std::uint32_t, 2>();
    for (unsigned c = 0; c < chunks; ++c) kept[c].at[t] = sums[c];
    b.sync();
    if (t == 0) {
      std::uint32_t total = 0;
      for (auto& chunk : kept) {
        for (std::uint32_t& s : chunk.at) {
          const std::uint32_t own = s;
          s = total;
          total += own;
        }
      }
      prefix = look_back(b, tile, total, 0);
    }
    b.sync();
    for (unsigned c = 0; c < chunks; ++c) sums[c] = kept[c].at[t] + prefix;
#endif
  }

#if defined(__CUDA_ARCH__)
  /// The sum of all tiles before this one; by one warp, 32 tiles at a time.
  template <class Block>
  __device__ std::uint32_t look_back(const Block& b, std::uint32_t tile, std::uint32_t total,
                                     unsigned lane) const {
    constexpr unsigned all = 0xffffffffU;
    const std::uint32_t number = run_number();
    if (lane == 0) publish(tile, pack(number, tile == 0, total));
    std::uint32_t prefix = 0;
    for (std::int64_t nearest = std::int64_t{tile} - 1; nearest >= 0; nearest -= 32) {
      const std::int64_t at = nearest - lane;
      std::uint64_t word = pack(number, true, 0);  // before the first tile there is nothing
      do {
        if (at >= 0) word = look(static_cast<std::uint32_t>(at));
      } while (__any_sync(all, static_cast<std::uint32_t>(word >> 33U) != (number & 0x7fffffffU)));
      const unsigned prefixes = __ballot_sync(all, ((word >> 32U) & 1U) != 0);
      const unsigned last = prefixes == 0 ? 31 : __ffs(static_cast<int>(prefixes)) - 1;
      prefix += __reduce_add_sync(all, lane <= last ? static_cast<std::uint32_t>(word) : 0U);
      if (prefixes != 0) break;
    }
    if (lane == 0) {
      if (tile != 0) publish(tile, pack(number, true, prefix + total));
      count_done(b, number);
    }
    return prefix;
  }
#else
  template <class Block>
  std::uint32_t look_back(const Block& b, std::uint32_t tile, std::uint32_t total,
                          unsigned /*lane*/) const {
    const std::uint32_t number = run_number();
    publish(tile, pack(number, tile == 0, total));
    std::uint32_t prefix = 0;
    for (std::uint32_t at = tile; at-- > 0;) {
      std::uint64_t word = 0;
      do {
        word = look(at);
      } while ((word >> 33U) != (number & 0x7fffffffU));
      prefix += static_cast<std::uint32_t>(word);
      if (((word >> 32U) & 1U) != 0) break;
    }
    if (tile != 0) publish(tile, pack(number, true, prefix + total));
    count_done(b, number);
    return prefix;
  }
#endif
};

class scan_problem : public problem {
 public:
  using body_type = scan;
  static constexpr const char* name = "scan";
  static constexpr double tolerance = 0;
  scan body{};

  scan_problem(memory& m, problem_size s) : problem(m) {
    body.tiles = choose<std::uint32_t>(s, 9, 500, 12288, 1U << 18U);
    auto* in = m.array<std::uint32_t>(elements());
    m.fill_integers(in, elements(), 0, 28);
    out_ = output_array<std::uint32_t>(elements());
    body.in = reinterpret_cast<const uint_4*>(in);
    body.out = reinterpret_cast<uint_4*>(out_);
    body.status = m.array<std::uint64_t>(body.tiles);
    body.run = m.array<scan_run>(1);
    shape = {.grid = body.tiles, .block = scan::threads};
    scan_problem::reset();
  }
  void reset() override {
    problem::reset();
    memory_.clear(body.status, body.tiles * sizeof(std::uint64_t));
    const scan_run first{1, 0};
    memory_.upload(body.run, &first, sizeof first);
  }
  double error() {
    std::vector<std::uint32_t> want(elements());
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < want.size(); ++i) want[i] = sum += random_bits(i, 28);
    return largest_deviation(memory_.read(out_, want.size()), want);
  }

 private:
  [[nodiscard]] std::size_t elements() const {
    return std::size_t{body.tiles} * scan::threads * scan::chunks * 4;
  }
  std::uint32_t* out_ = nullptr;
};

}  // namespace bench
