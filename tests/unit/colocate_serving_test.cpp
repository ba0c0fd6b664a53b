// SPDX-License-Identifier: Apache-2.0
// The service's thread: open loop, its clock, and when it gives up.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "../examples/colocate/serving_loop.cpp"

using namespace colocate;
using namespace std::chrono_literals;

namespace {

// A queue that takes a fixed time to answer.
class timed_queue final : public queue {
 public:
  explicit timed_queue(std::chrono::microseconds each) : queue(nullptr), each_(each) {}
  void begin_request(steady::time_point arrived) override { arrivals.push_back(arrived); }
  void end_request() override {}
  void wait() override { std::this_thread::sleep_for(each_); }
  std::uint64_t mark() override { return 0; }
  bool wait_for(std::uint64_t, std::chrono::nanoseconds) override { return true; }

  std::vector<steady::time_point> arrivals;

 private:
  std::chrono::microseconds each_;
};

// A service whose answers are wrong for one input.
class scripted_service final : public service {
 public:
  void make_references(queue&) override {}
  void answer(queue&, std::size_t input) override {
    asked.push_back(input);
    error_ = input == 1 ? 1.0F : 1e-6F;
  }
  [[nodiscard]] float error() const override { return error_; }
  [[nodiscard]] std::vector<float> last_answer() const override { return {}; }

  std::vector<std::size_t> asked;

 private:
  float error_ = 0.0F;
};

struct outcome {
  serving_record record;
  std::vector<std::size_t> asked;
  std::vector<steady::time_point> arrivals;
  std::uint64_t answered;
};

outcome serve_all(const std::vector<arrival>& arrivals, const std::vector<double>& starts,
                  double window, std::chrono::microseconds each, waiting how,
                  steady::time_point start = steady::now()) {
  timed_queue q(each);
  scripted_service s;
  std::atomic<std::uint64_t> answered{0};
  serving_record r = serve(q, s, {arrivals, starts, window}, start, how, answered);
  return {std::move(r), s.asked, q.arrivals, answered.load()};
}

std::vector<double> times(const std::vector<arrival>& arrivals) {
  std::vector<double> out;
  for (const arrival& a : arrivals) out.push_back(a.at);
  return out;
}

}  // namespace

TEST_CASE("colocate serving: requests are taken when they are due, in order") {
  const std::vector<arrival> arrivals{{0.0, 0}, {0.01, 2}, {0.02, 0}};
  for (const waiting how : {waiting::spin, waiting::sleep}) {
    const auto start = steady::now();
    const outcome o = serve_all(arrivals, times(arrivals), 1.0, 100us, how, start);
    REQUIRE(o.record.requests.size() == 3);
    CHECK(o.asked == std::vector<std::size_t>{0, 2, 0});
    CHECK(o.answered == 3);
    CHECK(steady::now() - start >= 20ms);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(o.record.requests[i].service >= 100e-6);
      CHECK(o.record.requests[i].response >= o.record.requests[i].service);
      CHECK(o.record.requests[i].input == arrivals[i].input);
      CHECK(std::chrono::duration<double>(o.arrivals[i] - start).count() ==
            doctest::Approx(arrivals[i].at).epsilon(1e-6));
    }
  }
}

TEST_CASE("colocate serving: response time counts from arrival, service time from being taken up") {
  const std::vector<arrival> arrivals{{0.0, 0}, {0.0, 0}, {0.0, 0}, {0.0, 0}};
  const outcome o = serve_all(arrivals, times(arrivals), 10.0, 5ms, waiting::sleep);
  REQUIRE(o.record.requests.size() == 4);
  for (const served& s : o.record.requests) CHECK(s.service < s.response + 1e-9);
  CHECK(o.record.requests[3].response >= 20e-3);
  CHECK(o.record.requests[3].response - o.record.requests[3].service >= 15e-3);
}

TEST_CASE("colocate serving: the window ends it") {
  std::vector<arrival> arrivals;
  for (int i = 0; i < 100; ++i) arrivals.push_back({0.0, 0});
  const outcome o = serve_all(arrivals, times(arrivals), 0.05, 5ms, waiting::sleep);
  CHECK(o.record.requests.size() <= 10);
  CHECK_FALSE(o.record.requests.empty());
  CHECK_FALSE(o.record.unstable);
}

TEST_CASE("colocate serving: more than 200 behind where it would be alone is unstable") {
  std::vector<arrival> arrivals;
  for (int i = 0; i < 400; ++i) arrivals.push_back({i * 1e-5, 0});
  // Alone, each would start as it comes; here each takes as long as all of them.
  const outcome slow = serve_all(arrivals, times(arrivals), 60.0, 4ms, waiting::sleep);
  CHECK(slow.record.unstable);
  CHECK(slow.record.requests.size() < 10);
}

TEST_CASE("colocate serving: a burst that is long alone, too, is not unstable") {
  std::vector<arrival> arrivals;
  std::vector<double> starts;
  for (int i = 0; i < 300; ++i) {
    arrivals.push_back({0.0, 0});
    starts.push_back(i * 1e-3);
  }
  const outcome o = serve_all(arrivals, starts, 60.0, 100us, waiting::sleep);
  CHECK_FALSE(o.record.unstable);
  CHECK(o.record.requests.size() == 300);
}

TEST_CASE("colocate serving: wrong answers are counted, the worst error kept") {
  const std::vector<arrival> arrivals{{0.0, 0}, {0.0, 1}, {0.0, 2}, {0.0, 1}};
  const outcome o = serve_all(arrivals, times(arrivals), 1.0, 10us, waiting::spin);
  CHECK(o.record.wrong == 2);
  CHECK(o.record.worst_error == 1.0F);
  CHECK(o.record.requests.size() == 4);
}

TEST_CASE("colocate serving: one input timed alone, without the first ones") {
  timed_queue q(2ms);
  scripted_service s;
  const auto t = time_alone(q, s, 5, 2, 3);
  CHECK(s.asked == std::vector<std::size_t>(5, 5));
  REQUIRE(t.size() == 3);
  for (const double x : t) CHECK(x >= 2e-3);
}
