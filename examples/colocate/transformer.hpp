// SPDX-License-Identifier: Apache-2.0
// The transformer block: its weights, buffers and launches. Pre-norm, with biases:
//   y = x + W_out attention(W_qkv norm(x));  answer = y + W_down gelu(W_up norm(y))
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "memory.hpp"
#include "product.hpp"
#include "queue.hpp"
#include "random.hpp"
#include "reference_bodies.hpp"
#include "service.hpp"
#include "service_bodies.hpp"

namespace colocate {

struct layer_values {
  std::vector<float> gain;
  std::vector<float> shift;
};

/// All weights, on the host: what a check by other means needs. Matrices have a line per input.
struct transformer_values {
  std::vector<float> qkv_weights, out_weights, up_weights, down_weights;
  std::vector<float> qkv_bias, out_bias, up_bias, down_bias;
  layer_values before_attention, before_mlp;
};

/// `Setup` says how bodies are cut for a device:
///   tile          the product_tile
///   where         the place
///   size          the service_size
///   threads       of the other bodies' tiles
///   per_tile      floats a tile of an element-wise body handles
///   tiles_wanted  a product is cut along k until it has about that many
template <class Setup>
class transformer final : public service {
 public:
  transformer(const std::vector<std::uint32_t>& lengths, std::uint64_t seed)
      : lengths_(lengths), random_(seed) {
    std::uint32_t positions = 0;
    for (const std::uint32_t n : lengths) {
      first_.push_back(std::size_t{positions} * width);
      positions += n;
      longest_ = std::max(longest_, n);
    }
    inputs_ = draw(std::size_t{positions} * width, 1.0F, 0.0F);
    references_ = array<float>(where, inputs_.size());
    qkv_weights_ = weights(width, 3 * width);
    out_weights_ = weights(width, width);
    up_weights_ = weights(width, inner);
    down_weights_ = weights(inner, width);
    qkv_bias_ = draw(3 * width, 0.1F, 0.0F);
    out_bias_ = draw(width, 0.1F, 0.0F);
    up_bias_ = draw(inner, 0.1F, 0.0F);
    down_bias_ = draw(width, 0.1F, 0.0F);
    for (layer* l : {&before_attention_, &before_mlp_}) {
      l->gain = draw(width, 0.1F, 1.0F);
      l->shift = draw(width, 0.1F, 0.0F);
    }
    const std::size_t rows = longest_;
    normed_ = array<float>(where, rows * width);
    qkv_ = array<float>(where, rows * 3 * width);
    attended_ = array<float>(where, rows * width);
    joined_ = array<float>(where, rows * width);
    hidden_ = array<float>(where, rows * inner);
    out_ = array<float>(where, rows * width);
    slabs_ = array<float>(where, most_slab_floats());
    error_ = array<float>(where, rows, reach::both);
  }

  void make_references(queue& q) override {
    array<float> spare(where, std::size_t{longest_} * width);
    for (std::size_t input = 0; input < lengths_.size(); ++input) {
      const std::uint32_t n = lengths_[input];
      const float* x = inputs_.data() + first_[input];
      each(q, n,
           reference::norm{x, before_attention_.gain.data(), before_attention_.shift.data(),
                           normed_.data(), n, width});
      refer(q, normed_, qkv_weights_, qkv_bias_, nullptr, qkv_.data(), n, 3 * width, width, false);
      each(q, std::size_t{n} * heads,
           reference::attention{qkv_.data(), attended_.data(), n, heads, width / heads});
      refer(q, attended_, out_weights_, out_bias_, x, spare.data(), n, width, width, false);
      each(q, n,
           reference::norm{spare.data(), before_mlp_.gain.data(), before_mlp_.shift.data(),
                           normed_.data(), n, width});
      refer(q, normed_, up_weights_, up_bias_, nullptr, hidden_.data(), n, inner, width, true);
      refer(q, hidden_, down_weights_, down_bias_, spare.data(), references_.data() + first_[input],
            n, width, inner, false);
    }
    q.wait();
  }

  void answer(queue& q, std::size_t input) override {
    const std::uint32_t n = lengths_[input];
    const float* x = inputs_.data() + first_[input];
    last_ = input;
    std::fill_n(error_.data(), n, std::numeric_limits<float>::infinity());

    q.launch(rows_of(n), normalise{x,
                                   {},
                                   nullptr,
                                   nullptr,
                                   before_attention_.gain.data(),
                                   before_attention_.shift.data(),
                                   normed_.data(),
                                   width});
    slabs part = multiply(q, normed_, qkv_weights_, n, 3 * width, width);
    combine(q, part, qkv_bias_, qkv_, n, 3 * width, false);
    attend(q, n);
    part = multiply(q, attended_, out_weights_, n, width, width);
    q.launch(rows_of(n),
             normalise{x, part, out_bias_.data(), joined_.data(), before_mlp_.gain.data(),
                       before_mlp_.shift.data(), normed_.data(), width});
    part = multiply(q, normed_, up_weights_, n, inner, width);
    combine(q, part, up_bias_, hidden_, n, inner, true);
    part = multiply(q, hidden_, down_weights_, n, width, inner);
    q.launch(
        {.grid = n, .block = Setup::threads},
        answer_and_check{joined_.data(), part, down_bias_.data(),
                         references_.data() + first_[input], out_.data(), error_.data(), width});
  }

  [[nodiscard]] float error() const override {
    const float* end = error_.data() + lengths_[last_];
    return *std::max_element(error_.data(), const_cast<float*>(end));
  }

  [[nodiscard]] std::vector<float> last_answer() const override {
    return out_.values(std::size_t{lengths_[last_]} * width);
  }

