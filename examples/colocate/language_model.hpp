// SPDX-License-Identifier: Apache-2.0
// The language model: embedding of 16 symbols, a rectified hidden layer, softmax over 64 symbols;
// its weights, buffers and launches.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "memory.hpp"
#include "product.hpp"
#include "queue.hpp"
#include "random.hpp"
#include "text.hpp"
#include "training.hpp"
#include "training_bodies.hpp"

namespace colocate {

/// `Setup` says how large the model is and how bodies are cut for a device:
///   tile       the product_tile
///   where      the place
///   embedding  floats per symbol
///   hidden     width of the hidden layer
///   batch      samples per step
///   chunk      k per tile of a product
///   group      slabs added by one tile of `fold`
///   threads    of the other bodies' tiles
///   per_tile   floats a tile of an element-wise body handles
///   rate       learning rate
///   most_steps between two restarts
template <class Setup>
class language_model final : public training {
 public:
  language_model(const std::string& text, std::uint64_t seed)
      : symbols_(where, to_symbols(text, vocabulary)),
        from_{symbols_.data(), static_cast<std::uint32_t>(text.size()) - context_length, seed},
        weights_(where, size),
        averages_(where, size),
        squares_(where, size),
        inputs_(where, std::size_t{batch} * fan_in),
        hidden_(where, std::size_t{batch} * hidden),
        logit_gradient_(where, std::size_t{batch} * vocabulary),
        slabs_(where, most_slab_floats()),
        first_gradient_(where, std::size_t{folded(batch / chunk)} * first_size),
        second_gradient_(where, std::size_t{folded(batch / chunk)} * second_size),
        table_gradient_(where, std::size_t{folded(tables)} * table_size),
        losses_(where, Setup::most_steps),
        digests_(where, Setup::most_steps) {
    restart();
  }

  void restart() override {
    generator random(from_.seed);
    training_state first;
    first.weights.resize(size);
    const auto draw = [&](std::uint32_t begin, std::uint32_t count, double deviation) {
      for (std::uint32_t i = begin; i < begin + count; ++i) {
        first.weights[i] =
            static_cast<float>(deviation * std::sqrt(12.0) * (random.uniform() - 0.5));
      }
    };
    draw(0, first_size, std::sqrt(2.0 / fan_in));
    draw(first_size, second_size, std::sqrt(1.0 / hidden));
    draw(first_size + second_size, table_size, 1.0);
    first.averages.assign(size, 0.0F);
    first.squares.assign(size, 0.0F);
    restore(first);
  }

  void restore(const training_state& s) override {
    weights_.assign(0, s.weights);
    averages_.assign(0, s.averages);
    squares_.assign(0, s.squares);
    // Steps to come add to what is there.
    const std::vector<unsigned long long> nothing(std::max<std::size_t>(steps_, s.losses.size()),
                                                  0);
    losses_.assign(0, nothing);
    digests_.assign(0, nothing);
    std::vector<unsigned long long> losses;
    for (const double loss : s.losses) {
      losses.push_back(static_cast<unsigned long long>(std::llround(loss * batch / loss_unit)));
    }
    losses_.assign(0, losses);
    digests_.assign(0, std::vector<unsigned long long>(s.digests.begin(), s.digests.end()));
    steps_ = static_cast<std::uint32_t>(s.losses.size());
  }

  [[nodiscard]] training_state state() const override {
    training_state s{weights_.values(), averages_.values(), squares_.values(), {}, {}};
    for (const unsigned long long sum : losses_.values(steps_)) {
      s.losses.push_back(static_cast<double>(sum) * loss_unit / batch);
    }
    const auto digests = digests_.values(steps_);
    s.digests.assign(digests.begin(), digests.end());
    return s;
  }

  void step(queue& q) override {
    const float* first = weights_.data();
    const float* second = first + first_size;
    const float* table = second + second_size;
    forward(q, first, second, table);
    q.launch({.grid = batch / classify::rows, .block = threads},
             classify{from_, logits(), logit_gradient_.data(), losses_.data() + steps_, steps_,
                      1.0F / static_cast<float>(batch)});
    backward(q, first, second);
    const double t = static_cast<double>(steps_) + 1.0;
    const adam rule{static_cast<float>(Setup::rate / (1.0 - std::pow(double{adam::keep_mean}, t))),
                    static_cast<float>(1.0 / (1.0 - std::pow(double{adam::keep_square}, t)))};
    q.launch({.grid = tiles(size), .block = threads},
             update{{{first_gradient_.data(), folded(batch / chunk), first_size},
                     {second_gradient_.data(), folded(batch / chunk), second_size},
                     {table_gradient_.data(), folded(tables), table_size}},
                    weights_.data(),
                    averages_.data(),
                    squares_.data(),
                    digests_.data() + steps_,
                    rule,
                    Setup::per_tile});
    ++steps_;
  }

  [[nodiscard]] std::uint32_t most_steps() const override { return Setup::most_steps; }

 private:
  using tile = typename Setup::tile;
  static constexpr place where = Setup::where;
  static constexpr std::uint32_t threads = Setup::threads;
  static constexpr std::uint32_t batch = Setup::batch;
  static constexpr std::uint32_t hidden = Setup::hidden;
  static constexpr std::uint32_t embedding = Setup::embedding;
  static constexpr std::uint32_t chunk = Setup::chunk;
  static constexpr std::uint32_t fan_in = context_length * embedding;
  static constexpr std::uint32_t first_size = fan_in * hidden;
  static constexpr std::uint32_t second_size = hidden * vocabulary;
  static constexpr std::uint32_t table_size = vocabulary * embedding;
  static constexpr std::uint32_t size = first_size + second_size + table_size;
  static constexpr std::uint32_t samples = embedding_gradient<embedding>::samples;
  static constexpr std::uint32_t tables = batch / samples;

