// SPDX-License-Identifier: Apache-2.0
// Runs the threads of one tile after another on the calling thread, with a barrier among them.
#pragma once

#include <cede/block.hpp>
#include <cede/config.hpp>
#include <cede/detail/host_context.hpp>
#include <cede/detail/host_shared.hpp>
#include <cede/error.hpp>
#include <cede/shape.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What a tile is told about giving way, by whoever runs it.
class tile_yield {
 public:
  /// Asked once for all threads of the tile; true: it will be left half done.
  virtual bool asked() = 0;
  [[nodiscard]] virtual bool re_entered() const = 0;
  /// Where it keeps its state; throws unless it keeps one of `bytes` bytes.
  [[nodiscard]] virtual void* kept(std::size_t bytes) const = 0;

 protected:
  ~tile_yield() = default;
};

/// Runs tiles, one at a time. Used by the thread that made it, and by no other.
///
/// Threads run one after another on the caller's stack until one waits at a barrier. It keeps the
/// stack it is on, and a pooled fiber goes on with the next thread. So a tile without a barrier
/// costs no switch at all, and one with barriers a switch per waiting thread.
class tile_runner final : public host_tile {
 public:
  using body_function = void (*)(const void* body, block b);

  tile_runner(std::size_t stack_bytes, std::size_t shared_bytes)
      : stack_bytes_(stack_bytes), arena_(shared_bytes) {}
  tile_runner(const tile_runner&) = delete;
  tile_runner& operator=(const tile_runner&) = delete;
  ~tile_runner() {
    // Each fiber leaves its stack by itself: the address sanitizer keeps a second stack for it.
    closing_ = true;
    for (lane* l : idle_) {
      running_ = l;
      own_.context.switch_to(l->context);
    }
  }

  /// Runs `body` for all threads of one tile. Returns the exception the tile ended with, if any:
  /// the threads that wait at a barrier are then unwound, and those not started never start.
  /// `given_up`, where another tile of the launch has failed, makes `sync` leave the body as well.
  std::exception_ptr run(body_function function, const void* body, index3 index, index3 grid,
                         index3 dim, std::size_t dynamic_bytes, tile_yield* yield = nullptr,
                         const std::atomic<bool>* given_up = nullptr, bool barrier_free = false) {
    function_ = function;
    body_ = body;
    index_ = index;
    grid_ = grid;
    dim_ = dim;
    yield_ = yield;
    answered_ = 0;
    barriers_ = 0;
    given_up_ = given_up;
    barrier_free_ = barrier_free;
    threads_ = dim.x * dim.y * dim.z;
    started_ = 0;
    ended_ = 0;
    position_ = {};
    failed_ = false;
    error_ = nullptr;
    running_ = &own_;
    try {
      arena_.begin(dynamic_bytes);
    } catch (...) {
      return std::current_exception();
    }
    drive();
    // The threads left are all on their way out of a barrier; the last one to end switches here.
    if (ended_ < threads_) leave(own_);
    std::exception_ptr error;
    std::swap(error, error_);
    return error;
  }

  void sync() override {
    must_share("sync()");
    if (must_leave()) throw abandoned{};
    if (waiting_.size + 1 == threads_ - ended_) {
      release();
      return;
    }
    lane& self = *running_;
    if (started_ < threads_) {
      lane& starter = unused_lane();
      waiting_.push(self);
      go(self, starter);
    } else {
      waiting_.push(self);
      leave(self);
    }
    if (must_leave()) throw abandoned{};
  }
  void* shared(const void* key, std::size_t bytes, std::size_t align) override {
    must_share("shared()");
    return arena_.named(key, bytes, align);
  }
  void* dynamic_shared() override {
    must_share("dynamic_shared()");
    return arena_.dynamic();
  }
  bool should_yield() override {
    sync();
    // The first thread past the barrier asks for all of them.
    if (answered_ != barriers_) {
      answered_ = barriers_;
      answer_ = yield_ != nullptr && yield_->asked();
    }
    return answer_;
  }
  [[nodiscard]] bool resumed() const override { return yield_ != nullptr && yield_->re_entered(); }
  [[nodiscard]] void* state(std::size_t bytes) const override {
    if (yield_ == nullptr) throw contract_error("state() outside a launch");
    return yield_->kept(bytes);
  }

  /// Stacks made so far, for tests: only threads that wait need one.
  [[nodiscard]] std::size_t stacks() const { return lanes_.size(); }