  /// Input `i` and the weights, copied to the host.
  [[nodiscard]] std::vector<float> input(std::size_t i) const {
    const auto all = inputs_.values(first_[i] + std::size_t{lengths_[i]} * width);
    return {all.begin() + static_cast<std::ptrdiff_t>(first_[i]), all.end()};
  }
  [[nodiscard]] transformer_values values() const {
    const auto of = [](const layer& l) { return layer_values{l.gain.values(), l.shift.values()}; };
    return {qkv_weights_.values(),  out_weights_.values(), up_weights_.values(),
            down_weights_.values(), qkv_bias_.values(),    out_bias_.values(),
            up_bias_.values(),      down_bias_.values(),   of(before_attention_),
            of(before_mlp_)};
  }

 private:
  using tile = typename Setup::tile;
  static constexpr place where = Setup::where;
  static constexpr std::uint32_t width = Setup::size.width;
  static constexpr std::uint32_t heads = Setup::size.heads;
  static constexpr std::uint32_t inner = Setup::size.inner;
  // Shorter chunks than this cost more in joining than they bring in parallelism.
  static constexpr std::uint32_t shortest_chunk = 128;
  static_assert(width % tile::columns == 0 && inner % tile::columns == 0, "whole column tiles");
  static_assert(width / heads <= reference::attention::most_channels, "a head is too wide");

  struct layer {
    array<float> gain;
    array<float> shift;
  };

  // Uniform around `middle` with the standard deviation given.
  array<float> draw(std::size_t size, float deviation, float middle) {
    std::vector<float> values(size);
    const double range = std::sqrt(12.0) * deviation;
    for (float& v : values) v = static_cast<float>(middle + range * (random_.uniform() - 0.5));
    return array<float>(where, values);
  }
  array<float> weights(std::uint32_t in, std::uint32_t out) {
    return draw(std::size_t{in} * out, 1.0F / std::sqrt(static_cast<float>(in)), 0.0F);
  }

  static cede::shape rows_of(std::uint32_t n) {
    return {.grid = n, .block = Setup::threads, .shared = width * sizeof(float)};
  }

  // Floats of k per tile, so that enough tiles keep the device busy.
  static std::uint32_t chunk(std::uint32_t rows, std::uint32_t columns, std::uint32_t summed) {
    const std::uint32_t tiles = (rows + tile::rows - 1) / tile::rows * (columns / tile::columns);
    const std::uint32_t cuts = std::clamp((Setup::tiles_wanted + tiles - 1) / tiles, 1U,
                                          std::max(1U, summed / shortest_chunk));
    return ((summed + cuts - 1) / cuts + tile::depth - 1) / tile::depth * tile::depth;
  }
  static std::uint32_t chunks(std::uint32_t rows, std::uint32_t columns, std::uint32_t summed) {
    const std::uint32_t c = chunk(rows, columns, summed);
    return (summed + c - 1) / c;
  }
  [[nodiscard]] std::size_t most_slab_floats() const {
    std::size_t most = 0;
    for (const std::uint32_t n : lengths_) {
      for (const auto& [columns, summed] :
           {std::pair{3 * width, width}, {width, width}, {inner, width}, {width, inner}}) {
        most = std::max(most, std::size_t{chunks(n, columns, summed)} * n * columns);
      }
    }
    return most;
  }

  slabs multiply(queue& q, const array<float>& a, const array<float>& w, std::uint32_t rows,
                 std::uint32_t columns, std::uint32_t summed) {
    using body = product<tile, contiguous::summed, contiguous::kept, store_to_slabs>;
    const slabs to{slabs_.data(), chunks(rows, columns, summed), rows * columns};
    const body b{
        {a.data(), summed},          {w.data(), columns}, {to, columns}, rows, columns, summed,
        chunk(rows, columns, summed)};
    q.launch(b.shape(), b);
    return to;
  }

  void combine(queue& q, const slabs& part, const array<float>& bias, const array<float>& to,
               std::uint32_t rows, std::uint32_t columns, bool activate) {
    const std::uint32_t size = rows * columns;
    q.launch({.grid = (size + Setup::per_tile - 1) / Setup::per_tile, .block = Setup::threads},
             join{part, bias.data(), to.data(), columns, size, Setup::per_tile, activate});
  }

  void attend(queue& q, std::uint32_t n) {
    const std::uint32_t stride = (n + 3) / 4 * 4;
    q.launch({.grid = {(n + attention::rows - 1) / attention::rows, heads},
              .block = Setup::threads,
              .shared = attention::rows * stride * sizeof(float)},
             attention{qkv_.data(), attended_.data(), n, width, width / heads, stride,
                       1.0F / std::sqrt(static_cast<float>(width / heads))});
  }

  // One thread per item.
  template <class Body>
  static void each(queue& q, std::size_t items, const Body& body) {
    q.launch({.grid = (items + Setup::threads - 1) / Setup::threads, .block = Setup::threads},
             body);
  }
  void refer(queue& q, const array<float>& a, const array<float>& w, const array<float>& bias,
             const float* residual, float* out, std::uint32_t rows, std::uint32_t columns,
             std::uint32_t summed, bool activate) {
    each(q, std::size_t{rows} * columns,
         reference::product{a.data(), w.data(), bias.data(), residual, out, rows, columns, summed,
                            activate});
  }

  std::vector<std::uint32_t> lengths_;
  std::vector<std::size_t> first_;  // float of each input
  std::uint32_t longest_ = 0;
  std::size_t last_ = 0;
  generator random_;
  array<float> inputs_, references_;
  array<float> qkv_weights_, out_weights_, up_weights_, down_weights_;
  array<float> qkv_bias_, out_bias_, up_bias_, down_bias_;
  layer before_attention_, before_mlp_;
  array<float> normed_, qkv_, attended_, joined_, hidden_, out_, slabs_;
  array<float> error_;
};

}  // namespace colocate
