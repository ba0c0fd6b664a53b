// SPDX-License-Identifier: Apache-2.0
// What a call of the latency-critical side costs its thread, against the same on a plain stream;
// best-effort work alone through the scheduler; a scheduler with nothing to do.
#pragma once

#include "scheduler/cell.cuh"

#include <ctime>

#include <memory>
#include <string>
#include <vector>

namespace bench::scheduler {

/// Microseconds of the host for `call` on one side, `n` times, with nothing left on the side's
/// stream before each.
class call_timer {
 public:
  explicit call_timer(std::string call) : call_(std::move(call)) {}

  std::vector<double> raw(int n) {
    raw_stream stream(highest());
    path on{.raw = stream.get()};
    std::vector<double> us;
    for (int i = -50; i < n; ++i) {
      if (call_ != "request") on.launch(tiny_);  // as below: not the first one of a request
      const auto begin = wall::now();
      on.launch(tiny_);
      // A request has an end that the host is told of, on any stream.
      std::uint64_t end = 0;
      if (call_ == "request") end = stream.mark();
      const double took = microseconds(wall::now() - begin);
      if (end == 0) end = stream.mark();
      await([&] { return stream.reached(end); }, "the end of a launch");
      if (i >= 0) us.push_back(took);
    }
    return us;
  }

  std::vector<double> through(cede::workload& work, int n) {
    cede::stream s = work.stream();
    path on{.through = s};
    std::vector<double> us;
    for (int i = -50; i < n; ++i) {
      double took = 0;
      if (call_ == "request") {
        const auto begin = wall::now();
        cede::request r = work.request();
        on.launch(tiny_);
        r.close();
        took = microseconds(wall::now() - begin);
      } else {
        cede::request r = work.request();
        on.launch(tiny_);  // the first one of a request raises the gate
        const auto begin = wall::now();
        if (call_ == "launch") {
          on.launch(tiny_);
        } else {
          s.run([&](cudaStream_t raw) { tiny_.native.plain(raw); });
        }
        took = microseconds(wall::now() - begin);
        r.close();
      }
      if (!s.synchronize_for(patience)) give_up("the end of a launch");
      if (i >= 0) us.push_back(took);
    }
    return us;
  }

 private:
  static int highest() {
    int least = 0;
    int greatest = 0;
    BENCH_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    return greatest;
  }
  std::string call_;
  cuda_memory memory_;
  kernel<arithmetic> tiny_{{.grid = 1, .block = 256}, {1, memory_.array<float>(1)}};
};

/// `beside` best-effort workloads have work queued all the time. `own_us_p50`: the whole call
/// through cede, of which `added` is what a plain stream's is shorter by.
inline counters host_cost(const std::string& call, int beside, int samples) {
  call_timer timed(call);
  const std::vector<double> plain = timed.raw(samples);
  cede::scheduler gpu;
  cede::workload serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  std::vector<std::unique_ptr<effort>> work;
  std::vector<std::unique_ptr<cede_effort>> lanes;
  std::vector<std::unique_ptr<pump>> pumps;
  for (int i = 0; i < beside; ++i) {
    work.push_back(make_effort("tile12us"));
    lanes.push_back(std::make_unique<cede_effort>(
        gpu.workload({.name = "effort" + std::to_string(i), .priority = cede::best_effort}),
        false));
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    pumps.push_back(std::make_unique<pump>(*lanes[i], *work[i]));
  }
  const std::vector<double> ours = timed.through(serve, samples);
  for (auto& p : pumps) p->stop();
  pumps.clear();
  return {{"samples", samples},
          {"added_us_p50", quantile(ours, 0.5) - quantile(plain, 0.5)},
          {"added_us_p99", quantile(ours, 0.99) - quantile(plain, 0.99)},
          {"own_us_p50", quantile(ours, 0.5)},
          {"plain_us_p50", quantile(plain, 0.5)}};
}

/// The same units on a plain stream and through the scheduler, in turn: `ratio` is the speed
/// through the scheduler against the plain stream's.
inline counters alone_through(effort& work, int wanted_pairs) {
  sides plain({mode::none, 0, {}});
  sides ours({mode::cede, 0, {}});
  auto time = [&](effort_side& side, int units) {
    const auto begin = wall::now();
    for (int i = 0; i < units; ++i) {
      work.submit(side.on());
      side.mark();
    }
    for (int i = 0; i < units; ++i) side.pass();
    return microseconds(wall::now() - begin) / units;
  };
  time(ours.effort(), 2);
  const double once = (time(plain.effort(), 2), time(plain.effort(), 2));
  const int units = std::max(2, static_cast<int>(50'000 / once));
  const pair_times t = time_pairs([&] { return time(plain.effort(), units); },
                                  [&] { return time(ours.effort(), units); }, wanted_pairs);
  return {{"ratio", t.first_us / t.second_us},
          {"plain_us", t.first_us},
          {"cede_us", t.second_us},
          {"pairs", wanted_pairs}};
}

/// Processor time of the process while a scheduler with one workload of each kind has nothing to
/// do.
inline counters idle_cost(std::chrono::milliseconds window) {
  sides both({mode::cede, 0, {}});
  auto spent = [] {
    std::timespec t{};
    static_cast<void>(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t));
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // what is set up comes to rest
  const double before = spent();
  std::this_thread::sleep_for(window);
  return {{"cpu_ms", spent() - before}, {"window_ms", static_cast<double>(window.count())}};
}

}  // namespace bench::scheduler
