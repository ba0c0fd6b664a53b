// SPDX-License-Identifier: Apache-2.0
// The scheduler of one device: makes workloads, tells what happened.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/cuda_hook.hpp>
#include <cede/detail/engine_last.hpp>
#include <cede/detail/engine_setup.hpp>
#include <cede/detail/host_machine.hpp>
#include <cede/detail/registry.hpp>
#include <cede/device.hpp>
#include <cede/host_device.hpp>
#include <cede/workload.hpp>

#include <memory>
#include <string>
#include <utility>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What scheduler handles share; the last one ends the engine.
struct scheduler_core {
  explicit scheduler_core(std::shared_ptr<engine> e) : inside(std::move(e)) {}
  scheduler_core(const scheduler_core&) = delete;
  scheduler_core& operator=(const scheduler_core&) = delete;
  ~scheduler_core() { end_scheduler(inside); }
  std::shared_ptr<engine> inside;
};

inline std::shared_ptr<scheduler_core> cuda_scheduler(int ordinal, scheduler_options o) {
  auto& registry = cede_process::the_registry;
  if (!shares_registry()) {
    auto text = [](int version, int layout) {
      return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
             " (layout " + std::to_string(layout) + ")";
    };
    throw not_supported("scheduler: another library in this process uses cede " +
                        text(registry.version, registry.layout) +
                        ", which cannot share a scheduler with this one, " +
                        text(CEDE_VERSION, registry_layout) + "; build both against one version");
  }
  const int device = ordinal >= 0 ? ordinal : current_cuda_device_or_throw();
  const std::scoped_lock lock(registry.mutex);
  auto& known = registry.schedulers[device];
  if (auto shared = std::static_pointer_cast<scheduler_core>(known.lock())) return shared;
  auto made = std::make_shared<scheduler_core>(
      std::make_shared<engine>(make_cuda_device(device), std::move(o)));
  known = made;
  return made;
}

}  // namespace detail

/// Shares one device among workloads. The first scheduler made for a CUDA device decides its
/// options; later ones for the same device, from any library of the process, are the same
/// scheduler.
///
/// A handle: cheap to copy, all copies are the same scheduler. When the last one goes, open
/// requests are closed with a message, queued work is finished (that of suspended workloads is
/// cancelled with a message) and the threads end; so its destructor waits for queued work. Inside a
/// callable of a `run` of its own that is done when the outermost one returns; on the thread that
/// runs deferred callables nobody waits for it.
/// Thread-safe.
class scheduler {
 public:
  /// The current CUDA device. Throws `not_supported` where there is none. Waits for the device.
  explicit scheduler(scheduler_options o = {}) : scheduler(cuda_device{}, std::move(o)) {}
  /// A CUDA device by number.
  explicit scheduler(cuda_device d, scheduler_options o = {})
      : core_(detail::cuda_scheduler(d.ordinal, std::move(o))) {}
  /// A device made of CPU threads, of its own.
  explicit scheduler(const host_device& d, scheduler_options o = {})
      : scheduler(detail::make_host_device(d), std::move(o)) {}
  /// Any device; for tests and for devices of one's own.
  explicit scheduler(std::shared_ptr<detail::device> d, scheduler_options o = {})
      : core_(std::make_shared<detail::scheduler_core>(
            std::make_shared<detail::engine>(std::move(d), std::move(o)))) {}

  /// A new workload. Set-up: may wait for the device.
  [[nodiscard]] cede::workload workload(workload_options o) {
    return {core().inside, core().inside->add_workload(std::move(o))};
  }
  /// Counters and distributions since the start. Does not wait.
  [[nodiscard]] scheduler_stats stats() const { return core().inside->snapshot(); }
  /// In words: what happened, what is pending and why. Does not wait.
  [[nodiscard]] std::string explain() const { return core().inside->explain(); }
  /// Writes the timeline kept since the start as JSON for ui.perfetto.dev. Throws `contract_error`
  /// unless `scheduler_options::timeline` is set, `error` if the file cannot be written.
  void write_timeline(const std::string& path) const { core().inside->write_timeline(path); }
  /// Name of the device.
  [[nodiscard]] std::string device() const { return core().inside->machine().facts().name; }

 private:
  [[nodiscard]] detail::scheduler_core& core() const {
    if (!core_)
      throw contract_error(
          "a scheduler handle that was moved from was used; use the one it was moved to");
    return *core_;
  }
  std::shared_ptr<detail::scheduler_core> core_;
};

CEDE_END_NAMESPACE
