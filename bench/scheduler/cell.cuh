// SPDX-License-Identifier: Apache-2.0
// One cell: requests that arrive whether or not earlier ones are answered, on this thread, and
// best-effort work without pause, on another.
#pragma once

#include "measure/patience.hpp"
#include "scheduler/arrivals.hpp"
#include "scheduler/figures.hpp"
#include "scheduler/sides.cuh"
#include "scheduler/work.cuh"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <thread>
#include <vector>

namespace bench::scheduler {

inline wall::duration in_us(double us) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(us * 1000));
}

/// Answers the arrivals in order, one at a time. Ends early where it falls too far behind what the
/// service would do alone.
inline observation serve(critical_side& side, critical& work, const std::vector<double>& arrivals,
                         double service_us, wall::time_point start) {
  const std::vector<double> alone = starts_alone(arrivals, service_us);
  observation seen;
  seen.service_us.reserve(arrivals.size());
  seen.response_us.reserve(arrivals.size());
  std::size_t started_alone = 0;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const auto due = start + in_us(arrivals[i]);
    if (due - wall::now() > std::chrono::milliseconds(1)) {
      std::this_thread::sleep_until(due - std::chrono::microseconds(500));
    }
    spin_until(due);
    const auto taken = wall::now();
    while (started_alone < alone.size() && start + in_us(alone[started_alone]) <= taken) {
      ++started_alone;
    }
    if (started_alone > i + most_behind) {
      seen.unstable = true;
      break;
    }
    side.answer([&](path& on) { work.submit(on); }, due);
    const auto done = wall::now();
    seen.service_us.push_back(microseconds(done - taken));
    seen.response_us.push_back(microseconds(done - due));
  }
  seen.window_us = microseconds(wall::now() - start);
  return seen;
}

/// Mean service time of `n` requests, one after another, the device to themselves.
inline double time_alone(critical_side& side, critical& work, int n) {
  double sum = 0;
  for (int i = -20; i < n; ++i) {  // the first ones warm up
    const auto begin = wall::now();
    side.answer([&](path& on) { work.submit(on); }, begin);
    if (i >= 0) sum += microseconds(wall::now() - begin);
  }
  return sum / n;
}

/// Keeps a few units of best-effort work queued until told to stop; counts those done by then.
class pump {
 public:
  pump(effort_side& side, effort& work) : side_(side), work_(work) {
    for (int i = 0; i < ahead; ++i) launch();  // warms up
    for (int i = 0; i < ahead; ++i) side_.pass();
    start_ = wall::now();
    thread_ = std::thread([this] {
      try {
        run();
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
  pump(const pump&) = delete;
  pump& operator=(const pump&) = delete;
  ~pump() {
    stop_.store(true);
    if (thread_.joinable()) thread_.join();
  }
  /// Units per microsecond, from the start to the last one done before this call. Waits until what
  /// is queued is done; throws what the thread failed with.
  double stop() {
    stop_.store(true);
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
    return units_ == 0 ? 0 : static_cast<double>(units_) / microseconds(last_ - start_);
  }

 private:
  // Enough that the device never runs dry, few enough that little is queued at the end.
  static constexpr int ahead = 4;

  void launch() {
    work_.submit(side_.on());
    side_.mark();
  }
  void run() {
    for (int i = 0; i < ahead; ++i) launch();
    int queued = ahead;
    while (queued > 0) {
      side_.pass();
      --queued;
      if (stop_.load()) continue;
      ++units_;
      last_ = wall::now();
      launch();
      ++queued;
    }
  }
  effort_side& side_;
  effort& work_;
  wall::time_point start_, last_;
  std::uint64_t units_ = 0;
  std::atomic<bool> stop_{false};
  std::exception_ptr failure_;
  std::thread thread_;
};

/// Best-effort work alone on a plain stream, units per microsecond.
inline double pump_alone(effort& work, std::chrono::milliseconds window) {
  sides alone({mode::none, 0, {}});
  pump p(alone.effort(), work);
  std::this_thread::sleep_for(window);
  return p.stop();
}

/// Both together.
inline observation run_cell(sides& both, critical& service, effort& work,
                            const std::vector<double>& arrivals, double service_us) {
  time_alone(both.critical(), service, 20);  // warms up this way of launching
  pump p(both.effort(), work);
  // Best-effort work and requests are counted over the same time.
  observation seen =
      serve(both.critical(), service, arrivals, service_us, wall::now() + in_us(100));
  seen.units_per_us = p.stop();
  return seen;
}

}  // namespace bench::scheduler
