// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "statistics.hpp"

namespace colocate {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();
constexpr double us_per_s = 1e6;

std::vector<double> service_times(const serving_record& r) {
  std::vector<double> out;
  for (const served& s : r.requests) out.push_back(s.service);
  return out;
}

serve_figures serve_part(const serving_record& r, const baseline& alone, double window) {
  const std::vector<double> service = service_times(r);
  std::vector<double> response;
  std::vector<double> slowdown;
  double busy = 0.0;
  for (const served& s : r.requests) {
    response.push_back(s.response);
    slowdown.push_back(s.service / alone.input_seconds[s.input]);
    busy += alone.input_seconds[s.input];
  }
  const ratio p99 = percentile_ratio(service, alone.service_seconds, 0.99);
  serve_figures f;
  f.requests = r.requests.size();
  f.achieved_load = busy / window;
  f.service_p50_us = percentile(service, 0.50) * us_per_s;
  f.service_p99_us = percentile(service, 0.99) * us_per_s;
  f.response_p50_us = percentile(response, 0.50) * us_per_s;
  f.response_p99_us = percentile(response, 0.99) * us_per_s;
  f.p99_ratio = p99.value;
  f.p99_ratio_low = p99.low;
  f.slowdown_p99 = percentile(slowdown, 0.99);
  return f;
}

double speed(const training_record& r) { return r.in_window == 0 ? 0.0 : r.in_window / r.seconds; }

double mean_of_tenth(const std::vector<double>& losses, bool last) {
  const std::size_t tenth = std::max<std::size_t>(1, losses.size() / 10);
  if (losses.size() < tenth) return none;
  return mean(std::span(losses).subspan(last ? losses.size() - tenth : 0, tenth));
}

}  // namespace

baseline pool(const observation& alone, const std::vector<double>& calibrated) {
  baseline out;
  out.service_seconds = service_times(alone.serving);
  out.steps_per_second = speed(alone.training);
  std::vector<std::vector<double>> by_input(calibrated.size());
  for (const served& s : alone.serving.requests) by_input[s.input].push_back(s.service);
  for (std::size_t i = 0; i < calibrated.size(); ++i) {
    out.input_seconds.push_back(by_input[i].empty() ? calibrated[i] : median(by_input[i]));
  }
  return out;
}

mode_figures derive(const observation& o, const baseline& alone, double window,
                    std::uint64_t digest_step) {
  mode_figures f;
  f.mode = o.mode;
  f.unstable = o.serving.unstable;
  f.serve = serve_part(o.serving, alone, window);
  train_figures& t = f.train;
  t.steps = o.training.steps;
  t.steps_per_s = speed(o.training);
  t.progress = t.steps_per_s / alone.steps_per_second;
  // Alone, the training had the whole window to itself.
  const double idle = o.mode == "alone" ? 1.0 : 1.0 - f.serve.achieved_load;
  t.progress_per_idle = t.progress / idle;
  t.lost_us_per_request = f.serve.requests == 0
                              ? none
                              : (1.0 - t.progress_per_idle) * idle * window /
                                    static_cast<double>(f.serve.requests) * us_per_s;
  t.yields = o.yields;
  t.loss_first = mean_of_tenth(o.state.losses, false);
  t.loss_last = mean_of_tenth(o.state.losses, true);
  t.digest_step = digest_step;
  if (digest_step >= 1 && digest_step <= o.state.digests.size()) {
    t.weights_digest = hexadecimal(o.state.digests[digest_step - 1]);
  }
  return f;
}

std::uint64_t common_steps(const std::vector<observation>& modes) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const observation& o : modes) least = std::min<std::uint64_t>(least, o.training.steps);
  return modes.empty() ? 0 : least;
}

std::vector<std::string> complaints(const std::vector<observation>& modes) {
  std::vector<std::string> out;
  const std::uint64_t step = common_steps(modes);
  for (const observation& o : modes) {
    if (o.serving.wrong != 0) {
      out.push_back("In mode " + o.mode + ", " + std::to_string(o.serving.wrong) + " of " +
                    std::to_string(o.serving.requests.size()) +
                    " answers were wrong, the worst by " + std::to_string(o.serving.worst_error) +
                    ".");
    }
    if (step == 0 || o.state.digests.size() != o.training.steps) {
      out.push_back("In mode " + o.mode + ", there are no digests to compare.");
      continue;
    }
    if (o.state.digests[step - 1] != modes.front().state.digests[step - 1]) {
      out.push_back("In mode " + o.mode + ", the weights after step " + std::to_string(step) +
                    " differ from those of mode " + modes.front().mode + ".");
    }
    if (digest(o.state.weights) != o.state.digests.back()) {
      out.push_back("In mode " + o.mode + ", the last weights do not have their digest.");
    }
  }
  return out;
}

}  // namespace colocate
