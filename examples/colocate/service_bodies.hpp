// SPDX-License-Identifier: Apache-2.0
// The bodies of the transformer block, beside its matrix products.
#pragma once

#include <cede/block.hpp>

#include <cstddef>
#include <cstdint>

#include "math.hpp"
#include "product.hpp"
#include "tile_reduce.hpp"

namespace colocate {

inline constexpr unsigned service_threads = 128;
inline constexpr float norm_epsilon = 1e-5F;

CEDE_BODY inline quad add(const quad& a, const quad& b) {
  return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}};
}
CEDE_BODY inline const quad& quad_at(const float* p, std::size_t i) {
  return *reinterpret_cast<const quad*>(p + i);
}
CEDE_BODY inline quad& quad_at(float* p, std::size_t i) { return *reinterpret_cast<quad*>(p + i); }

/// GELU in its usual approximation: x / (1 + e^(-2 u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
CEDE_BODY inline float gelu(float x) {
  const float cube = multiply(multiply(x, x), x);
  const float u = multiply(0.797884561F, multiply_add(0.044715F, cube, x));
  return x / (1.0F + exponential(multiply(-2.0F, u)));
}

/// Layer norm of one row per tile. Where a product came before, the row is first joined from its
/// slabs, a bias and a residual, and kept in `joined`. Dynamic shared memory: one row.
struct normalise {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;

  const float* residual;
  slabs product;      ///< `count` 0: the row is the residual alone
  const float* bias;  ///< null without a product
  float* joined;      ///< null without a product
  const float* gain;
  const float* shift;
  float* out;
  std::uint32_t width;

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t first = t.index().x * width;
    auto* row = t.dynamic_shared<float>();
    float sum = 0.0F;
    for (std::uint32_t i = t.thread_rank() * 4; i < width; i += t.size() * 4) {
      quad x = quad_at(residual, first + i);
      if (product.count != 0) {
        x = add(x, add(product.sum(first + i), quad_at(bias, i)));
        quad_at(joined, first + i) = x;
      }
      quad_at(row, i) = x;
      sum += (x.v[0] + x.v[1]) + (x.v[2] + x.v[3]);
    }
    const float mean = tile_sum<service_threads>(t, sum) / static_cast<float>(width);
    float squares = 0.0F;
    for (std::uint32_t i = t.thread_rank() * 4; i < width; i += t.size() * 4) {
      for (unsigned j = 0; j < 4; ++j) {
        const float d = row[i + j] - mean;
        squares = multiply_add(d, d, squares);
      }
    }
    const float variance = tile_sum<service_threads>(t, squares) / static_cast<float>(width);
    const float scale = 1.0F / std::sqrt(variance + norm_epsilon);
    for (std::uint32_t i = t.thread_rank() * 4; i < width; i += t.size() * 4) {
      quad y;
      for (unsigned j = 0; j < 4; ++j) {
        y.v[j] = multiply_add(multiply(row[i + j] - mean, scale), gain[i + j], shift[i + j]);
      }
      quad_at(out, first + i) = y;
    }
  }
};

/// Joins the slabs of a product and adds a bias; with `activate` the result goes through GELU.
struct join {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;

  slabs product;
  const float* bias;
  float* out;
  std::uint32_t columns;
  std::uint32_t size;      ///< floats in all
  std::uint32_t per_tile;  ///< floats, a multiple of 4
  bool activate;

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t first = t.index().x * per_tile;
    const std::uint32_t last = first + per_tile < size ? first + per_tile : size;
    for (std::uint32_t i = first + t.thread_rank() * 4; i < last; i += t.size() * 4) {
      quad x = add(product.sum(i), quad_at(bias, i % columns));
      if (activate) {
        for (unsigned j = 0; j < 4; ++j) x.v[j] = gelu(x.v[j]);
      }
      quad_at(out, i) = x;
    }
  }
};

/// Attention of one head for `rows` positions per tile, to all positions of the sequence. Each item
/// of work is two positions by four keys or by four channels, kept in registers. Dynamic shared
/// memory: the scores of the rows, `stride` floats each.
struct attention {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 5;
  static constexpr unsigned rows = 16;
  static constexpr unsigned pairs = rows / 2;

  const float* qkv;  ///< queries, keys and values side by side: lines of 3 x width
  float* out;        ///< lines of width
  std::uint32_t positions;
  std::uint32_t width;
  std::uint32_t channels;  ///< of a head, a multiple of 4
  std::uint32_t stride;    ///< floats between two lines of scores: positions rounded up to 4
  float scale;             ///< 1 / sqrt(channels)

  CEDE_BODY void operator()(cede::block t) const {
    auto* scores = t.dynamic_shared<float>();
    const std::uint32_t first = t.index().x * rows;
    const std::uint32_t head = t.index().y * channels;
    score(t, scores, first, head);
    t.sync();
    weigh(t, scores);
    t.sync();
    blend(t, scores, first, head);
  }

 private:
  // Rows and keys behind the end are read as the last one; the results are not used.
  [[nodiscard]] CEDE_BODY std::size_t line(std::uint32_t position) const {
    const std::uint32_t last = positions - 1;
    return std::size_t{position < last ? position : last} * 3 * width;
  }

