// SPDX-License-Identifier: Apache-2.0
// What <cede/rtc.hpp> compiles, and how it says that it cannot.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/port/kernel.hpp>

#include <source_location>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

/// A header that a text includes, by the name in its `#include`.
struct rtc_header {
  std::string name;  ///< between < and >
  std::string text;  ///< what it says
};

/// A text of `__global__` functions, to be compiled at run time.
struct rtc_source {
  std::string text{};               ///< functions and what they need, without a `main`
  std::string name = "kernels.cu";  ///< for messages
  /// Headers that the text includes, given as text.
  std::vector<rtc_header> headers{};
  /// Folders to look for headers in. Without those of cede and of CUDA among them, cede's are
  /// looked for where this program was compiled, and CUDA's in `CUDA_HOME`, in `CUDA_PATH`, beside
  /// the NVRTC library and in /usr/local/cuda.
  std::vector<std::string> include{};
  /// Passed to NVRTC as they are, such as "--use_fast_math" or "-DWIDTH=4".
  std::vector<std::string> options{};
  /// Such as "sm_90a"; empty: that of the current CUDA device.
  std::string architecture{};
};

/// Names a kernel of a text.
struct rtc_name {
  /// As the text would name it, with its namespaces and template arguments: "scale<float>".
  std::string name;
  /// Of one of several functions of that name: "void(float*, int)".
  std::string signature{};
  /// What its author knows about it.
  kernel_traits traits{};
};

/// A text that does not compile, or that holds what cannot be redirected. The message begins with
/// the kernel's name and ends with the remedy.
class rtc_error : public error {
 public:
  /// `sentence` names kernel, cause and remedy; `log` is what the compiler or the check said.
  rtc_error(const std::string& sentence, std::string log,
            std::source_location where = std::source_location::current())
      : error(sentence, where), log_(std::move(log)) {}
  /// All that the compiler said, or all that leaks, a line each.
  [[nodiscard]] const std::string& log() const noexcept { return log_; }

 private:
  std::string log_;
};

CEDE_END_NAMESPACE
