// SPDX-License-Identifier: Apache-2.0
// What the adapters need of a device when there is no scheduler: the device itself and, for
// preemptible launches, a set of control words, reused from one adapter to the next.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/cuda_hook.hpp>
#include <cede/detail/host_machine.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/host_device.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Control words of one preemptible adapter. The counters go on from owner to owner, so that
/// nothing on the device has to be reset.
struct adapter_words {
  gate_words* host_gate = nullptr;
  gate_words* device_gate = nullptr;
  chain_words* chain = nullptr;
  slot_words* slot = nullptr;
  publication_words* published = nullptr;
  record_words* records = nullptr;  ///< made when first needed
  std::byte* memory = nullptr;      ///< likewise
  std::size_t memory_bytes = 0;
  std::uint64_t* scratch = nullptr;  ///< shared
  cudaStream_t lane = nullptr;
  std::uint64_t ordinal = 0;
  std::uint64_t id = 0;
};

}  // namespace detail

/// A device on which adapters run without a scheduler. Cheap to copy. Thread-safe.
class adapter_device {
 public:
  /// The current CUDA device. Throws `not_supported` where there is none. The first one of a device
  /// waits for it.
  adapter_device() : adapter_device(of_cuda(-1)) {}
  adapter_device(cuda_device d)
      : adapter_device(of_cuda(d.ordinal)) {}  // NOLINT(google-explicit-constructor)
  /// A device of CPU threads of its own; keep the object to put several adapters on one.
  adapter_device(const host_device& d)  // NOLINT(google-explicit-constructor)
      : inside_(std::make_shared<inside>(detail::make_host_device(d))) {}

  /// Throws `contract_error` if this object was moved from, or the adapter it belongs to.
  [[nodiscard]] detail::device& machine() const {
    if (!inside_) {
      throw contract_error(
          "an adapter_device, or an adapter on one, that was moved from was used; use the object "
          "it was moved to");
    }
    return *inside_->machine;
  }

  /// Set-up only: may wait for the device the first times.
  [[nodiscard]] detail::adapter_words take_words() const {
    detail::device& d = machine();
    {
      const std::scoped_lock lock(inside_->mutex);
      if (!inside_->spare.empty()) {
        const detail::adapter_words w = inside_->spare.back();
        inside_->spare.pop_back();
        return w;
      }
    }
    detail::adapter_words w;
    w.host_gate = static_cast<detail::gate_words*>(d.words(sizeof(detail::gate_words), true));
    w.device_gate = static_cast<detail::gate_words*>(d.words(sizeof(detail::gate_words), false));
    w.chain = static_cast<detail::chain_words*>(d.words(sizeof(detail::chain_words), false));
    w.slot = static_cast<detail::slot_words*>(d.words(sizeof(detail::slot_words), false));
    w.published =
        static_cast<detail::publication_words*>(d.words(sizeof(detail::publication_words), true));
    w.scratch = static_cast<std::uint64_t*>(d.words(sizeof(std::uint64_t), true));
    w.lane = d.make_stream(detail::stream_class::lane);
    const std::scoped_lock lock(inside_->mutex);
    inside_->lanes.push_back(w.lane);
    return w;
  }
  void return_words(const detail::adapter_words& w) const noexcept {
    try {
      const std::scoped_lock lock(inside_->mutex);
      inside_->spare.push_back(w);
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): one set less to reuse
    }
  }

 private:
  struct inside {
    explicit inside(std::shared_ptr<detail::device> d) : machine(std::move(d)) {}
    inside(const inside&) = delete;
    inside& operator=(const inside&) = delete;
    ~inside() {
      for (cudaStream_t s : lanes) machine->destroy_stream(s);
    }
    std::shared_ptr<detail::device> machine;
    std::mutex mutex;
    std::vector<detail::adapter_words> spare;
    std::vector<cudaStream_t> lanes;
  };

  explicit adapter_device(std::shared_ptr<inside> i) : inside_(std::move(i)) {}

  static std::shared_ptr<inside> of_cuda(int ordinal) {
    const int current = detail::current_cuda_device_or_throw();
    const int device = ordinal < 0 ? current : ordinal;
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<inside>> known;
    const std::scoped_lock lock(mutex);
    if (auto shared = known[device].lock()) return shared;
    auto made = std::make_shared<inside>(detail::make_cuda_device(device));
    known[device] = made;
    return made;
  }

  std::shared_ptr<inside> inside_;
};

CEDE_END_NAMESPACE