  CEDE_BODY void score(cede::block t, float* scores, std::uint32_t first,
                       std::uint32_t head) const {
    const std::uint32_t items = pairs * (stride / 4);
    for (std::uint32_t item = t.thread_rank(); item < items; item += t.size()) {
      const std::uint32_t pair = item % pairs * 2;
      const std::uint32_t key = item / pairs * 4;
      const float* q[2] = {qkv + line(first + pair) + head, qkv + line(first + pair + 1) + head};
      const float* k[4] = {qkv + line(key) + width + head, qkv + line(key + 1) + width + head,
                           qkv + line(key + 2) + width + head, qkv + line(key + 3) + width + head};
      quad sums[2][4] = {};
      for (std::uint32_t c = 0; c < channels; c += 4) {
        const quad a[2] = {quad_at(q[0], c), quad_at(q[1], c)};
        COLOCATE_UNROLL
        for (unsigned j = 0; j < 4; ++j) {
          const quad b = quad_at(k[j], c);
          COLOCATE_UNROLL
          for (unsigned i = 0; i < 2; ++i) {
            COLOCATE_UNROLL
            for (unsigned e = 0; e < 4; ++e) {
              sums[i][j].v[e] = multiply_add(a[i].v[e], b.v[e], sums[i][j].v[e]);
            }
          }
        }
      }
      for (unsigned i = 0; i < 2; ++i) {
        quad products;
        for (unsigned j = 0; j < 4; ++j) {
          const quad& s = sums[i][j];
          products.v[j] = multiply((s.v[0] + s.v[1]) + (s.v[2] + s.v[3]), scale);
        }
        quad_at(scores, (pair + i) * stride + key) = products;
      }
    }
  }

  // Softmax of every row: `rows` groups of threads, one row each.
  CEDE_BODY void weigh(cede::block t, float* scores) const {
    struct partials {
      float v[rows][service_threads / rows];
    };
    auto& part = t.shared<partials>();
    const std::uint32_t group = t.size() < rows ? 1 : t.size() / rows;
    const std::uint32_t lane = t.thread_rank() % group;
    const std::uint32_t groups = t.size() / group;
    for (std::uint32_t r = t.thread_rank() / group; r < rows; r += groups) {
      float most = -INFINITY;
      for (std::uint32_t k = lane; k < positions; k += group) {
        most = larger(most, scores[r * stride + k]);
      }
      part.v[r][lane] = most;
    }
    t.sync();
    for (std::uint32_t r = t.thread_rank() / group; r < rows; r += groups) {
      float most = part.v[r][0];
      for (std::uint32_t l = 1; l < group; ++l) most = larger(most, part.v[r][l]);
      for (std::uint32_t k = lane; k < positions; k += group) {
        float& s = scores[r * stride + k];
        s = exponential(s - most);
      }
    }
  }

  CEDE_BODY void blend(cede::block t, const float* scores, std::uint32_t first,
                       std::uint32_t head) const {
    const std::uint32_t items = pairs * (channels / 4);
    for (std::uint32_t item = t.thread_rank(); item < items; item += t.size()) {
      const std::uint32_t channel = item % (channels / 4) * 4;
      const std::uint32_t pair = item / (channels / 4) * 2;
      const float* v = qkv + 2 * std::size_t{width} + head + channel;
      float sums[2][4] = {};
      float total[2] = {};
      for (std::uint32_t k = 0; k < positions; ++k) {
        const quad b = quad_at(v, std::size_t{k} * 3 * width);
        COLOCATE_UNROLL
        for (unsigned i = 0; i < 2; ++i) {
          const float p = scores[(pair + i) * stride + k];
          total[i] += p;
          COLOCATE_UNROLL
          for (unsigned e = 0; e < 4; ++e) sums[i][e] = multiply_add(p, b.v[e], sums[i][e]);
        }
      }
      for (unsigned i = 0; i < 2; ++i) {
        if (first + pair + i >= positions) continue;
        quad y;
        for (unsigned e = 0; e < 4; ++e) y.v[e] = sums[i][e] / total[i];
        quad_at(out, std::size_t{first + pair + i} * width + head + channel) = y;
      }
    }
  }
};

/// The last step: joins a product with bias and residual into the answer, one row per tile, and
/// compares it with the reference. `error[row]` becomes the largest difference, or infinity where a
/// value is not a number.
struct answer_and_check {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;

  const float* residual;
  slabs product;
  const float* bias;
  const float* reference;
  float* out;
  float* error;  ///< in memory that the host reads
  std::uint32_t width;

  struct worse {
    CEDE_BODY float operator()(float a, float b) const { return larger(a, b); }
  };

  CEDE_BODY void operator()(cede::block t) const {
    const std::uint32_t first = t.index().x * width;
    float worst = 0.0F;
    for (std::uint32_t i = t.thread_rank() * 4; i < width; i += t.size() * 4) {
      const quad x =
          add(quad_at(residual, first + i), add(product.sum(first + i), quad_at(bias, i)));
      quad_at(out, first + i) = x;
      const quad right = quad_at(reference, first + i);
      for (unsigned j = 0; j < 4; ++j) {
        const float difference = std::fabs(x.v[j] - right.v[j]);
        // Not-a-number compares false: it counts as infinitely wrong.
        worst = difference <= worst ? worst : difference >= 0.0F ? difference : INFINITY;
      }
    }
    worst = tile_reduce<service_threads>(t, worst, worse{});
    if (t.thread_rank() == 0) error[t.index().x] = worst;
  }
};

}  // namespace colocate
