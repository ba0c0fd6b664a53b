// SPDX-License-Identifier: Apache-2.0
// The language model: gradients against plain loops in double precision, and weights that are the
// same bits whatever happens beside.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "colocate_fixture.hpp"

#include "../examples/colocate/files.cpp"
#include "../examples/colocate/language_model.hpp"
#include "../examples/colocate/memory.cpp"
#include "../examples/colocate/text.cpp"
#include "../examples/colocate/training.cpp"
#include "../examples/colocate/training_loop.cpp"

using namespace colocate;
using cede_test::small_device;

namespace {

struct host_cut {
  using tile = product_tile<32, 32, 32, 32, 1>;
  static constexpr place where = place::host;
  static constexpr std::uint32_t embedding = 4;
  static constexpr std::uint32_t hidden = 64;
  static constexpr std::uint32_t batch = 128;
  static constexpr std::uint32_t chunk = 32;
  static constexpr std::uint32_t group = 3;
  static constexpr std::uint32_t threads = 1;
  static constexpr std::uint32_t per_tile = 512;
  static constexpr double rate = 0.005;
  static constexpr std::uint32_t most_steps = 4096;
};

// The same model as the GPU cuts it: tiles of 128 threads.
struct gpu_cut : host_cut {
  using tile = product_tile<64, 64, 8, 4, 4>;
  static constexpr std::uint32_t chunk = 64;
  static constexpr std::uint32_t threads = training_threads;
};

std::string sample_text() {
  std::string text;
  generator random(9);
  const std::vector<std::string> words{"the ", "sea ",   "was ",   "calm ",
                                       "and ", "Rain; ", "fell.\n"};
  while (text.size() < 4000) text += words[random.below(words.size())];
  return text;
}

training_state after(std::uint32_t steps, std::uint64_t seed = 1) {
  small_device d;
  language_model<host_cut> model(sample_text(), seed);
  train_steps(d.queue, model, steps);
  return model.state();
}

// Loss and gradient of the first step, by plain loops.
struct plain_model {
  static constexpr std::size_t embedding = host_cut::embedding;
  static constexpr std::size_t hidden = host_cut::hidden;
  static constexpr std::size_t batch = host_cut::batch;
  static constexpr std::size_t fan_in = context_length * embedding;

  std::vector<double> gradient;
  double loss = 0.0;

  plain_model(const std::vector<float>& w, const std::vector<std::uint8_t>& symbols,
              std::uint64_t seed, std::uint32_t step)
      : gradient(w.size()) {
    const float* first = w.data();
    const float* second = first + fan_in * hidden;
    const float* table = second + hidden * vocabulary;
    const sampler from{symbols.data(), static_cast<std::uint32_t>(symbols.size()) - context_length,
                       seed};
    for (std::uint32_t row = 0; row < batch; ++row) {
      one(first, second, table, from.sample(step, row));
    }
  }

 private:
  void one(const float* first, const float* second, const float* table, const std::uint8_t* s) {
    std::vector<double> x(fan_in);
    std::vector<double> h(hidden);
    std::vector<double> p(vocabulary);
    for (std::size_t i = 0; i < fan_in; ++i) {
      x[i] = table[s[i / embedding] * embedding + i % embedding];
    }
    for (std::size_t j = 0; j < hidden; ++j) {
      for (std::size_t i = 0; i < fan_in; ++i) h[j] += x[i] * first[i * hidden + j];
      h[j] = std::max(h[j], 0.0);
    }
    double total = 0.0;
    for (std::size_t c = 0; c < vocabulary; ++c) {
      for (std::size_t j = 0; j < hidden; ++j) p[c] += h[j] * second[j * vocabulary + c];
      p[c] = std::exp(p[c]);
      total += p[c];
    }
    const std::size_t target = s[context_length];
    loss -= std::log(p[target] / total) / batch;
    for (std::size_t c = 0; c < vocabulary; ++c) {
      p[c] = (p[c] / total - (c == target ? 1.0 : 0.0)) / batch;
    }
    double* to_second = gradient.data() + fan_in * hidden;
    double* to_table = to_second + hidden * vocabulary;
    for (std::size_t j = 0; j < hidden; ++j) {
      double back = 0.0;
      for (std::size_t c = 0; c < vocabulary; ++c) {
        to_second[j * vocabulary + c] += h[j] * p[c];
        back += p[c] * second[j * vocabulary + c];
      }
      if (h[j] == 0.0) continue;
      for (std::size_t i = 0; i < fan_in; ++i) {
        gradient[i * hidden + j] += x[i] * back;
        to_table[s[i / embedding] * embedding + i % embedding] += back * first[i * hidden + j];
      }
    }
  }
};

// After one step the averages are a tenth of the gradient.
template <class Cut>
void check_gradient() {
  small_device d;
  const std::string text = sample_text();
  language_model<Cut> model(text, 7);
  const training_state before = model.state();
  const plain_model expected(before.weights, to_symbols(text, vocabulary), 7, 0);
  train_steps(d.queue, model, 1);
  const training_state now = model.state();
  double worst = 0.0;
  double largest = 0.0;
  for (std::size_t i = 0; i < now.averages.size(); ++i) {
    worst = std::max(worst, std::fabs(now.averages[i] / 0.1 - expected.gradient[i]));
    largest = std::max(largest, std::fabs(expected.gradient[i]));
  }
  CHECK(largest > 1e-3);
  CHECK(worst < 1e-5 * std::max(1.0, largest));
  CHECK(now.losses[0] == doctest::Approx(expected.loss).epsilon(1e-5));
  // Adam's first step: the rate, in the direction of the gradient.
  for (std::size_t i = 0; i < now.weights.size(); ++i) {
    const double g = expected.gradient[i];
    if (std::fabs(g) < 1e-4) continue;
    CHECK(std::fabs(now.weights[i] - before.weights[i] + std::copysign(Cut::rate, g)) < 1e-5);
  }
}

}  // namespace