  static_assert(batch % chunk == 0 && batch % tile::rows == 0 && batch % classify::rows == 0 &&
                    batch % samples == 0 && hidden % chunk == 0,
                "the batch and the hidden layer must be whole tiles and chunks");
  static_assert(hidden % tile::rows == 0 && hidden % tile::columns == 0 &&
                    fan_in % tile::rows == 0 && fan_in % tile::columns == 0 &&
                    vocabulary % tile::columns == 0,
                "matrices must be whole tiles");

  static constexpr std::uint32_t folded(std::uint32_t count) {
    return (count + Setup::group - 1) / Setup::group;
  }
  static constexpr std::uint32_t tiles(std::uint32_t floats) {
    return (floats + Setup::per_tile - 1) / Setup::per_tile;
  }
  static constexpr std::size_t most_slab_floats() {
    return std::max({std::size_t{hidden / chunk} * batch * vocabulary,
                     std::size_t{hidden / chunk} * batch * fan_in,
                     std::size_t{batch / chunk} * first_size,
                     std::size_t{batch / chunk} * second_size, std::size_t{tables} * table_size});
  }

  [[nodiscard]] slabs logits() const { return {slabs_.data(), hidden / chunk, batch * vocabulary}; }

  template <contiguous A, contiguous B, class Store>
  static void multiply(queue& q, const float* a, std::uint32_t a_stride, const float* b,
                       std::uint32_t b_stride, const Store& store, std::uint32_t rows,
                       std::uint32_t columns, std::uint32_t summed) {
    const product<tile, A, B, Store> body{
        {a, a_stride}, {b, b_stride}, store, rows, columns, summed, Store::chunks ? chunk : summed};
    q.launch(body.shape(), body);
  }

  void fold_into(queue& q, const slabs& in, const array<float>& out) {
    q.launch({.grid = {tiles(in.size), folded(in.count)}, .block = threads},
             fold{in, out.data(), Setup::group, Setup::per_tile});
  }

  // inputs = embedding; hidden = rectified(inputs first); slabs = hidden second
  void forward(queue& q, const float* first, const float* second, const float* table) {
    constexpr auto summed = contiguous::summed;
    constexpr auto kept = contiguous::kept;
    constexpr std::uint32_t items = batch * context_length;
    constexpr std::uint32_t per_tile = Setup::per_tile / 4;
    q.launch({.grid = (items + per_tile - 1) / per_tile, .block = threads},
             embed<embedding>{from_, table, inputs_.data(), steps_, items, per_tile});
    multiply<summed, kept>(q, inputs_.data(), fan_in, first, hidden,
                           store_rectified{hidden_.data(), hidden}, batch, hidden, fan_in);
    multiply<summed, kept>(q, hidden_.data(), hidden, second, vocabulary,
                           store_to_slabs{logits(), vocabulary}, batch, vocabulary, hidden);
  }

  // The slabs are used by one product after another, each folded before the next.
  void backward(queue& q, const float* first, const float* second) {
    constexpr auto summed = contiguous::summed;
    constexpr auto kept = contiguous::kept;
    const float* g = logit_gradient_.data();

    const slabs for_second{slabs_.data(), batch / chunk, second_size};
    multiply<kept, kept>(q, hidden_.data(), hidden, g, vocabulary,
                         store_to_slabs{for_second, vocabulary}, hidden, vocabulary, batch);
    fold_into(q, for_second, second_gradient_);

    // From here on `hidden_` holds its gradient.
    multiply<summed, summed>(q, g, vocabulary, second, vocabulary,
                             store_rectifier_gradient{hidden_.data(), hidden}, batch, hidden,
                             vocabulary);

    const slabs for_first{slabs_.data(), batch / chunk, first_size};
    multiply<kept, kept>(q, inputs_.data(), fan_in, hidden_.data(), hidden,
                         store_to_slabs{for_first, hidden}, fan_in, hidden, batch);
    fold_into(q, for_first, first_gradient_);

    // From here on `inputs_` holds its gradient.
    const slabs for_inputs{slabs_.data(), hidden / chunk, batch * fan_in};
    multiply<summed, summed>(q, hidden_.data(), hidden, first, hidden,
                             store_to_slabs{for_inputs, fan_in}, batch, fan_in, hidden);
    q.launch({.grid = {tiles(for_inputs.size), 1}, .block = threads},
             fold{for_inputs, inputs_.data(), for_inputs.count, Setup::per_tile});

    const slabs for_table{slabs_.data(), tables, table_size};
    q.launch({.grid = tables, .block = threads},
             embedding_gradient<embedding>{from_, inputs_.data(), for_table.data, steps_});
    fold_into(q, for_table, table_gradient_);
  }

  array<std::uint8_t> symbols_;
  sampler from_;
  array<float> weights_, averages_, squares_;
  array<float> inputs_, hidden_, logit_gradient_, slabs_;
  array<float> first_gradient_, second_gradient_, table_gradient_;
  array<unsigned long long> losses_, digests_;
  std::uint32_t steps_ = 0;
};

}  // namespace colocate
