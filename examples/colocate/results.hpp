// SPDX-License-Identifier: Apache-2.0
// What a run has to say: figures of each mode, and where they were measured.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace colocate {

/// Times in microseconds; NaN where there is nothing to tell.
struct serve_figures {
  std::uint64_t requests = 0;
  double achieved_load = 0.0;  ///< service time alone of the requests served / window
  double service_p50_us = 0.0;
  double service_p99_us = 0.0;
  double response_p50_us = 0.0;
  double response_p99_us = 0.0;
  double p99_ratio = 0.0;      ///< service P99 / service P99 alone
  double p99_ratio_low = 0.0;  ///< lower end of its 95 % interval
  double slowdown_p99 = 0.0;   ///< P99 of a request's service time / the same alone
};

struct train_figures {
  std::uint64_t steps = 0;
  double steps_per_s = 0.0;
  double progress = 0.0;           ///< steps per second / the same alone
  double progress_per_idle = 0.0;  ///< progress / share of the window the service left idle
  double lost_us_per_request = 0.0;
  std::uint64_t yields = 0;
  double loss_first = 0.0;  ///< mean over the first tenth of the steps
  double loss_last = 0.0;
  std::uint64_t digest_step = 0;
  std::string weights_digest;  ///< of the weights after `digest_step` steps, hexadecimal
};

struct mode_figures {
  std::string mode;
  bool unstable = false;
  serve_figures serve;
  train_figures train;
};

/// One line of the record's context; numbers are written as they are, texts are quoted.
struct context_entry {
  std::string key;
  std::string value;
  bool is_number = false;
};

struct results {
  std::string device;  ///< "cuda" or "host"
  std::vector<context_entry> context;
  std::vector<mode_figures> modes;
  std::vector<std::string> complaints;  ///< why the run is not verified; empty = it is
  [[nodiscard]] bool verified() const { return complaints.empty(); }
};

}  // namespace colocate
