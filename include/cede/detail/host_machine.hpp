// SPDX-License-Identifier: Apache-2.0
// The host device: SMs, a copy engine and a poller, each a thread, around one set of streams.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/host_checks.hpp>
#include <cede/detail/host_faults.hpp>
#include <cede/detail/host_kernel.hpp>
#include <cede/detail/host_streams.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/host_device.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// A `device` of CPU threads; see `host_device` for what it imitates.
class host_machine final : public device {
 public:
  explicit host_machine(host_device options)
      : options_(checked_options(std::move(options))),
        injector_(options_.fault, options_.delay),
        streams_(injector_, health_) {
    facts_.name = "host device, " + std::to_string(options_.sms) + " SMs";
    facts_.sms = options_.sms;
    facts_.limits.shared = options_.shared_bytes;
    try {
      for (unsigned i = 0; i < options_.sms; ++i) {
        start("cede sm " + std::to_string(i), [this] { run_sm(); });
      }
      start("cede copies", [this] { run_copies(); });
      start("cede waits", [this] { run_waits(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~host_machine() override { stop(); }

  [[nodiscard]] const device_facts& facts() const override { return facts_; }
  int enter() override { return 0; }
  void restore(int) noexcept override {}

  cudaStream_t make_stream(stream_class c) override {
    health_.check();
    injector_.refuse("make_stream");
    const std::lock_guard lock(mutex_);
    return streams_.make_stream(c);
  }
  void destroy_stream(cudaStream_t s) noexcept override {
    const std::lock_guard lock(mutex_);
    streams_.destroy_stream(s);
  }

  void* words(std::size_t bytes, bool) override {
    health_.check();
    injector_.refuse("words", true);
    // Whole cache lines, so that words of two owners never share one.
    constexpr std::size_t line = 128;
    const std::size_t size = std::max<std::size_t>(1, (bytes + line - 1) / line) * line;
    owned_memory memory(std::aligned_alloc(line, size));
    if (memory == nullptr) {
      throw out_of_memory(
          "host device: no memory for " + std::to_string(bytes) + " bytes of control words", ENOMEM,
          "words");
    }
    std::memset(memory.get(), 0, size);
    const std::lock_guard lock(mutex_);
    return memory_.emplace_back(std::move(memory)).get();
  }
  void* memory(std::size_t bytes) override { return words(bytes, false); }
  void* device_address(void* shared_words) override { return shared_words; }

  void prepare(const kernel_entry& k) override {
    health_.check();
    injector_.refuse("prepare");
    // A body without host code is refused where it is used: a program may hold some beside.
    const std::lock_guard lock(mutex_);
    prepared_.insert(&k);
  }
  [[nodiscard]] bool prepared(const kernel_entry& k) const override {
    const std::lock_guard lock(mutex_);
    return prepared_.contains(&k);
  }

  unsigned blocks_per_sm(const kernel_entry& k, const shape& s, form, std::string* why) override {
    health_.check();
    try {
      check_host_code(k);
      validate(s, facts_.limits, std::string(k.name));
    } catch (const error& e) {
      if (why != nullptr) *why = e.what();
      return 0;
    }
    return 1;
  }

  void submit(cudaStream_t s, const submission& what) override {
    health_.check();
    check_submission(what, facts_.limits);
    injector_.refuse("submit");
    host_operation o{.what = host_op::kernel};
    o.kernel = std::make_shared<host_kernel>(what);
    push(s, std::move(o), "submit");
  }
  void copy(cudaStream_t s, void* to, const void* from, std::size_t bytes) override {
    host_operation o{.what = host_op::copy};
    o.to = to;
    o.from = from;
    o.bytes = bytes;
    push(s, std::move(o), "copy");
  }
  void fill(cudaStream_t s, void* to, unsigned char byte, std::size_t bytes) override {
    host_operation o{.what = host_op::fill};
    o.to = to;
    o.byte = byte;
    o.bytes = bytes;
    push(s, std::move(o), "fill");
  }
  void write_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) override {
    host_operation o{.what = host_op::write_value};
    o.word = shared_word;
    o.value = value;
    push(s, std::move(o), "write_value");
  }
  void wait_value(cudaStream_t s, std::uint64_t* shared_word, std::uint64_t value) override {
    host_operation o{.what = host_op::wait_value};
    o.word = shared_word;
    o.value = value;
    push(s, std::move(o), "wait_value");
  }
  void record_event(cudaStream_t s, cudaEvent_t e) override {
    host_operation o{.what = host_op::record_event};
    push(s, std::move(o), "record_event", e);
  }
  void wait_event(cudaStream_t s, cudaEvent_t e) override {
    host_operation o{.what = host_op::wait_event};
    push(s, std::move(o), "wait_event", e);
  }

  cudaEvent_t make_event() override {
    health_.check();
    injector_.refuse("make_event");
    const std::lock_guard lock(mutex_);
    return streams_.make_event();
  }
  void destroy_event(cudaEvent_t e) noexcept override {
    const std::lock_guard lock(mutex_);
    streams_.destroy_event(e);
  }
  bool event_done(cudaEvent_t e) override {
    const std::lock_guard lock(mutex_);
    look_at_words();
    health_.check();
    const host_event& event = *streams_.event(e, "event_done");
    return event.done(event.recorded);
  }

  bool query(cudaStream_t s) override {
    const std::lock_guard lock(mutex_);
    look_at_words();
    health_.check();
    return streams_.stream(s, "query")->queue.empty();
  }
  void synchronize(cudaStream_t s) override {
    std::unique_lock lock(mutex_);
    const std::shared_ptr<host_stream> stream = streams_.stream(s, "synchronize");
    const std::uint64_t target = stream->queued;
    ++waiters_;
    // After a failure the tiles that run still use the caller's memory.
    done_.wait(lock, [&] { return health_.failed() ? at_work_ == 0 : stream->done >= target; });
    --waiters_;
    health_.check();
  }
  void check() override { health_.check(); }

  void release(void* memory) override {
    owned_memory owned(memory);
    const std::lock_guard lock(mutex_);
    // Tiles that still run on a failed device may use it: it goes when they have ended.
    if (health_.failed() && owned != nullptr) memory_.push_back(std::move(owned));
  }

 private:
  using clock = std::chrono::steady_clock;

  struct free_memory {
    void operator()(void* p) const { std::free(p); }
  };
  using owned_memory = std::unique_ptr<void, free_memory>;

  // How often a word is looked at that only the host stores to: at first often, then less (a look
  // takes some 10 us of CPU time). What the device itself stores is looked at when it does, and
  // calls look as well.
  static constexpr std::chrono::microseconds shortest_look{20};
  static constexpr std::chrono::microseconds longest_look{1000};

  template <class F>
  void start(const std::string& name, F run) {
    threads_.emplace_back(std::move(run));
    ::pthread_setname_np(threads_.back().native_handle(), name.substr(0, 15).c_str());
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_.store(true);
      streams_.drop();
      offers_.fetch_add(1);
    }
    for (auto* cv : {&work_, &copies_, &waits_, &done_}) cv->notify_all();
    for (auto& t : threads_) t.join();
  }

  void push(cudaStream_t s, host_operation o, const char* call, cudaEvent_t e = nullptr) {
    std::unique_lock lock(mutex_);
    health_.check();
    const std::shared_ptr<host_stream>& stream = streams_.stream(s, call);
    if (o.what == host_op::record_event || o.what == host_op::wait_event) {
      o.event = streams_.event(e, call);
      // A wait is for the record queued last before it; never recorded, it waits for nothing.
      o.value = o.what == host_op::record_event ? ++o.event->recorded : o.event->recorded;
    }
    streams_.push(stream, std::move(o));
    if (streams_.waits_for_word()) streams_.carry_on_parked();
    announce();
  }

  // The host may have stored to a word that a stream waits for.
  void look_at_words() {
    if (!streams_.waits_for_word()) return;
    streams_.carry_on_parked();
    announce();
  }

  // Wakes whoever has something to do after the streams have changed. Called with the lock held.
  void announce() {
    if (health_.failed()) {
      streams_.drop();
      offers_.fetch_add(1, std::memory_order_release);
      done_.notify_all();
      return;
    }
    if (const std::uint64_t offered = streams_.kernels_offered(); offered != announced_kernels_) {
      const bool one = offered == announced_kernels_ + 1 && streams_.blocks_offered() == 1;
      announced_kernels_ = offered;
      offers_.fetch_add(1, std::memory_order_release);
      if (one) {
        work_.notify_one();
      } else {
        work_.notify_all();
      }
    }
    if (streams_.copy_ready()) copies_.notify_one();
    if (const std::uint64_t done = streams_.operations_done(); done != announced_done_) {
      announced_done_ = done;
      if (waiters_ != 0) done_.notify_all();
    }
    const bool word = streams_.waits_for_word();
    const auto time = streams_.next_time();
    if (word != watched_word_ || time != watched_time_) waits_.notify_one();
  }

  void run_sm() {
    host_worker worker(options_, injector_, health_, stopping_);
    std::unique_lock lock(mutex_);
    while (!stopping_.load()) {
      auto next = streams_.next_kernel();
      if (!next) {
        work_.wait(lock);
        continue;
      }
      host_kernel& k = *next->kernel;
      // Until another kernel is offered, the choice would be the same: no need for the lock.
      const std::uint64_t offers = offers_.load(std::memory_order_relaxed);
      ++at_work_;
      lock.unlock();
      std::uint64_t ran = 0;
      do {
        const std::uint64_t number = k.start();
        if (number >= k.what.count) break;
        worker.run_block(k, number);
        ++ran;
      } while (offers_.load(std::memory_order_acquire) == offers && !health_.failed());
      const bool last = ran != 0 && k.end(ran);
      if (last && !health_.failed()) host_worker::close(k);
      lock.lock();
      --at_work_;
      if (health_.failed() || stopping_.load()) {
        announce();
      } else if (last) {
        streams_.ended(next->stream);
        announce();
      }
    }
  }

  void run_copies() {
    std::unique_lock lock(mutex_);
    while (!stopping_.load()) {
      auto next = streams_.next_copy();
      if (!next) {
        copies_.wait(lock);
        continue;
      }
      ++at_work_;
      lock.unlock();
      next->operation.move_bytes();
      lock.lock();
      --at_work_;
      if (!health_.failed() && !stopping_.load()) streams_.ended(next->stream);
      announce();
    }
  }

  // Looks at words and at the clock, while a stream waits for them and only then.
  void run_waits() {
    std::unique_lock lock(mutex_);
    auto look = shortest_look;
    while (!stopping_.load()) {
      watched_word_ = streams_.waits_for_word();
      watched_time_ = streams_.next_time();
      if (watched_word_) {
        auto until = clock::now() + look;
        if (watched_time_ && *watched_time_ < until) until = *watched_time_;
        waits_.wait_until(lock, until);
      } else {
        look = shortest_look;
        if (watched_time_) {
          waits_.wait_until(lock, *watched_time_);
        } else {
          waits_.wait(lock);
        }
      }
      if (stopping_.load()) break;
      const std::uint64_t done = streams_.operations_done();
      streams_.carry_on_parked();
      look = done != streams_.operations_done() ? shortest_look : std::min(look * 2, longest_look);
      announce();
    }
  }

  host_device options_;
  device_facts facts_;
  host_injector injector_;
  host_health health_;

  mutable std::mutex mutex_;
  std::condition_variable work_;    // for SMs: a kernel is ready
  std::condition_variable copies_;  // for the copy engine
  std::condition_variable waits_;   // for the poller: a stream waits for something new
  std::condition_variable done_;    // for `synchronize`: operations have ended
  host_streams streams_;
  std::set<const kernel_entry*> prepared_;
  std::vector<owned_memory> memory_;
  unsigned at_work_ = 0;  // SMs and copy engine that are on something
  unsigned waiters_ = 0;
  std::uint64_t announced_kernels_ = 0;
  std::uint64_t announced_done_ = 0;
  bool watched_word_ = false;
  std::optional<clock::time_point> watched_time_;

  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> offers_{0};  // advances when the choice of an SM may have changed
  std::vector<std::thread> threads_;
};

/// Makes a host device. Thread-safe; waits until its threads have started.
inline std::shared_ptr<device> make_host_device(const host_device& options) {
  return std::make_shared<host_machine>(options);
}

}  // namespace detail

CEDE_END_NAMESPACE