TEST_CASE("colocate training: loss and gradient are right in the host's cut") {
  check_gradient<host_cut>();
}

TEST_CASE("colocate training: loss and gradient are right in the GPU's cut") {
  check_gradient<gpu_cut>();
}

TEST_CASE("colocate training: the device's digests are those of the weights") {
  for (const std::uint32_t steps : {1U, 2U, 5U}) {
    const training_state s = after(steps);
    REQUIRE(s.digests.size() == steps);
    CHECK(s.losses.size() == steps);
    CHECK(s.digests.back() == digest(s.weights));
  }
}

TEST_CASE("colocate training: the same seed gives the same bits, another one does not") {
  const training_state a = after(5);
  const training_state b = after(5);
  CHECK(a.weights == b.weights);
  CHECK(a.digests == b.digests);
  CHECK(a.losses == b.losses);
  CHECK(after(5, 2).digests.back() != a.digests.back());
  // More steps go through the same states.
  const training_state longer = after(7);
  CHECK(std::equal(a.digests.begin(), a.digests.end(), longer.digests.begin()));
}

TEST_CASE("colocate training: preempted or not, the bits are the same") {
  constexpr std::uint32_t steps = 20;
  small_device d;
  language_model<host_cut> model(sample_text(), 1);
  std::atomic<bool> over{false};
  std::thread disturber([&] {
    generator random(4);
    while (!over.load()) {
      d.work.suspend();
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(300)));
      d.work.resume();
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(500)));
    }
  });
  train_steps(d.queue, model, steps);
  over = true;
  disturber.join();
  const training_state disturbed = model.state();
  const training_state alone = after(steps);
  CHECK(disturbed.weights == alone.weights);
  CHECK(disturbed.digests == alone.digests);
  std::uint64_t yields = 0;
  for (const auto& w : d.scheduler.stats().workloads) yields += w.yields;
  CHECK(yields > 0);
}

TEST_CASE("colocate training: a restored state goes on as if nothing had been between") {
  small_device d;
  language_model<host_cut> model(sample_text(), 1);
  train_steps(d.queue, model, 3);
  const training_state three = model.state();
  train_steps(d.queue, model, 4);
  model.restart();
  CHECK(model.state().digests.empty());
  train_steps(d.queue, model, 1);
  model.restore(three);
  train_steps(d.queue, model, 2);
  const training_state five = after(5);
  CHECK(model.state().weights == five.weights);
  CHECK(model.state().digests == five.digests);
  CHECK(model.state().losses == five.losses);
}

TEST_CASE("colocate training: the loss falls") {
  const training_state s = after(100);
  const auto mean = [&](std::size_t begin) {
    double sum = 0.0;
    for (std::size_t i = begin; i < begin + 10; ++i) sum += s.losses[i] / 10;
    return sum;
  };
  CHECK(mean(0) > 2.0);
  CHECK(mean(90) < 0.7 * mean(0));
}

TEST_CASE("colocate training: samples lie within the text and differ") {
  const std::string text = sample_text();
  const auto symbols = to_symbols(text, vocabulary);
  const sampler from{symbols.data(), static_cast<std::uint32_t>(symbols.size()) - context_length,
                     1};
  std::vector<std::size_t> begins;
  for (std::uint32_t step = 0; step < 4; ++step) {
    for (std::uint32_t row = 0; row < 1000; ++row) {
      const auto begin = static_cast<std::size_t>(from.sample(step, row) - symbols.data());
      REQUIRE(begin + context_length < symbols.size());
      begins.push_back(begin);
    }
  }
  std::sort(begins.begin(), begins.end());
  const auto different = std::unique(begins.begin(), begins.end()) - begins.begin();
  CHECK(different > 2300);  // of about 4000 (1 - 1/e) expected
  CHECK(begins.front() < 100);
  CHECK(begins[static_cast<std::size_t>(different) - 1] > symbols.size() - 100 - context_length);
}

TEST_CASE("colocate training: the loop counts what was done within the window") {
  small_device d;
  language_model<host_cut> model(sample_text(), 1);
  std::atomic<std::uint64_t> done{0};
  const auto start = steady::now();
  const training_record r = train(d.queue, model, start, 0.2, 10, done);
  CHECK(r.steps >= 10);
  CHECK(r.steps == done.load());
  CHECK(r.steps == model.state().digests.size());
  CHECK(r.in_window <= r.steps);
  CHECK(r.seconds <= 0.2);
  const training_record none = train(d.queue, model, steady::now(), 0.0, 3, done);
  CHECK(none.steps == 3);
  CHECK(none.in_window == 0);
}
