// SPDX-License-Identifier: Apache-2.0
// What makes the host device fail: injected faults, and the failure that stays.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/host_device.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// `cudaErrorLaunchFailure`: the code of a device whose body threw.
inline constexpr int host_launch_failure = 719;

/// Asks the user's fault and delay functions, one operation at a time. Thread-safe.
class host_injector {
 public:
  struct verdict {
    std::uint64_t nth = 0;
    int code = 0;
    std::chrono::nanoseconds delay{0};
  };

  host_injector(std::function<int(std::string_view, std::uint64_t)> fault,
                std::function<std::chrono::nanoseconds(std::string_view, std::uint64_t)> delay)
      : fault_(std::move(fault)), delay_(std::move(delay)) {}

  /// False: no question would ever have an answer, so none need be asked.
  [[nodiscard]] bool any() const { return fault_ || delay_; }

  verdict ask(std::string_view operation) {
    if (!any()) return {};
    const std::lock_guard lock(mutex_);
    verdict v;
    v.nth = ++asked_[operation];
    if (fault_) v.code = fault_(operation, v.nth);
    if (v.code == 0 && delay_) v.delay = delay_(operation, v.nth);
    return v;
  }
  /// For a call that alone fails: throws what `fault` says.
  void refuse(std::string_view operation, bool memory = false) {
    if (!fault_) return;
    std::uint64_t nth = 0;
    int code = 0;
    {
      const std::lock_guard lock(mutex_);
      nth = ++asked_[operation];
      code = fault_(operation, nth);
    }
    if (code == 0) return;
    const std::string call(operation);
    const std::string sentence = "host device: call " + std::to_string(nth) + " of " + call +
                                 " was refused with code " + std::to_string(code) +
                                 " by the fault function of host_device";
    if (memory) throw out_of_memory(sentence, code, call);
    throw device_error(sentence, code, call);
  }

 private:
  std::function<int(std::string_view, std::uint64_t)> fault_;
  std::function<std::chrono::nanoseconds(std::string_view, std::uint64_t)> delay_;
  std::mutex mutex_;
  // Keys are the literals the device asks with.
  std::map<std::string_view, std::uint64_t> asked_;
};

/// The first failure of a device, kept for good. Thread-safe.
class host_health {
 public:
  [[nodiscard]] bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Keeps the first failure only.
  void fail(int code, std::string call, std::string cause) {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    code_ = code;
    call_ = std::move(call);
    sentence_ = "host device: " + std::move(cause) +
                "; the device has failed for good: destroy its scheduler and make another";
    failed_.store(true, std::memory_order_release);
  }
  void fail(std::string_view operation, const host_injector::verdict& v) {
    const std::string call(operation);
    fail(v.code, call,
         call + " number " + std::to_string(v.nth) + " ended with code " + std::to_string(v.code) +
             ", injected by the fault function of host_device");
  }
  void check() const {
    if (failed()) throw device_error(sentence_, code_, call_);  // never written again once failed
  }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  int code_ = 0;
  std::string call_;
  std::string sentence_;
};

}  // namespace detail

CEDE_END_NAMESPACE
