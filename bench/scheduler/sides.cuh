// SPDX-License-Identifier: Apache-2.0
// The two sides of a mode: how a request is put on the device and waited for, and how best-effort
// work is, so that both are told of an end in the same way, by a word that the device writes.
#pragma once

#include "measure/patience.hpp"
#include "scheduler/green.cuh"
#include "scheduler/path.cuh"
#include "scheduler/plan.hpp"

#include <cede/cede.hpp>

#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

namespace bench::scheduler {

/// A plain stream, or one of somebody else, whose progress the host reads from a word.
class raw_stream {
 public:
  explicit raw_stream(int priority) {
    BENCH_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
    owned_ = true;
    make_word();
  }
  explicit raw_stream(cudaStream_t existing) : stream_(existing) { make_word(); }
  raw_stream(const raw_stream&) = delete;
  raw_stream& operator=(const raw_stream&) = delete;
  ~raw_stream() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    if (owned_) static_cast<void>(cudaStreamDestroy(stream_));
    static_cast<void>(cudaFreeHost(word_));
  }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  std::uint64_t mark() {
    static const auto write = BENCH_DRIVER(cuStreamWriteValue64, 12000);
    check_driver(write(stream_, reinterpret_cast<CUdeviceptr>(word_), ++marks_, 0),
                 "cuStreamWriteValue64");
    return marks_;
  }
  [[nodiscard]] bool reached(std::uint64_t mark) const {
    return std::atomic_ref<std::uint64_t>(*word_).load(std::memory_order_acquire) >= mark;
  }

 private:
  void make_word() {
    BENCH_CUDA(cudaHostAlloc(&word_, 128, cudaHostAllocMapped));
    *word_ = 0;
    const std::uint64_t first = mark();  // the first one may need the device to itself
    await([&] { return reached(first); }, "the first word of a stream");
  }
  cudaStream_t stream_ = nullptr;
  bool owned_ = false;
  std::uint64_t* word_ = nullptr;
  std::uint64_t marks_ = 0;
};

/// Where requests go.
class critical_side {
 public:
  critical_side() = default;
  critical_side(const critical_side&) = delete;
  critical_side& operator=(const critical_side&) = delete;
  virtual ~critical_side() = default;
  /// Launches a request by `submit(path&)` and waits, spinning, until it is answered.
  template <class Submit>
  void answer(Submit&& submit, wall::time_point arrived) {
    begin(arrived);
    submit(on_);
    end();
  }

 protected:
  virtual void begin(wall::time_point arrived) = 0;
  virtual void end() = 0;
  path on_;
};

class raw_critical final : public critical_side {
 public:
  template <class Stream>
  explicit raw_critical(Stream how) : stream_(how) {
    on_.raw = stream_.get();
  }

 private:
  void begin(wall::time_point) override {}
  void end() override {
    const std::uint64_t last = stream_.mark();
    await([&] { return stream_.reached(last); }, "the answer to a request");
  }
  raw_stream stream_;
};

class cede_critical final : public critical_side {
 public:
  explicit cede_critical(cede::workload w) : work_(std::move(w)) { on_.through = work_.stream(); }

 private:
  void begin(wall::time_point arrived) override {
    request_.emplace(work_.request({.arrived = arrived}));
  }
  void end() override {
    request_->close();
    request_.reset();
    if (!on_.through.synchronize_for(patience)) give_up("the answer to a request");
  }
  cede::workload work_;
  std::optional<cede::request> request_;
};

/// Where best-effort work goes.
class effort_side {
 public:
  effort_side() = default;
  effort_side(const effort_side&) = delete;
  effort_side& operator=(const effort_side&) = delete;
  virtual ~effort_side() = default;
  [[nodiscard]] path& on() { return on_; }
  /// A point behind everything launched so far.
  virtual void mark() = 0;
  /// Waits for the oldest point not yet passed.
  virtual void pass() = 0;

 protected:
  path on_;
};

class raw_effort final : public effort_side {
 public:
  template <class Stream>
  explicit raw_effort(Stream how) : stream_(how) {
    on_.raw = stream_.get();
  }
  void mark() override { stream_.mark(); }
  void pass() override {
    ++passed_;
    const auto deadline = wall::now() + patience;
    while (!stream_.reached(passed_ + 1)) {  // the first mark was the stream's own
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (wall::now() > deadline) give_up("the end of best-effort work");
    }
  }

 private:
  raw_stream stream_;
  std::uint64_t passed_ = 0;
};

class cede_effort final : public effort_side {
 public:
  cede_effort(cede::workload w, bool whole) : work_(std::move(w)) {
    on_.through = work_.stream();
    on_.whole = whole;
  }
  void mark() override { pending_.push_back(on_.through.record()); }
  void pass() override {
    if (!pending_.front().synchronize_for(patience)) give_up("the end of best-effort work");
    pending_.pop_front();
  }

 private:
  cede::workload work_;
  std::deque<cede::event> pending_;
};

/// A mode in one of the settings in which it is tried: the SMs of the latency-critical side, or how
/// long best-effort work stays out.
struct setting {
  mode how = mode::cede;
  unsigned critical_sms = 0;
  std::chrono::microseconds hold_off{0};
};

/// Every peer in its best setting: these are tried, and the lowest P99 that is stable counts.
inline std::vector<setting> settings_of(mode how, unsigned sms) {
  using std::chrono::microseconds;
  if (how == mode::green) return {{how, sms / 2, {}}, {how, sms * 3 / 4, {}}};
  if (how == mode::gate_holdoff) return {{how, 0, microseconds(100)}, {how, 0, microseconds(1000)}};
  return {{how, 0, {}}};
}

/// Both sides of one mode while a cell is measured.
class sides {
 public:
  explicit sides(const setting& s) {
    int least = 0;
    int greatest = 0;
    BENCH_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    switch (s.how) {
      case mode::none:
      case mode::priorities:
        critical_ = std::make_unique<raw_critical>(greatest);
        effort_ = std::make_unique<raw_effort>(least);
        break;
      case mode::equal:
        critical_ = std::make_unique<raw_critical>(least);
        effort_ = std::make_unique<raw_effort>(least);
        break;
      case mode::green:
        green_ = std::make_unique<green_pair>(s.critical_sms);
        critical_ = std::make_unique<raw_critical>(green_->stream(0));
        effort_ = std::make_unique<raw_effort>(green_->stream(1));
        break;
      default: {
        scheduler_.emplace();
        critical_ = std::make_unique<cede_critical>(
            scheduler_->workload({.name = "critical", .priority = cede::latency_critical}));
        effort_ = std::make_unique<cede_effort>(
            scheduler_->workload({.name = "effort",
                                  .priority = cede::best_effort,
                                  .turnaround = std::chrono::microseconds(30),
                                  .hold_off = s.hold_off}),
            s.how != mode::cede);
      }
    }
  }
  [[nodiscard]] critical_side& critical() { return *critical_; }
  [[nodiscard]] effort_side& effort() { return *effort_; }
  /// SMs of the latency-critical side where it has some of its own, else 0.
  [[nodiscard]] unsigned critical_sms() const { return green_ ? green_->sms(0) : 0; }
  /// Null without a scheduler.
  [[nodiscard]] const cede::scheduler* scheduler() const {
    return scheduler_ ? &*scheduler_ : nullptr;
  }

 private:
  // In this order: streams go before what they are of.
  std::optional<cede::scheduler> scheduler_;
  std::unique_ptr<green_pair> green_;
  std::unique_ptr<critical_side> critical_;
  std::unique_ptr<effort_side> effort_;
};

}  // namespace bench::scheduler
