// SPDX-License-Identifier: Apache-2.0
// The bodies of the language model, beside its matrix products. All of them are deterministic:
// every sum has a fixed order, and the only atomics add integers.
#pragma once

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "math.hpp"
#include "product.hpp"
#include "random.hpp"
#include "tile_reduce.hpp"

namespace colocate {

inline constexpr unsigned training_threads = 128;

/// Of bodies that wait for memory more than they compute. More would be a little faster, but their
/// tiles share one bandwidth and take twice as long.
inline constexpr unsigned many_workers = 8;
inline constexpr std::uint32_t vocabulary = 64;
inline constexpr std::uint32_t context_length = 16;

/// Which piece of the text each sample of a step is: `context_length` symbols and the one to
/// predict.
struct sampler {
  const std::uint8_t* text;
  std::uint32_t positions;  ///< at which a sample may begin
  std::uint64_t seed;

  [[nodiscard]] CEDE_BODY const std::uint8_t* sample(std::uint32_t step, std::uint32_t row) const {
    const std::uint64_t drawn = mix(seed ^ (std::uint64_t{step} << 32U | row));
    return text + ((drawn >> 32U) * positions >> 32U);
  }
};

/// Looks up the embedding of every symbol of every context. One item per symbol.
template <std::uint32_t Embedding>
struct embed {
  static constexpr unsigned max_threads = training_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr unsigned workers_per_sm = many_workers;

  sampler from;
  const float* table;  ///< vocabulary x Embedding
  float* out;          ///< batch x (context_length x Embedding)
  std::uint32_t step;
  std::uint32_t items;
  std::uint32_t per_tile;

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t first = t.index().x * per_tile;
    const std::uint32_t last = first + per_tile < items ? first + per_tile : items;
    for (std::uint32_t i = first + t.thread_rank(); i < last; i += t.size()) {
      const std::uint8_t symbol = from.sample(step, i / context_length)[i % context_length];
      COLOCATE_UNROLL
      for (std::uint32_t e = 0; e < Embedding; e += 4) {
        *reinterpret_cast<quad*>(out + std::size_t{i} * Embedding + e) =
            *reinterpret_cast<const quad*>(table + symbol * Embedding + e);
      }
    }
  }
};

/// Stores a product's tile through the rectifier.
struct store_rectified {
  static constexpr bool chunks = false;

  float* out;
  std::uint32_t columns;

  CEDE_BODY void operator()(std::uint32_t row, std::uint32_t column, std::uint32_t,
                            const quad& x) const {
    quad y;
    for (unsigned j = 0; j < 4; ++j) y.v[j] = larger(x.v[j], 0.0F);
    *reinterpret_cast<quad*>(out + std::size_t{row} * columns + column) = y;
  }
};

/// Takes a gradient back through the rectifier, in the place of what the rectifier gave.
struct store_rectifier_gradient {
  static constexpr bool chunks = false;

  float* hidden;
  std::uint32_t columns;

  CEDE_BODY void operator()(std::uint32_t row, std::uint32_t column, std::uint32_t,
                            const quad& gradient) const {
    auto& at = *reinterpret_cast<quad*>(hidden + std::size_t{row} * columns + column);
    const quad before = at;
    quad after;
    for (unsigned j = 0; j < 4; ++j) after.v[j] = before.v[j] > 0.0F ? gradient.v[j] : 0.0F;
    at = after;
  }
};

/// Losses are added as integers, so that their sum does not depend on the order of the tiles.
inline constexpr double loss_unit = 1.0 / (1U << 24U);

/// Softmax, loss and the gradient of the logits, `rows` samples per tile.
struct classify {
  static constexpr unsigned max_threads = training_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr unsigned workers_per_sm = many_workers;
  static constexpr std::uint32_t rows = 4;

  sampler from;
  slabs logits;  ///< batch x vocabulary in each slab
  float* gradient;
  unsigned long long* loss;  ///< of this step, in `loss_unit`s
  std::uint32_t step;
  float scale;  ///< 1 / batch

