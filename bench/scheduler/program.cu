// SPDX-License-Identifier: Apache-2.0
// How a latency-critical workload and a best-effort one fare together, by how they share the GPU.
//   --plan          prints the rows and about how long each takes, by part with --part I/N
//   --part I/N      measures one of N parts, each shorter than 8 minutes
//   --smoke         a few rows for a moment each: does everything work?
//   --benchmark_filter=REGEX chooses rows; parts are parts of those
#include "measure/program.cuh"
#include "scheduler/cell.cuh"
#include "scheduler/host_cost.cuh"
#include "scheduler/plan.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace {

using namespace bench::scheduler;

struct choices {
  bool plan = false;
  bool smoke = false;
  std::size_t part = 1;
  std::size_t parts = 0;  ///< 0: as few as there can be, and all of them
  std::string filter = ".";
};

/// Takes this program's own options out of `argv`; Google Benchmark gets the rest.
choices parse(int& argc, char** argv) {
  choices c;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    constexpr std::string_view filter = "--benchmark_filter=";
    if (a == "--plan") {
      c.plan = true;
    } else if (a == "--smoke") {
      c.smoke = true;
    } else if (a == "--part" && i + 1 < argc) {
      std::tie(c.part, c.parts) = parse_part(argv[++i]);
    } else {
      if (a.starts_with(filter)) c.filter = a.substr(filter.size());
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  argv[argc] = nullptr;
  return c;
}

std::vector<row> chosen(const choices& c) {
  std::vector<row> rows = all_rows();
  if (c.smoke) rows = smoke_rows(rows);
  const std::regex wanted(c.filter);
  std::erase_if(rows, [&](const row& r) { return !std::regex_search(r.name, wanted); });
  return c.parts != 0 ? part_of(rows, c.part, c.parts) : rows;
}

void print_plan(const choices& c) {
  const std::vector<row> rows = chosen(c);
  const std::size_t parts = c.parts != 0 || rows.empty() ? 1 : fewest_parts(rows);
  std::printf("part,name,seconds\n");
  for (std::size_t i = 1; i <= parts; ++i) {
    const std::vector<row> part = parts == 1 ? rows : part_of(rows, i, parts);
    for (const row& r : part) {
      std::printf("%zu/%zu,%s,%.1f\n", c.parts != 0 ? c.part : i, c.parts != 0 ? c.parts : parts,
                  r.name.c_str(), r.seconds);
    }
    std::fprintf(stderr, "part %zu of %zu: %zu rows, about %.0f s with what they share\n",
                 c.parts != 0 ? c.part : i, c.parts != 0 ? c.parts : parts, part.size(),
                 expected_seconds(part));
  }
}

/// What a row came to.
struct outcome {
  counters found;
  std::string error;
};

class measurement {
 public:
  explicit measurement(bool smoke) : smoke_(smoke) {}

  std::map<std::string, outcome> run(const std::vector<row>& rows) {
    measure_efforts(rows, false);
    for (std::size_t i = 0; i < rows.size();) {
      if (rows[i].kind != row_kind::pair) {
        single(rows[i++]);
        continue;
      }
      std::size_t end = i + 1;
      while (end < rows.size() && same_group(rows[i], rows[end])) ++end;
      const std::vector<row> group(rows.begin() + static_cast<std::ptrdiff_t>(i),
                                   rows.begin() + static_cast<std::ptrdiff_t>(end));
      try {
        pairs(group);
      } catch (const std::exception& e) {
        for (const row& r : group) fail(r, e);
      }
      i = end;
    }
    measure_efforts(rows, true);
    for (const auto& finish : unfinished_) finish();
    return std::move(outcomes_);
  }

 private:
  struct known_effort {
    std::unique_ptr<effort> work;
    std::string error;
    double before = 0;  ///< units per microsecond alone
    double after = 0;
    [[nodiscard]] double alone() const { return (before + after) / 2; }
  };
  struct tried {
    observation seen;
    setting how;
    double critical_sms = 0;
    double longest_tile_us = 0;
    double yields = 0;
  };

  void fail(const row& r, const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", r.name.c_str(), e.what());
    outcomes_[r.name].error = e.what();
  }

  /// Every best-effort type of the part, alone; made at the first time.
  void measure_efforts(const std::vector<row>& rows, bool again) {
    const std::chrono::milliseconds window(smoke_ ? 100 : 1000);
    for (const row& r : rows) {
      const bool pair = r.kind == row_kind::pair && r.how != mode::none;
      if (!pair && r.kind != row_kind::alone) continue;
      known_effort& k = efforts_[r.effort];
      if (!k.error.empty() || (again ? k.after : k.before) != 0) continue;
      try {
        if (!k.work) k.work = make_effort(effort_types[r.effort].name);
        (again ? k.after : k.before) = pump_alone(*k.work, window);
      } catch (const std::exception& e) {
        k.error = std::string(effort_types[r.effort].name) + ": " + e.what();
      }
    }
  }

  known_effort& effort_of(const row& r) {
    known_effort& k = efforts_[r.effort];
    if (!k.error.empty()) throw std::runtime_error(k.error);
    return k;
  }

  void single(const row& r) {
    try {
      counters& c = outcomes_[r.name].found;
      if (r.kind == row_kind::alone)
        c = alone_through(*effort_of(r).work, smoke_ ? 3 : bench::pairs);
      if (r.kind == row_kind::host_cost) c = host_cost(r.call, r.beside, smoke_ ? 200 : 20'000);
      if (r.kind == row_kind::idle) c = idle_cost(std::chrono::milliseconds(smoke_ ? 500 : 5000));
    } catch (const std::exception& e) {
      fail(r, e);
    }
  }

  /// The cells of one latency-critical type and load, between two halves of it alone.
  void pairs(const std::vector<row>& group) {
    const row& like = group.front();
    const auto service = make_critical(critical_types[like.critical].name);
    double service_us = 0;
    {
      sides alone({mode::none, 0, {}});
      service_us = time_alone(alone.critical(), *service, smoke_ ? 20 : 500);
    }
    const std::size_t requests = smoke_ ? 200 : length_of(service_us, like.load).requests;
    const double gap_us = service_us / like.load;
    const std::vector<double> arrivals = poisson_arrivals(requests, gap_us, 11);
    const std::vector<double> half = poisson_arrivals((requests + 1) / 2, gap_us, 12);
    const auto alone_once = [&] {
      sides alone({mode::none, 0, {}});
      time_alone(alone.critical(), *service, 20);
      return serve(alone.critical(), *service, half, service_us, bench::wall::now() + in_us(100));
    };
    const observation before = alone_once();
    std::map<std::string, tried> seen;
    for (const row& r : group) {
      if (r.how == mode::none) continue;
      try {
        seen.emplace(r.name, best_of(r, *service, arrivals, service_us));
      } catch (const std::exception& e) {
        fail(r, e);
      }
    }
    const observation after = alone_once();
    const observation alone = pooled(before, after);
    const double idle_gap_us = mean_idle_gap(arrivals, service_us);
    for (const row& r : group) {
      if (r.how == mode::none) {
        counters& c = outcomes_[r.name].found = latency_counters(after, before);
        c["mean_idle_gap_us"] = idle_gap_us;
        continue;
      }
      const auto found = seen.find(r.name);
      if (found == seen.end()) continue;
      // Best-effort work alone is measured again at the end of the part.
      unfinished_.emplace_back([this, r, cell = std::move(found->second), alone, idle_gap_us] {
        finish(r, cell, alone, idle_gap_us);
      });
    }
  }

  tried best_of(const row& r, critical& service, const std::vector<double>& arrivals,
                double service_us) {
    known_effort& k = effort_of(r);
    tried best;
    bool first = true;
    for (const setting& how : settings_of(r.how, sms_of_device())) {
      tried t;
      {
        sides both(how);
        t.how = how;
        t.critical_sms = both.critical_sms();
        t.seen = run_cell(both, service, *k.work, arrivals, service_us);
        if (both.scheduler() != nullptr) {
          for (const auto& w : both.scheduler()->stats().workloads) {
            t.yields += static_cast<double>(w.yields);
            t.longest_tile_us =
                std::max(t.longest_tile_us, static_cast<double>(w.longest_tile.count()) * 1e-3);
          }
        }
      }
      const auto rank = [](const tried& x) {
        return std::pair(x.seen.unstable, bench::quantile(x.seen.service_us, 0.99));
      };
      if (first || rank(t) < rank(best)) best = std::move(t);
      first = false;
    }
    std::fprintf(stderr, "%s: %zu requests, P99 %.1f us\n", r.name.c_str(),
                 best.seen.service_us.size(), bench::quantile(best.seen.service_us, 0.99));
    return best;
  }

  void finish(const row& r, const tried& cell, const observation& alone, double idle_gap_us) {
    const known_effort& k = efforts_[r.effort];
    counters c = latency_counters(cell.seen, alone);
    add_progress(c, cell.seen, alone, k.alone());
    c["mean_idle_gap_us"] = idle_gap_us;
    c["load"] = r.load;
    c["effort_after_before"] = k.before > 0 ? k.after / k.before : 0;
    if (k.work->tile_p99_us() > 0) c["tile_p99_us"] = k.work->tile_p99_us();
    if (cell.longest_tile_us > 0) c["longest_tile_us"] = cell.longest_tile_us;
    if (r.how == mode::cede) c["yields"] = cell.yields;
    if (r.how == mode::green) c["critical_sms"] = cell.critical_sms;
    if (r.how == mode::gate_holdoff)
      c["hold_off_us"] = static_cast<double>(cell.how.hold_off.count());
    outcomes_[r.name].found = std::move(c);
  }

  bool smoke_;
  std::map<std::size_t, known_effort> efforts_;
  std::vector<std::function<void()>> unfinished_;
  std::map<std::string, outcome> outcomes_;
};

double sm_clock_mhz() {
  unsigned long long* both = nullptr;
  BENCH_CUDA(cudaMallocManaged(&both, 2 * sizeof *both));
  bench::compare_clocks<<<1, 1>>>(both);
  BENCH_CUDA(cudaDeviceSynchronize());
  const double mhz = 1e3 * static_cast<double>(both[0]) / static_cast<double>(both[1]);
  BENCH_CUDA(cudaFree(both));
  return mhz;
}

/// All rows at once would take longer than any run may.
void refuse_too_long(const choices& c) {
  const double seconds = expected_seconds(chosen(c));
  if (c.smoke || seconds <= 480) return;
  throw std::invalid_argument("these rows take about " + std::to_string(std::lround(seconds / 60)) +
                              " minutes; measure them in parts, --part 1/" +
                              std::to_string(fewest_parts(chosen(c))) +
                              " and so on, or name fewer by --benchmark_filter");
}

int measure(const choices& c, int argc, char** argv) {
  refuse_too_long(c);
  if (!bench::have_device()) return 1;
  const double clock_before = sm_clock_mhz();
  auto outcomes = measurement(c.smoke).run(chosen(c));
  const double clock_after = sm_clock_mhz();
  int failed = 0;
  for (auto& [name, o] : outcomes) {
    failed += o.error.empty() ? 0 : 1;
    bench::add_row(name, [&o = o, clock_before, clock_after](benchmark::State& state) {
      if (!o.error.empty()) throw std::runtime_error(o.error);
      state.SetIterationTime(o.found.contains("p50_us") ? o.found.at("p50_us") * 1e-6 : 0);
      for (const auto& [key, value] : o.found) state.counters[key] = value;
      state.counters["sm_clock_mhz_before"] = clock_before;
      state.counters["sm_clock_mhz_after"] = clock_after;
    });
  }
  const int status = bench::run_benchmarks(
      argc, argv,
      c.smoke ? "a smoke run, which says nothing of speed"
              : "20000 requests of less than 200 us, else 10 s and 2000 requests");
  if (failed > 0) std::fprintf(stderr, "%d rows could not be measured.\n", failed);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const choices c = parse(argc, argv);
    if (c.plan) {
      print_plan(c);
      return 0;
    }
    return measure(c, argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench-scheduler: %s\n", e.what());
    return 2;
  }
}