 private:
  // Thrown by `sync` to unwind a thread whose tile has failed.
  struct abandoned {};

  struct lane {
    lane() = default;
    lane(tile_runner& owner, std::size_t stack_bytes)
        : stack(std::make_unique<fiber_stack>(stack_bytes)),
          context(*stack, &tile_runner::serve, &owner) {}
    std::unique_ptr<fiber_stack> stack;
    fiber context;
    lane* next = nullptr;
  };
  struct lane_queue {
    lane* first = nullptr;
    lane* last = nullptr;
    std::uint32_t size = 0;
    void push(lane& l) {
      l.next = nullptr;
      (first == nullptr ? first : last->next) = &l;
      last = &l;
      ++size;
    }
    lane& pop() {
      lane& l = *first;
      first = l.next;
      --size;
      return l;
    }
  };

  // A pooled fiber's life: it starts threads until none is left, then rests.
  static void serve(void* owner) {
    auto& runner = *static_cast<tile_runner*>(owner);
    lane& self = *runner.running_;
    while (!runner.closing_) {
      runner.drive();
      runner.idle_.push_back(&self);
      runner.leave(self);
    }
    self.context.switch_to(runner.own_.context, true);
  }

  void must_share(const char* call) const {
    if (!barrier_free_) return;
    throw contract_error(std::string(call) +
                         " in a body declared 'barrier_free', whose threads neither meet nor share "
                         "memory; remove that declaration");
  }

  // Starts the threads not yet started, one after another.
  void drive() {
    while (started_ < threads_) {
      const index3 thread = position_;
      ++started_;
      if (++position_.x == dim_.x) {
        position_.x = 0;
        if (++position_.y == dim_.y) {
          position_.y = 0;
          ++position_.z;
        }
      }
      try {
        function_(body_, block(index_, grid_, dim_, thread, *this));
      } catch (const abandoned&) {
        fail();
      } catch (...) {
        if (!failed_) error_ = std::current_exception();
        fail();
      }
      ++ended_;
      // Threads that returned count as arrived.
      if (waiting_.size != 0 && waiting_.size == threads_ - ended_) release();
    }
  }

  [[nodiscard]] bool must_leave() const {
    return failed_ || (given_up_ != nullptr && given_up_->load(std::memory_order_relaxed));
  }
  void fail() {
    if (failed_) return;
    failed_ = true;
    ended_ += threads_ - started_;
    started_ = threads_;
  }
  void release() {
    ++barriers_;
    ready_ = waiting_;
    waiting_ = {};
  }
  lane& unused_lane() {
    if (idle_.empty()) {
      // Room for all of them first, so that a fiber that rests need not allocate.
      idle_.reserve(lanes_.size() + 1);
      lanes_.push_back(std::make_unique<lane>(*this, stack_bytes_));
      return *lanes_.back();
    }
    lane& l = *idle_.back();
    idle_.pop_back();
    return l;
  }
  void go(lane& from, lane& to) {
    running_ = &to;
    from.context.switch_to(to.context);
  }
  // Gives the turn to a thread past its barrier or, when the last one has ended, to the caller of
  // `run`. There is always one: a barrier opens before nobody else could run.
  void leave(lane& from) { go(from, ready_.size != 0 ? ready_.pop() : own_); }

  std::size_t stack_bytes_;
  shared_arena arena_;

  body_function function_ = nullptr;
  const void* body_ = nullptr;
  index3 index_{};
  index3 grid_{};
  index3 dim_{};
  index3 position_{};  // of the next thread to start
  tile_yield* yield_ = nullptr;
  std::uint64_t barriers_ = 0;  // opened so far
  std::uint64_t answered_ = 0;  // the barrier behind which `answer_` was given
  bool answer_ = false;
  const std::atomic<bool>* given_up_ = nullptr;
  std::uint32_t threads_ = 0;
  std::uint32_t started_ = 0;
  std::uint32_t ended_ = 0;
  bool failed_ = false;
  bool barrier_free_ = false;
  bool closing_ = false;
  std::exception_ptr error_;

  lane own_;  // the caller's stack
  lane* running_ = &own_;
  lane_queue waiting_;  // at the barrier
  lane_queue ready_;    // past it
  std::vector<std::unique_ptr<lane>> lanes_;
  std::vector<lane*> idle_;
};

}  // namespace detail

CEDE_END_NAMESPACE
