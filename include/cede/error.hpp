// SPDX-License-Identifier: Apache-2.0
// The exceptions of the library: one hierarchy, each message a sentence that names the cause, the
// object and the remedy.
#pragma once

#include <cede/config.hpp>

#include <source_location>
#include <stdexcept>
#include <string>
#include <utility>

CEDE_BEGIN_NAMESPACE

/// Base of everything the library throws. `where()` is the caller's or the failing call's place.
class error : public std::runtime_error {
 public:
  /// `sentence` names cause, object and remedy; `where` is the caller's place.
  explicit error(const std::string& sentence,
                 std::source_location where = std::source_location::current())
      : std::runtime_error(sentence), where_(where) {}
  /// The caller's or the failing call's place. Thread-safe; never waits.
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  std::source_location where_;
};

/// A value out of range: an extent, a shared-memory size, a weight, a load.
class invalid_argument : public error {
 public:
  /// `sentence` names cause, object and remedy; `where` is the caller's place.
  explicit invalid_argument(const std::string& sentence,
                            std::source_location where = std::source_location::current())
      : error(sentence, where) {}
};

/// A call the contract forbids: launching while running, waiting on oneself, a moved-from handle.
class contract_error : public error {
 public:
  /// `sentence` names cause, object and remedy; `where` is the caller's place.
  explicit contract_error(const std::string& sentence,
                          std::source_location where = std::source_location::current())
      : error(sentence, where) {}
};

/// Something this device, driver or build cannot do; the sentence says what would be needed.
class not_supported : public error {
 public:
  /// `sentence` names cause, object and remedy; `where` is the caller's place.
  explicit not_supported(const std::string& sentence,
                         std::source_location where = std::source_location::current())
      : error(sentence, where) {}
};

/// Work that was cancelled because its scheduler shut down.
class cancelled : public error {
 public:
  /// `sentence` names cause, object and remedy; `where` is the caller's place.
  explicit cancelled(const std::string& sentence,
                     std::source_location where = std::source_location::current())
      : error(sentence, where) {}
};

/// A device operation failed. Every waiter of the scheduler is told with the same code.
class device_error : public error {
 public:
  /// `sentence` names cause, object and remedy, `code` is the device's status, `call` the text of
  /// the call; `where` is its place.
  device_error(const std::string& sentence, int code, std::string call,
               std::source_location where = std::source_location::current())
      : error(sentence, where), code_(code), call_(std::move(call)) {}
  /// The device's own status (a `cudaError_t` or `CUresult` on the CUDA device).
  [[nodiscard]] int code() const noexcept { return code_; }
  /// The text of the call that failed.
  [[nodiscard]] const std::string& call() const noexcept { return call_; }

 private:
  int code_;
  std::string call_;
};

/// The device has not enough memory for what was asked.
class out_of_memory : public device_error {
 public:
  /// `sentence` names cause, object and remedy, `code` is the device's status, `call` the text of
  /// the call; `where` is its place.
  out_of_memory(const std::string& sentence, int code, std::string call,
                std::source_location where = std::source_location::current())
      : device_error(sentence, code, std::move(call), where) {}
};

CEDE_END_NAMESPACE
