// SPDX-License-Identifier: Apache-2.0
// From observations to figures: each definition once by hand, and every way not to be verified.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../examples/colocate/figures.cpp"
#include "../examples/colocate/statistics.cpp"
#include "../examples/colocate/training.cpp"

using namespace colocate;

namespace {

// `n` steps whose weights are given by the step alone, so that all modes agree.
training_state trained(std::uint32_t n) {
  training_state s;
  for (std::uint32_t i = 1; i <= n; ++i) {
    s.losses.push_back(4.0 - i * 0.01);
    s.digests.push_back(digest({static_cast<float>(i), 2.0F}));
  }
  s.weights = {static_cast<float>(n), 2.0F};
  return s;
}

observation observe(const std::string& mode, std::uint32_t steps) {
  observation o;
  o.mode = mode;
  o.training = {.steps = steps, .in_window = steps, .seconds = 10.0};
  o.state = trained(steps);
  return o;
}

// 100 requests of input 0 at 1 ms, and one of input 1 at 3 ms.
observation alone() {
  observation o = observe("alone", 1000);
  for (int i = 0; i < 100; ++i) o.serving.requests.push_back({0, 1e-3, 2e-3});
  o.serving.requests.push_back({1, 3e-3, 4e-3});
  return o;
}

const std::vector<double> calibrated{0.9e-3, 2.9e-3, 7e-3};

}  // namespace

TEST_CASE("colocate figures: the baseline is what was observed, else what was calibrated") {
  const baseline b = pool(alone(), calibrated);
  CHECK(b.input_seconds == std::vector<double>{1e-3, 3e-3, 7e-3});
  CHECK(b.service_seconds.size() == 101);
  CHECK(b.steps_per_second == 100.0);
}

TEST_CASE("colocate figures: the service's") {
  observation o = observe("cede", 500);
  for (int i = 0; i < 99; ++i) o.serving.requests.push_back({0, 1.1e-3, 5e-3});
  o.serving.requests.push_back({1, 4.5e-3, 9e-3});
  const serve_figures f = derive(o, pool(alone(), calibrated), 1.0, 500).serve;
  CHECK(f.requests == 100);
  CHECK(f.achieved_load == doctest::Approx(0.102));
  CHECK(f.service_p50_us == doctest::Approx(1100));
  CHECK(f.service_p99_us == doctest::Approx(1100));
  CHECK(f.response_p50_us == doctest::Approx(5000));
  CHECK(f.response_p99_us == doctest::Approx(5000));
  CHECK(f.p99_ratio == doctest::Approx(1.1));
  CHECK(f.p99_ratio_low <= f.p99_ratio);
  CHECK(f.slowdown_p99 == doctest::Approx(1.1));
}

TEST_CASE("colocate figures: slowdown compares a request with its like") {
  observation o = observe("cede", 500);
  // The large one is as fast as alone; of the small ones, one in ten takes twice as long.
  for (int i = 0; i < 90; ++i) o.serving.requests.push_back({0, 1e-3, 1e-3});
  for (int i = 0; i < 10; ++i) o.serving.requests.push_back({0, 2e-3, 2e-3});
  for (int i = 0; i < 5; ++i) o.serving.requests.push_back({1, 3e-3, 3e-3});
  const serve_figures f = derive(o, pool(alone(), calibrated), 1.0, 500).serve;
  CHECK(f.service_p99_us == doctest::Approx(3000));
  CHECK(f.slowdown_p99 == doctest::Approx(2.0));
}

TEST_CASE("colocate figures: the training's") {
  observation o = observe("cede", 400);
  o.yields = 77;
  for (int i = 0; i < 500; ++i) o.serving.requests.push_back({0, 1.1e-3, 1.1e-3});
  const train_figures f = derive(o, pool(alone(), calibrated), 1.0, 400).train;
  CHECK(f.steps == 400);
  CHECK(f.steps_per_s == doctest::Approx(40));
  CHECK(f.progress == doctest::Approx(0.4));
  // 500 requests of 1 ms alone leave half of the window.
  CHECK(f.progress_per_idle == doctest::Approx(0.8));
  CHECK(f.lost_us_per_request == doctest::Approx(0.2 * 0.5 / 500 * 1e6));
  CHECK(f.yields == 77);
  CHECK(f.loss_first == doctest::Approx(4.0 - 0.01 * 20.5));
  CHECK(f.loss_last == doctest::Approx(4.0 - 0.01 * 380.5));
  CHECK(f.digest_step == 400);
  CHECK(f.weights_digest == hexadecimal(digest({400.0F, 2.0F})));
}