  CEDE_BODY void operator()(cede::block t) const {
    struct shared {
      float z[rows][vocabulary + 4];
      float sum[rows];
      unsigned long long losses[rows];
    };
    auto& s = t.shared<shared>();
    const std::uint32_t first = t.index().x * rows;
    constexpr std::uint32_t quads = vocabulary / 4;
    for (std::uint32_t i = t.thread_rank(); i < rows * quads; i += t.size()) {
      const quad z = logits.sum(first * vocabulary + i * 4);
      *reinterpret_cast<quad*>(&s.z[i / quads][i % quads * 4]) = z;
    }
    t.sync();
    for (std::uint32_t r = t.thread_rank(); r < rows; r += t.size()) {
      const std::uint32_t target = from.sample(step, first + r)[context_length];
      float most = s.z[r][0];
      for (std::uint32_t c = 1; c < vocabulary; ++c) most = larger(most, s.z[r][c]);
      const float z = s.z[r][target] - most;
      float sum = 0.0F;
      for (std::uint32_t c = 0; c < vocabulary; ++c) {
        s.z[r][c] = exponential(s.z[r][c] - most);
        sum += s.z[r][c];
      }
      s.sum[r] = sum;
      // Rounding can make it a little less than 0; should it not be a number, it counts as 0.
      const float loss_of_row = larger(0.0F, std::log(sum) - z);
      s.losses[r] = static_cast<unsigned long long>(static_cast<double>(loss_of_row) / loss_unit);
    }
    t.sync();
    for (std::uint32_t i = t.thread_rank(); i < rows * quads; i += t.size()) {
      const std::uint32_t r = i / quads;
      const std::uint32_t target = from.sample(step, first + r)[context_length];
      quad g;
      for (std::uint32_t j = 0; j < 4; ++j) {
        const std::uint32_t c = i % quads * 4 + j;
        const float p = s.z[r][c] / s.sum[r];
        g.v[j] = multiply(c == target ? p - 1.0F : p, scale);
      }
      *reinterpret_cast<quad*>(gradient + std::size_t{first} * vocabulary + i * 4) = g;
    }
    if (t.thread_rank() == 0) {
      unsigned long long total = 0;
      for (std::uint32_t r = 0; r < rows; ++r) total += s.losses[r];
      t.atomic_add(loss, total);
    }
  }
};

/// Adds slabs in groups: slab g of `out` is the sum of slabs g x group, ..., (g + 1) x group - 1.
/// Grid: {tiles of a slab, groups}.
struct fold {
  static constexpr unsigned max_threads = training_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr unsigned workers_per_sm = many_workers;

  slabs in;
  float* out;
  std::uint32_t group;
  std::uint32_t per_tile;  ///< floats, a multiple of 4

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t slab = t.index().y;
    const std::uint32_t left = in.count - slab * group;
    const std::uint32_t number = left < group ? left : group;
    const std::uint32_t first = t.index().x * per_tile;
    const std::uint32_t last = first + per_tile < in.size ? first + per_tile : in.size;
    for (std::uint32_t i = first + t.thread_rank() * 4; i < last; i += t.size() * 4) {
      *reinterpret_cast<quad*>(out + std::size_t{slab} * in.size + i) =
          in.sum(i, slab * group, number);
    }
  }
};

/// The gradient of the embeddings from `samples` samples per tile: each tile adds up what its
/// symbols got and stores a table of its own. Every entry belongs to one thread, which goes through
/// the symbols in order.
template <std::uint32_t Embedding>
struct embedding_gradient {
  static constexpr unsigned max_threads = training_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr unsigned workers_per_sm = many_workers;
  static constexpr std::uint32_t samples = 16;

  sampler from;
  const float* in;  ///< gradient of what `embed` gave
  float* tables;    ///< one per tile
  std::uint32_t step;

