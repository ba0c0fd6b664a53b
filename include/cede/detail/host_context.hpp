// SPDX-License-Identifier: Apache-2.0
// A fiber: a stack of its own, and the switch to another fiber of the same thread.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

// `swapcontext` calls the kernel twice to save a signal mask that bodies never change: 270 ns a
// switch where a few moves between registers take 3. CEDE_HOST_UCONTEXT asks for it all the same;
// other architectures have nothing else.
#if !defined(__x86_64__) && !defined(CEDE_HOST_UCONTEXT)
#define CEDE_HOST_UCONTEXT
#endif
#if defined(CEDE_HOST_UCONTEXT)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define CEDE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CEDE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define CEDE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CEDE_TSAN 1
#endif
#endif
#if defined(CEDE_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CEDE_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Memory for a stack, with a page below it that faults when touched.
class fiber_stack {
 public:
  explicit fiber_stack(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    guard_ = page;
    bytes_ = (bytes + page - 1) / page * page;
    // Sanitizers make frames several times larger; pages never touched cost nothing.
#if defined(CEDE_ASAN) || defined(CEDE_TSAN)
    bytes_ *= 4;
#endif
    memory_ = ::mmap(nullptr, guard_ + bytes_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) refuse(errno);
    if (::mprotect(memory_, guard_, PROT_NONE) != 0) {
      const int why = errno;
      ::munmap(memory_, guard_ + bytes_);
      refuse(why);
    }
  }
  fiber_stack(const fiber_stack&) = delete;
  fiber_stack& operator=(const fiber_stack&) = delete;
  ~fiber_stack() {
#if defined(CEDE_ASAN)
    // Frames that were never left keep their red zones, which outlive the mapping.
    __asan_unpoison_memory_region(memory_, guard_ + bytes_);
#endif
    ::munmap(memory_, guard_ + bytes_);
  }

  [[nodiscard]] void* bottom() const { return static_cast<char*>(memory_) + guard_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void refuse(int why) const {
    throw out_of_memory("no stack of " + std::to_string(bytes_) +
                            " bytes for a thread of a tile: " + std::strerror(why) +
                            "; use fewer threads per block or SMs, or raise vm.max_map_count",
                        why, "mmap");
  }

  void* memory_ = nullptr;
  std::size_t guard_ = 0;
  std::size_t bytes_ = 0;
};

#if !defined(CEDE_HOST_UCONTEXT)
#if defined(__clang__)
#define CEDE_PLAIN_CALL __attribute__((noinline))
#else
#define CEDE_PLAIN_CALL __attribute__((noipa))
#endif
/// Leaves the running stack, whose pointer goes to `*save`, for the one at `load`. A stack switched
/// to for the first time starts a function with `argument`. The registers a call may clobber need
/// no saving: to the caller this is a call like any other, and the attribute keeps it one. (A
/// process that has turned hardware shadow stacks on needs CEDE_HOST_UCONTEXT.)
CEDE_PLAIN_CALL inline void swap_stacks(void** save, void* load, void* argument) {
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"  // the red zone of this frame
      "pushq %%rbp\n\t"
      "pushq %%rbx\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%[save])\n\t"
      "movq %[load], %%rsp\n\t"
      "popq %%rax\n\t"
      "jmpq *%%rax\n"
      "1:\n\t"
      "popq %%rbx\n\t"
      "popq %%rbp\n\t"
      "leaq 128(%%rsp), %%rsp\n\t"
      : [argument] "+D"(argument), [save] "+S"(save), [load] "+d"(load)
      :
      : "rax", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
        "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15", "memory", "cc");
}
#undef CEDE_PLAIN_CALL
#endif

/// A line of execution that runs only when another fiber of its thread switches to it.
///
/// Belongs to one thread from the first switch on. Both sanitizers are told of every switch.
class fiber {
 public:
  using function = void (*)(void* argument);

  /// The calling thread itself, on its own stack.
  fiber() {
#if defined(CEDE_TSAN)
    tsan_ = __tsan_get_current_fiber();
#endif
  }
  /// A stack on which `start(argument)` runs at the first switch; `start` must never return.
  fiber(fiber_stack& stack, function start, void* argument)
      : start_(start), argument_(argument), bottom_(stack.bottom()), bytes_(stack.bytes()) {
#if defined(CEDE_HOST_UCONTEXT)
    ::getcontext(&context_);
    context_.uc_stack.ss_sp = stack.bottom();
    context_.uc_stack.ss_size = stack.bytes();
    context_.uc_link = nullptr;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    // Arguments of a context are ints: the pointer goes in two halves.
    ::makecontext(&context_, reinterpret_cast<void (*)()>(&fiber::enter_halves), 2,
                  static_cast<unsigned>(self >> 32U), static_cast<unsigned>(self));
#else
    // What `swap_stacks` pops: where to go. Above it a zero return address, at which debuggers and
    // sanitizers end a backtrace; it lies where a call would have put it.
    auto* top = reinterpret_cast<void**>(static_cast<char*>(stack.bottom()) + stack.bytes()) - 2;
    top[-1] = nullptr;
    top[-2] = reinterpret_cast<void*>(&fiber::enter);
    stack_pointer_ = &top[-2];
#endif
#if defined(CEDE_TSAN)
    tsan_ = __tsan_create_fiber(0);
#endif
  }
  fiber(const fiber&) = delete;
  fiber& operator=(const fiber&) = delete;
  ~fiber() {
#if defined(CEDE_TSAN)
    if (start_ != nullptr) __tsan_destroy_fiber(tsan_);
#endif
  }

  /// Leaves this fiber, which must be the running one, for `to`; returns when something switches
  /// back. `for_good`: nothing will, so that what the sanitizers keep for this fiber can go.
  void switch_to(fiber& to, bool for_good = false) {
    to.came_from_ = this;
#if defined(CEDE_ASAN)
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, to.bottom_, to.bytes_);
#else
    (void)for_good;
#endif
#if defined(CEDE_TSAN)
    __tsan_switch_to_fiber(to.tsan_, 0);
#endif
#if defined(CEDE_HOST_UCONTEXT)
    ::swapcontext(&context_, &to.context_);
#else
    swap_stacks(&stack_pointer_, to.stack_pointer_, &to);
#endif
    arrived();
  }

 private:
  static void enter(void* self) {
    auto& me = *static_cast<fiber*>(self);
    me.arrived();
    me.start_(me.argument_);
    std::terminate();
  }
  static void enter_halves(unsigned high, unsigned low) {
    enter(reinterpret_cast<void*>((std::uintptr_t{high} << 32U) | low));
  }
  void arrived() {
#if defined(CEDE_ASAN)
    // Also how a thread's own stack becomes known: from the first switch away from it.
    __sanitizer_finish_switch_fiber(fake_stack_, &came_from_->bottom_, &came_from_->bytes_);
#endif
  }

  function start_ = nullptr;
  void* argument_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  fiber* came_from_ = nullptr;
#if defined(CEDE_HOST_UCONTEXT)
  ucontext_t context_{};
#else
  void* stack_pointer_ = nullptr;
#endif
#if defined(CEDE_ASAN)
  void* fake_stack_ = nullptr;
#endif
#if defined(CEDE_TSAN)
  void* tsan_ = nullptr;
#endif
};

}  // namespace detail

CEDE_END_NAMESPACE
