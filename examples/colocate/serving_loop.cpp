// SPDX-License-Identifier: Apache-2.0
#include "serving_loop.hpp"

#include <algorithm>
#include <thread>

namespace colocate {
namespace {

// A sleep may take this much longer than asked.
constexpr std::chrono::microseconds spun{300};

steady::duration seconds(double s) {
  return std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(s));
}

double to_seconds(steady::duration d) { return std::chrono::duration<double>(d).count(); }

void wait_until(steady::time_point when, waiting how) {
  if (how == waiting::sleep) {
    std::this_thread::sleep_until(when);
    return;
  }
  if (when - steady::now() > spun) std::this_thread::sleep_until(when - spun);
  while (steady::now() < when) {
  }
}

void answer(queue& q, service& s, std::size_t input, steady::time_point arrived) {
  q.begin_request(arrived);
  s.answer(q, input);
  q.end_request();
  q.wait();
}

}  // namespace

serving_record serve(queue& q, service& s, const serving_work& work, steady::time_point start,
                     waiting how, std::atomic<std::uint64_t>& answered) {
  serving_record out;
  out.requests.reserve(work.arrivals.size());
  const auto end = start + seconds(work.window);
  std::size_t started_alone = 0;
  for (std::size_t i = 0; i < work.arrivals.size(); ++i) {
    const auto due = start + seconds(work.arrivals[i].at);
    wait_until(due, how);
    const auto taken = steady::now();
    if (taken >= end) break;
    while (started_alone < work.starts_alone.size() &&
           start + seconds(work.starts_alone[started_alone]) <= taken) {
      ++started_alone;
    }
    if (started_alone > i + most_behind) {
      out.unstable = true;
      break;
    }
    answer(q, s, work.arrivals[i].input, due);
    const auto done = steady::now();
    const float error = s.error();
    out.worst_error = std::max(out.worst_error, error);
    if (!(error <= answer_tolerance)) ++out.wrong;
    out.requests.push_back(
        {work.arrivals[i].input, to_seconds(done - taken), to_seconds(done - due)});
    answered.fetch_add(1, std::memory_order_relaxed);
  }
  return out;
}

std::vector<double> time_alone(queue& q, service& s, std::size_t input, std::size_t warm,
                               std::size_t count) {
  std::vector<double> out;
  for (std::size_t i = 0; i < warm + count; ++i) {
    const auto taken = steady::now();
    answer(q, s, input, taken);
    if (i >= warm) out.push_back(to_seconds(steady::now() - taken));
  }
  return out;
}

}  // namespace colocate
