// SPDX-License-Identifier: Apache-2.0
// A set of streams with one priority, suspended and resumed as one; and its requests.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine_setup.hpp>
#include <cede/stream.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

/// What is known of a request. Both are optional.
struct request_options {
  /// When the request came in, by `std::chrono::steady_clock`; response time counts from here.
  /// Default, and for a time still to come: when it is opened.
  std::chrono::steady_clock::time_point arrived{};
};

/// Several launches of a latency-critical workload answered as one: from here until `close` (or the
/// end of the object) gated work stays out. Move-only. Closing does not wait for the launches.
/// A request may be closed on another thread than it was opened on.
class request {
 public:
  /// The other is empty afterwards.
  request(request&&) noexcept = default;
  /// Closes the one it was; the other is empty afterwards.
  request& operator=(request&& other) noexcept {
    if (this != &other) {
      end();
      engine_ = std::move(other.engine_);
      core_ = std::move(other.core_);
    }
    return *this;
  }
  ~request() { end(); }

  /// Ends the request: gated work returns once all its launches are done. Throws what the device
  /// failed with. Calling it again does nothing. Does not wait.
  void close() {
    if (core_) engine_->close_request(std::exchange(core_, nullptr));
  }

 private:
  friend class workload;
  request(std::shared_ptr<detail::engine> e, std::shared_ptr<detail::request_core> c)
      : engine_(std::move(e)), core_(std::move(c)) {}
  void end() noexcept {
    try {
      close();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the next call reports it
    }
  }
  std::shared_ptr<detail::engine> engine_;
  std::shared_ptr<detail::request_core> core_;
};

/// A set of streams with one priority. A handle: cheap to copy. Thread-safe. A call on a moved-from
/// handle throws `contract_error`.
class workload {
 public:
  /// A new stream of this workload. Set-up: may wait for the device the first times; lanes are
  /// reused.
  [[nodiscard]] cede::stream stream() {
    return cede::stream(engine("stream").add_stream(core_, nullptr));
  }

  /// A stream in front of one the program already has. Latency-critical: launches go to it
  /// directly. Gated: what is put on it directly and what goes through the returned stream keep
  /// their order. Adopted again it is the same stream. Throws `contract_error` for one that another
  /// workload has adopted, and whose handles or work are still there, for a raw stream of cede's
  /// own, for one that the device does not know and for the default streams, legacy and per thread.
  /// It must outlive the work and the handles. Set-up, like `stream()`.
  [[nodiscard]] cede::stream adopt(cudaStream_t existing) {
    detail::engine& e = engine("adopt");
    const std::string who = "workload '" + core_->options.name + "': adopt()";
    detail::refuse_default_stream(existing, who);
    detail::refuse_per_thread_stream(existing, who);
    return cede::stream(e.add_stream(core_, existing));
  }

  /// Opens a request; see class `request`. Throws `contract_error` unless the workload is
  /// latency-critical, `invalid_argument` if it arrived before the clock began. Does not wait.
  [[nodiscard]] cede::request request(request_options o = {}) {
    auto opened = engine("request").open_request(core_, o.arrived);
    return {engine_, std::move(opened)};
  }

  /// Keeps all streams of this gated workload off the device until `resume`; running launches give
  /// way. Throws `contract_error` on a latency-critical one. Does not wait.
  void suspend() { must_be_gated("suspend").suspend(core_); }
  /// Ends a suspension. Does not wait.
  void resume() { must_be_gated("resume").resume(core_); }
  /// Waits until everything queued on its streams so far is done. Throws what the device failed
  /// with.
  void synchronize() { engine("synchronize").synchronize(core_); }
  /// `workload_options::name`. Does not wait.
  [[nodiscard]] const std::string& name() const {
    static_cast<void>(engine("name"));
    return core_->options.name;
  }

 private:
  friend class scheduler;
  workload(std::shared_ptr<detail::engine> e, detail::workload_core* c)
      : engine_(std::move(e)), core_(c) {}
  [[nodiscard]] detail::engine& engine(const char* call) const {
    if (!engine_) {
      throw contract_error(
          std::string(call) +
          "() on a workload handle that was moved from; use the one it was moved to");
    }
    return *engine_;
  }
  [[nodiscard]] detail::engine& must_be_gated(const char* call) const {
    detail::engine& e = engine(call);
    if (core_->inline_path) {
      throw contract_error(
          "workload '" + core_->options.name + "': " + call +
          "() of a latency-critical workload, which is never held back; stop launching instead");
    }
    return e;
  }
  std::shared_ptr<detail::engine> engine_;
  detail::workload_core* core_;
};

CEDE_END_NAMESPACE