TEST_CASE("colocate figures: only steps within the window make speed") {
  observation o = observe("cede", 100);
  o.training.in_window = 60;
  o.training.seconds = 3.0;
  CHECK(derive(o, pool(alone(), calibrated), 3.0, 100).train.steps_per_s == doctest::Approx(20));
  o.training.in_window = 0;
  CHECK(derive(o, pool(alone(), calibrated), 3.0, 100).train.steps_per_s == 0.0);
}

TEST_CASE("colocate figures: alone is its own measure") {
  const observation a = alone();
  const mode_figures f = derive(a, pool(a, calibrated), 10.0, 1000);
  CHECK(f.serve.p99_ratio == 1.0);
  CHECK(f.train.progress == 1.0);
  CHECK(f.train.progress_per_idle == 1.0);
  CHECK(f.train.lost_us_per_request == 0.0);
}

TEST_CASE("colocate figures: a mode that served nothing has no service figures") {
  const mode_figures f = derive(observe("equal", 200), pool(alone(), calibrated), 1.0, 200);
  CHECK(f.serve.requests == 0);
  CHECK(std::isnan(f.serve.service_p99_us));
  CHECK(std::isnan(f.serve.p99_ratio));
  CHECK(std::isnan(f.train.lost_us_per_request));
  CHECK(f.train.progress == doctest::Approx(0.2));
}

TEST_CASE("colocate figures: weights are compared after the smallest number of steps") {
  const std::vector<observation> modes{observe("alone", 900), observe("equal", 120),
                                       observe("cede", 500)};
  CHECK(common_steps(modes) == 120);
  CHECK(common_steps({}) == 0);
  CHECK(complaints(modes).empty());
}

TEST_CASE("colocate figures: every fault is a complaint that names its mode") {
  const std::vector<observation> good{observe("alone", 900), observe("cede", 500)};
  const auto complained = [](const std::vector<observation>& modes) {
    const auto all = complaints(modes);
    return all.size() == 1 ? all.front() : std::to_string(all.size()) + " complaints";
  };
  auto wrong_answer = good;
  wrong_answer[1].serving.wrong = 2;
  wrong_answer[1].serving.requests.resize(7);
  CHECK(complained(wrong_answer).find("In mode cede, 2 of 7 answers were wrong") == 0);

  auto other_weights = good;
  other_weights[1].state.digests[499] ^= 1;
  other_weights[1].state.weights = {500.0F, 2.0F};
  CHECK(complaints(other_weights).size() ==
        2);  // they are not what the device's digest says, either

  auto lost_tile = good;
  lost_tile[1].state.digests[499] ^= 1;
  lost_tile.push_back(observe("longer", 600));
  CHECK(complaints(lost_tile).size() == 2);

  auto overwritten = good;
  overwritten[0].state.weights[1] = 3.0F;
  CHECK(complained(overwritten) == "In mode alone, the last weights do not have their digest.");

  auto none = good;
  none[1].state.digests.clear();
  CHECK(complained(none) == "In mode cede, there are no digests to compare.");
}

TEST_CASE("colocate figures: the digest sees every bit and every place") {
  const std::vector<float> w{1.0F, 2.0F, 3.0F};
  CHECK(digest(w) == digest(w));
  CHECK(digest({2.0F, 1.0F, 3.0F}) != digest(w));
  CHECK(digest({1.0F, 2.0F, std::nextafter(3.0F, 4.0F)}) != digest(w));
  CHECK(digest({0.0F}) != digest({-0.0F}));
  CHECK(digest({1.0F, 2.0F}) != digest({1.0F, 2.0F, 0.0F}));
  CHECK(hexadecimal(0xabcU) == "0000000000000abc");
}
