// SPDX-License-Identifier: Apache-2.0
// The transformer block a second time, as plainly as it can be written: one thread per value, sums
// in double precision. Slow; used once per input, to know the right answer.
#pragma once

#include <cede/block.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "service_bodies.hpp"

namespace colocate::reference {

/// out[r][c] = bias[c] + sum over k of a[r][k] w[k][c] (+ residual[r][c]), through GELU if asked.
struct product {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;

  const float* a;
  const float* w;
  const float* bias;
  const float* residual;  ///< null for none
  float* out;
  std::uint32_t rows, columns, summed;
  bool activate;

  CEDE_BODY void operator()(cede::block t) const {
    const std::size_t i = std::size_t{t.index().x} * t.size() + t.thread_rank();
    if (i >= std::size_t{rows} * columns) return;
    const std::size_t r = i / columns;
    const std::size_t c = i % columns;
    double sum = bias[c];
    for (std::size_t k = 0; k < summed; ++k) {
      sum += static_cast<double>(a[r * summed + k]) * w[k * columns + c];
    }
    if (residual != nullptr) sum += residual[i];
    if (activate) {
      sum *= 0.5 * (1.0 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
    }
    out[i] = static_cast<float>(sum);
  }
};

/// Layer norm, a row per thread.
struct norm {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;

  const float* in;
  const float* gain;
  const float* shift;
  float* out;
  std::uint32_t rows, width;

  CEDE_BODY void operator()(cede::block t) const {
    const std::size_t r = std::size_t{t.index().x} * t.size() + t.thread_rank();
    if (r >= rows) return;
    const float* x = in + r * width;
    double sum = 0.0;
    for (std::uint32_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / width;
    double squares = 0.0;
    for (std::uint32_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / width + static_cast<double>(norm_epsilon));
    for (std::uint32_t i = 0; i < width; ++i) {
      out[r * width + i] = static_cast<float>((x[i] - mean) * scale * gain[i] + shift[i]);
    }
  }
};

/// Attention: one position of one head per thread.
struct attention {
  static constexpr unsigned max_threads = service_threads;
  static constexpr unsigned min_blocks = 8;
  static constexpr std::uint32_t most_channels = 64;

  const float* qkv;
  float* out;
  std::uint32_t positions, heads, channels;

  CEDE_BODY void operator()(cede::block t) const {
    const std::size_t i = std::size_t{t.index().x} * t.size() + t.thread_rank();
    if (i >= std::size_t{positions} * heads) return;
    const std::size_t row = i / heads;
    const std::size_t head = i % heads * channels;
    const std::size_t width = std::size_t{heads} * channels;
    const float* q = qkv + row * 3 * width + head;
    const auto score = [&](std::size_t k) {
      const float* key = qkv + k * 3 * width + width + head;
      double sum = 0.0;
      for (std::uint32_t c = 0; c < channels; ++c) sum += static_cast<double>(q[c]) * key[c];
      return sum / std::sqrt(static_cast<double>(channels));
    };
    double most = score(0);
    for (std::size_t k = 1; k < positions; ++k) {
      const double s = score(k);
      most = s > most ? s : most;
    }
    double total = 0.0;
    double sums[most_channels] = {};
    for (std::size_t k = 0; k < positions; ++k) {
      const double p = std::exp(score(k) - most);
      const float* value = qkv + k * 3 * width + 2 * width + head;
      total += p;
      for (std::uint32_t c = 0; c < channels; ++c) sums[c] += p * value[c];
    }
    for (std::uint32_t c = 0; c < channels; ++c) {
      out[row * width + head + c] = static_cast<float>(sums[c] / total);
    }
  }
};

}  // namespace colocate::reference
