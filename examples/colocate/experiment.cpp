// SPDX-License-Identifier: Apache-2.0
#include "experiment.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "arrivals.hpp"
#include "figures.hpp"
#include "files.hpp"
#include "inputs.hpp"
#include "machine.hpp"
#include "mode.hpp"
#include "serving_loop.hpp"
#include "statistics.hpp"
#include "training_loop.hpp"

namespace colocate {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t calibrations = 5;
constexpr std::uint32_t warm_steps = 2;
constexpr std::chrono::milliseconds until_start{20};
constexpr std::chrono::seconds between_reports{2};

std::string rounded(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

class experiment {
 public:
  experiment(const plan& p, const std::function<void(const std::string&)>& tell)
      : plan_(p), tell_(tell), window_(p.choices.seconds), lengths_(input_lengths()) {}

  results run() {
    results out;
    out.device = plan_.where == place::cuda ? "cuda" : "host";
    out.context = machine_context(plan_.where);
    prepare();
    const auto names = mode_names(plan_.where);
    observations_.push_back(run_alone(0.0));
    // The last name first: what is to be compared with `alone` most closely is measured next to it.
    // Then back into the order of the names.
    for (std::size_t i = names.size() - 1; i > 0; --i) {
      observations_.push_back(run_together(names[i]));
    }
    std::reverse(observations_.begin() + 1, observations_.end());
    finish_alone();
    const baseline alone = pool(observations_.front(), calibrated_);
    out.complaints = complaints(observations_);
    replay(out);
    const std::uint64_t step = common_steps(observations_);
    for (const observation& o : observations_) {
      out.modes.push_back(derive(o, alone, window_, step));
    }
    describe(out);
    return out;
  }

 private:
  [[nodiscard]] waiting how_to_wait() const {
    // On the host device the service's thread would take its core from the device.
    return plan_.where == place::cuda ? waiting::spin : waiting::sleep;
  }

  void prepare() {
    const std::uint64_t seed = plan_.choices.seed;
    tell_("Preparing both models on " + device_name(plan_.where) + ".");
#if CEDE_EXAMPLE_CUDA
    if (plan_.where == place::cuda) {
      service_ = make_cuda_service(lengths_, seed);
      training_ = make_cuda_training(plan_.text, seed);
    }
#endif
    if (plan_.where == place::host) {
      service_ = make_host_service(lengths_, seed);
      training_ = make_host_training(plan_.text, seed);
    }
    const auto alone = make_mode(plan_.where, "alone", false);
    service_->make_references(alone->serving());
    service_costs costs{lengths_, {}};
    for (std::size_t i = 0; i < lengths_.size(); ++i) {
      costs.seconds.push_back(median(time_alone(alone->serving(), *service_, i, 2, calibrations)));
    }
    const options& o = plan_.choices;
    schedule_ = plan_.arrivals ? from_trace(*plan_.arrivals, costs, o.load, window_, seed)
                               : from_process(o.arrivals, costs, o.load, window_, seed);
    calibrated_ = std::move(costs.seconds);
    std::string rows;
    if (schedule_.rows != 0) {
      rows = ", " + std::to_string(schedule_.rows) + " rows of the trace";
      const std::size_t n = schedule_.wraps;
      if (n != 0) {
        rows += ", which is repeated " + (n == 1 ? "once" : std::to_string(n) + " times");
      }
    }
    tell_("A window of " + rounded(window_, 1) + " s has " +
          std::to_string(schedule_.arrivals.size()) + " requests" + rows + "; load " +
          rounded(schedule_.load, 3) + ".");
  }

  // Nothing must be slow because it is done for the first time.
  void warm(mode& m) {
    for (std::size_t i = 0; i < lengths_.size(); ++i) time_alone(m.serving(), *service_, i, 1, 0);
    train_steps(m.training(), *training_, warm_steps);
    training_->restart();
  }

  // The arrivals between two times, counted from the first of them.
  [[nodiscard]] std::vector<arrival> between(double begin, double end) const {
    std::vector<arrival> out;
    for (const arrival& a : schedule_.arrivals) {
      if (a.at >= begin && a.at < end) out.push_back({a.at - begin, a.input});
    }
    return out;
  }

  // Waits for the threads of a mode, telling now and then how far they are.
  template <class Describe, class... Futures>
  void watch(const std::string& what, double window, steady::time_point start, Describe describe,
             Futures&... running) {
    auto next = start + between_reports;
    while (((running.wait_for(0s) != std::future_status::ready) || ...)) {
      (running.wait_for(50ms), ...);
      const double passed = std::chrono::duration<double>(steady::now() - start).count();
      if (steady::now() < next || passed >= window) continue;
      next += between_reports;
      tell_(what + ": " + rounded(passed, 0) + " of " + rounded(window, 0) + " s, " + describe() +
            ".");
    }
  }

  static std::string requests(const std::atomic<std::uint64_t>& count) {
    return std::to_string(count.load()) + " requests answered";
  }
  static std::string steps(const std::atomic<std::uint64_t>& count) {
    return std::to_string(count.load()) + " steps trained";
  }

  observation run_together(const std::string& name) {
    const auto m = make_mode(plan_.where, name, !plan_.choices.timeline.empty());
    warm(*m);
    const std::uint64_t yields_before = m->yields();
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> trained{0};
    const std::vector<double> starts = starts_alone(schedule_.arrivals, calibrated_);
    const auto start = steady::now() + until_start;
    auto training = std::async(std::launch::async, [&] {
      return train(m->training(), *training_, start, window_, fewest_steps, trained);
    });
    auto serving = std::async(std::launch::async, [&] {
      return serve(m->serving(), *service_, {schedule_.arrivals, starts, window_}, start,
                   how_to_wait(), answered);
    });
    const auto both = [&] { return requests(answered) + ", " + steps(trained); };
    watch("Mode " + name, window_, start, both, serving, training);
    observation o;
    o.mode = name;
    o.serving = serving.get();
    o.training = training.get();
    o.yields = m->yields() - yields_before;
    o.state = training_->state();
    clocks_.push_back(sm_clock_mhz(plan_.where));
    if (m->has_timeline()) {
      write_output(plan_.choices.timeline, [&](const std::string& to) { m->write_timeline(to); });
    }
    return o;
  }

  // Half a window of the service and half a window of the training, each with the device to itself.
  observation run_alone(double begin, const training_state* from = nullptr) {
    const double half = window_ / 2;
    const auto m = make_mode(plan_.where, "alone", false);
    warm(*m);
    if (from != nullptr) training_->restore(*from);
    observation o;
    o.mode = "alone";
    std::atomic<std::uint64_t> answered{0};
    std::atomic<std::uint64_t> trained{0};
    const std::vector<arrival> arrivals = between(begin, begin + half);
    const std::vector<double> starts = starts_alone(arrivals, calibrated_);
    auto start = steady::now() + until_start;
    auto serving = std::async(std::launch::async, [&] {
      return serve(m->serving(), *service_, {arrivals, starts, half}, start, how_to_wait(),
                   answered);
    });
    watch("The service alone", half, start, [&] { return requests(answered); }, serving);
    o.serving = serving.get();
    clocks_.push_back(sm_clock_mhz(plan_.where));
    start = steady::now();
    auto training = std::async(std::launch::async, [&] {
      return train(m->training(), *training_, start, half, fewest_steps / 2, trained);
    });
    watch("The training alone", half, start, [&] { return steps(trained); }, training);
    o.training = training.get();
    clocks_.push_back(sm_clock_mhz(plan_.where));
    o.state = training_->state();
    return o;
  }

  // The second half, pooled with the first.
  void finish_alone() {
    observation& first = observations_.front();
    observation second = run_alone(window_ / 2, &first.state);
    drift_ = median(service_seconds(second)) / median(service_seconds(first));
    serving_record& s = first.serving;
    s.requests.insert(s.requests.end(), second.serving.requests.begin(),
                      second.serving.requests.end());
    s.unstable = s.unstable || second.serving.unstable;
    s.wrong += second.serving.wrong;
    s.worst_error = std::max(s.worst_error, second.serving.worst_error);
    first.training.steps += second.training.steps;
    first.training.in_window += second.training.in_window;
    first.training.seconds += second.training.seconds;
    first.state = std::move(second.state);
  }

  // Service times relative to the input's calibrated one: both halves have different requests.
  [[nodiscard]] std::vector<double> service_seconds(const observation& o) const {
    std::vector<double> out;
    for (const served& s : o.serving.requests) {
      out.push_back(s.service / calibrated_[s.input]);
    }
    return out;
  }

  // The same number of steps as cede's, alone: the same weights, bit for bit.
  void replay(results& out) {
    const observation& cede = observations_.back();
    tell_("Training " + std::to_string(cede.training.steps) +
          " steps once more, alone, to compare the weights.");
    const auto m = make_mode(plan_.where, "alone", false);
    training_->restart();
    train_steps(m->training(), *training_, cede.training.steps);
    const std::vector<float> again = training_->state().weights;
    const auto same = [](float a, float b) {
      return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    };
    if (!std::equal(again.begin(), again.end(), cede.state.weights.begin(),
                    cede.state.weights.end(), same)) {
      out.complaints.push_back("The last weights of mode " + cede.mode +
                               " differ from those of as many steps run alone.");
    }
  }

  void describe(results& out) const {
    const auto number = [&](const std::string& key, const std::string& value) {
      out.context.push_back({key, value, true});
    };
    const options& o = plan_.choices;
    number("samples", std::to_string(schedule_.arrivals.size()));
    number("seconds", rounded(window_, 3));
    number("load", rounded(o.load, 4));
    number("seed", std::to_string(o.seed));
    out.context.push_back({"arrivals", plan_.arrivals                         ? "trace"
                                       : o.arrivals == arrival_process::gamma ? "gamma"
                                                                              : "poisson"});
    if (plan_.arrivals) {
      number("trace_rows", std::to_string(schedule_.rows));
      number("trace_wraps", std::to_string(schedule_.wraps));
    }
    number("answer_tolerance", rounded(answer_tolerance, 4));
    number("worst_error", rounded(worst_error(), 7));
    if (std::isfinite(drift_)) number("alone_after_before", rounded(drift_, 4));
    if (plan_.where == place::cuda) {
      const auto [least, most] = std::minmax_element(clocks_.begin(), clocks_.end());
      number("sm_clock_mhz_min", rounded(*least, 0));
      number("sm_clock_mhz_max", rounded(*most, 0));
    }
  }

  [[nodiscard]] double worst_error() const {
    double worst = 0.0;
    for (const observation& o : observations_) {
      worst = std::max(worst, static_cast<double>(o.serving.worst_error));
    }
    return worst;
  }

  const plan& plan_;
  const std::function<void(const std::string&)>& tell_;
  double window_;
  std::vector<std::uint32_t> lengths_;
  std::unique_ptr<service> service_;
  std::unique_ptr<training> training_;
  schedule schedule_;
  std::vector<double> calibrated_;
  std::vector<observation> observations_;
  std::vector<double> clocks_;
  double drift_ = std::nan("");
};

}  // namespace

results run(const plan& p, const std::function<void(const std::string&)>& tell) {
  return experiment(p, tell).run();
}

}  // namespace colocate
