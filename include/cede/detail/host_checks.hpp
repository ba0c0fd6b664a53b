// SPDX-License-Identifier: Apache-2.0
// What the host device refuses, in words: options out of range, submissions that break the
// contract.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/host_device.hpp>
#include <cede/shape.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include <sched.h>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// CPUs the calling thread may run on.
inline unsigned usable_cpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (::sched_getaffinity(0, sizeof cpus, &cpus) == 0) {
    if (const int n = CPU_COUNT(&cpus); n > 0) return static_cast<unsigned>(n);
  }
  return std::clamp(std::thread::hardware_concurrency(), 1U, 1024U);
}

/// The options of a device with their defaults filled in, or `invalid_argument`.
inline host_device checked_options(host_device o) {
  const auto within = [](std::size_t value, std::size_t low, std::size_t high, const char* what) {
    if (value >= low && value <= high) return;
    throw invalid_argument(std::string("host_device.") + what + " is " + std::to_string(value) +
                           "; it must lie in [" + std::to_string(low) + ", " +
                           std::to_string(high) + "]");
  };
  constexpr std::size_t gib = std::size_t{1} << 30U;
  if (o.sms == 0) o.sms = usable_cpus();
  within(o.sms, 1, 1024, "sms");
  within(o.shared_bytes, 0, gib, "shared_bytes");
  within(o.stack_bytes, std::size_t{16} * 1024, gib, "stack_bytes");
  return o;
}

/// Throws `not_supported` for a body that only a CUDA device can run.
inline void check_host_code(const kernel_entry& k) {
  if (k.host_run == nullptr) {
    throw not_supported("body " + std::string(k.name) +
                        " has no host code: mark its call operator CEDE_BODY to run it on the "
                        "host device");
  }
}
/// Throws what is wrong with a submission; a GPU would hang or fault.
inline void check_submission(const submission& s, const shape_limits& limits) {
  if (s.kernel == nullptr || (s.body == nullptr && s.kernel->bytes != 0)) {
    throw contract_error("host device: submit without a body");
  }
  check_host_code(*s.kernel);
  const std::string name(s.kernel->name);
  validate(s.geometry, limits, name);
  if (s.count == 0) throw contract_error("host device: submission of " + name + " has no block");
  const std::uint64_t tiles = s.geometry.tiles();
  if (s.how == form::whole || s.how == form::sliced) {
    if (s.first > tiles || s.count > tiles - s.first) {
      throw contract_error("host device: slice of " + name + " ends behind its grid");
    }
    return;
  }
  if (s.how != form::gated && s.how != form::persistent) {
    throw contract_error("host device: submission of " + name + " has no form");
  }
  const bool gated = s.how == form::gated;
  if (s.words.slot == nullptr || s.words.chain == nullptr || s.words.host_gate == nullptr ||
      s.words.published == nullptr) {
    throw contract_error("host device: submission of " + name + " lacks control words");
  }
  if (s.terms.tiles != tiles) {
    throw contract_error("host device: terms of " + name + " speak of another number of tiles");
  }
  if (s.terms.batch != 1 && (gated || s.terms.batch == 0)) {
    throw contract_error("host device: submission of " + name + " claims a wrong number of tiles");
  }
  if (!gated && s.terms.participants != s.count) {
    throw contract_error("host device: every participant of " + name +
                         " is a worker here, there is no watcher");
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
