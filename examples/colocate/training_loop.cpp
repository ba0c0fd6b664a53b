// SPDX-License-Identifier: Apache-2.0
#include "training_loop.hpp"

#include <algorithm>
#include <deque>

namespace colocate {
namespace {

// Enough that the device never runs dry, few enough that little is outstanding at the end.
constexpr std::size_t launched_ahead = 4;
constexpr std::chrono::milliseconds look_up{100};

}  // namespace

training_record train(queue& q, training& model, steady::time_point start, double window,
                      std::uint32_t fewest, std::atomic<std::uint64_t>& done) {
  training_record out;
  std::deque<std::uint64_t> ahead;
  const std::chrono::duration<double> limit(window);
  for (;;) {
    const bool goes_on = steady::now() - start < limit || out.steps < fewest;
    if (goes_on && ahead.size() < launched_ahead && out.steps < model.most_steps()) {
      model.step(q);
      ++out.steps;
      ahead.push_back(q.mark());
      continue;
    }
    if (ahead.empty()) return out;
    while (!q.wait_for(ahead.front(), look_up)) {
    }
    ahead.pop_front();
    done.fetch_add(1, std::memory_order_relaxed);
    const std::chrono::duration<double> passed = steady::now() - start;
    if (passed <= limit) {
      ++out.in_window;
      out.seconds = passed.count();
    }
  }
}

void train_steps(queue& q, training& model, std::uint32_t steps) {
  std::atomic<std::uint64_t> unseen{0};
  train(q, model, steady::now(), 0.0, steps, unseen);
}

}  // namespace colocate