  CEDE_BODY void operator()(cede::block t) const {
    struct shared {
      float table[vocabulary][Embedding];
      std::uint8_t symbols[samples * context_length];
    };
    auto& s = t.shared<shared>();
    const std::uint32_t first = t.index().x * samples;
    for (std::uint32_t i = t.thread_rank(); i < samples * context_length; i += t.size()) {
      s.symbols[i] = from.sample(step, first + i / context_length)[i % context_length];
    }
    for (std::uint32_t i = t.thread_rank(); i < vocabulary * Embedding; i += t.size()) {
      s.table[i / Embedding][i % Embedding] = 0.0F;
    }
    t.sync();
    const std::uint32_t lanes = t.size() < Embedding ? t.size() : Embedding;
    const std::uint32_t classes = t.size() / lanes;
    const std::uint32_t own = t.thread_rank() / lanes;
    const float* gradient = in + std::size_t{first} * context_length * Embedding;
    for (std::uint32_t e = t.thread_rank() % lanes; e < Embedding; e += lanes) {
      for (std::uint32_t i = 0; i < samples * context_length; ++i) {
        const std::uint32_t symbol = s.symbols[i];
        if (symbol % classes == own) s.table[symbol][e] += gradient[i * Embedding + e];
      }
    }
    t.sync();
    float* out = tables + std::size_t{t.index().x} * vocabulary * Embedding;
    for (std::uint32_t i = t.thread_rank(); i < vocabulary * Embedding; i += t.size()) {
      out[i] = s.table[i / Embedding][i % Embedding];
    }
  }
};

/// Adam (Kingma and Ba, 2015); the corrections for the first steps are worked out on the host.
struct adam {
  static constexpr float keep_mean = 0.9F;
  static constexpr float keep_square = 0.99F;
  static constexpr float epsilon = 1e-8F;

  float rate;        ///< learning rate / (1 - keep_mean^t)
  float correction;  ///< 1 / (1 - keep_square^t)

  CEDE_BODY float operator()(float weight, float gradient, float& average, float& square) const {
    average = multiply_add(keep_mean, average, multiply(1.0F - keep_mean, gradient));
    square = multiply_add(keep_square, square,
                          multiply(1.0F - keep_square, multiply(gradient, gradient)));
    const float root = std::sqrt(multiply(square, correction)) + epsilon;
    return weight - multiply(rate, average) / root;
  }
};

/// What one weight adds to the digest of all: its bits and its place, spread over 64 bits.
CEDE_BODY inline unsigned long long digest_of(std::uint32_t place, float weight) {
  return mix((std::uint64_t{place} << 32U | bits_of(weight)) * golden + golden);
}

/// Updates all weights and adds up their digest. The weights lie one after another, in three parts
/// whose gradients come from slabs of their own.
struct update {
  static constexpr unsigned max_threads = training_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr unsigned workers_per_sm = many_workers;

  slabs gradients[3];
  float* weights;
  float* averages;
  float* squares;
  unsigned long long* digest;  ///< of the weights after this step
  adam rule;
  std::uint32_t per_tile;  ///< floats, a multiple of 4

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t second = gradients[0].size;
    const std::uint32_t third = second + gradients[1].size;
    const std::uint32_t size = third + gradients[2].size;
    const std::uint32_t first = t.index().x * per_tile;
    const std::uint32_t last = first + per_tile < size ? first + per_tile : size;
    unsigned long long digested = 0;
    for (std::uint32_t i = first + t.thread_rank() * 4; i < last; i += t.size() * 4) {
      const quad g = i < second  ? gradients[0].sum(i)
                     : i < third ? gradients[1].sum(i - second)
                                 : gradients[2].sum(i - third);
      auto& w = *reinterpret_cast<quad*>(weights + i);
      auto& m = *reinterpret_cast<quad*>(averages + i);
      auto& v = *reinterpret_cast<quad*>(squares + i);
      for (std::uint32_t j = 0; j < 4; ++j) {
        w.v[j] = rule(w.v[j], g.v[j], m.v[j], v.v[j]);
        digested += digest_of(i + j, w.v[j]);
      }
    }
    digested = tile_sum<training_threads>(t, digested);
    if (t.thread_rank() == 0) t.atomic_add(digest, digested);
  }
};

}  // namespace colocate
