// SPDX-License-Identifier: Apache-2.0
// Kernels compiled at run time: a text of `__global__` functions as it is, compiled by NVRTC behind
// the same redirections as a port region (<cede/port/begin.hpp>), becomes bodies that are launched
// like any other. No nvcc is needed, neither then nor when the program is built. Optional: link
// NVRTC (-lnvrtc) and the CUDA runtime. docs/porting.md tells more.
#pragma once

#include <cede/config.hpp>

#if !__has_include(<nvrtc.h>)
#error \
    "cede/rtc.hpp needs NVRTC's header: add the include directory of the CUDA Toolkit, which holds nvrtc.h"
#endif

#include <cede/block.hpp>
#include <cede/body.hpp>
#include <cede/cuda_device.hpp>
#include <cede/detail/cuda_call.hpp>
#include <cede/detail/registration.hpp>
#include <cede/detail/rtc_arguments.hpp>
#include <cede/detail/rtc_compile.hpp>
#include <cede/detail/rtc_load.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/port/kernel.hpp>
#include <cede/rtc_source.hpp>
#include <cede/shape.hpp>

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// A kernel of a text with `Room` bytes of arguments: what is copied to the device.
template <std::size_t Room>
struct rtc_arguments {
  const rtc_code* code;
  alignas(16) std::array<std::byte, Room> bytes;

  template <compiler By, bool Preemptible>
  [[nodiscard]] const kernel_entry& entry(const shape& s) const {
    return code->entry(s);
  }
  /// Never defined: the kernels around the text have its code.
  void operator()(block b) const;
};

}  // namespace detail

/// A kernel of a text, compiled. A handle, cheap to copy; what it stands for stays loaded until the
/// process ends, so compile once and keep it. Launched like any body, with its arguments:
///
///     t.launch(shape, scale, y, n, 2.0f);
///     cede::preemptible job{shape, cede::bind(scale, y, n, 2.0f)};
///
/// Arguments are converted on the host to the parameters' types: numbers to numbers as in C++,
/// pointers as they are (what they point to is not looked at), objects if their size is right.
/// Their number or type being wrong, the launch throws `invalid_argument`. Thread-safe.
class rtc_kernel {
 public:
  /// As it was named. Never waits.
  [[nodiscard]] const std::string& name() const { return code_->name(); }
  /// What NVRTC made of the text it comes from. Never waits.
  [[nodiscard]] const std::string& ptx() const { return code_->ptx(); }
  /// Loads its code onto the current device now instead of with the first launch. Loading may wait
  /// for all work of the device: do it before other work is held back. Throws `device_error`.
  void load() const {
    detail::check_cuda(cudaFree(nullptr), "cudaFree(nullptr)");  // makes the primary context
    for (const detail::rtc_symbol& s : code_->symbols()) {
      void* function = nullptr;
      detail::resolve_rtc(&s, &function);
    }
  }

  /// For launches: the kernel with its arguments, converted to what it takes. Throws
  /// `invalid_argument` if number or types do not fit.
  template <class... Args>
  [[nodiscard]] auto bind_arguments(const Args&... args) const {
    code_->check_count(sizeof...(Args));
    constexpr std::size_t room =
        (std::size_t{0} + ... + detail::argument_room(sizeof(std::decay_t<const Args&>)));
    using result = detail::rtc_arguments<room>;
    static_assert(offsetof(result, bytes) == detail::argument_room(sizeof(void*)));
    result bound{code_, {}};
    std::size_t i = 0;
    [[maybe_unused]] std::byte* to = bound.bytes.data();
    ((detail::store_argument(to, code_->parameters()[i], args, i + 1, name()),
      to += detail::argument_room(code_->parameters()[i].size), ++i),
     ...);
    return bound;
  }
  /// For launches: the kernel compiled for this shape. Throws `invalid_argument` if it takes
  /// arguments.
  template <detail::compiler By, bool Preemptible>
  [[nodiscard]] const detail::kernel_entry& entry(const shape& s) const {
    code_->check_count(0);
    return code_->entry(s);
  }
  /// Never defined: the kernels around the text have its code.
  void operator()(block b) const;

 private:
  explicit rtc_kernel(const detail::rtc_code& code) : code_(&code) {}
  friend std::vector<rtc_kernel> compile_all(const rtc_source&, const std::vector<rtc_name>&);

  const detail::rtc_code* code_;
};

/// Compiles kernels of a text with NVRTC, for `source.architecture` or the current device, and
/// makes sure that nothing in them sees the physical block, as `cede::port::check` does. In the
/// order of `names`. Throws `rtc_error` with the compiler's words if the text does not compile, has
/// no such kernel, or does what cannot be redirected; `invalid_argument` for options that cannot be
/// given and headers that are not found; `not_supported` if there is no CUDA device to ask.
/// Thread-safe; takes a second or more on this thread, the device is not waited for.
inline std::vector<rtc_kernel> compile_all(const rtc_source& source,
                                           const std::vector<rtc_name>& names) {
  std::string architecture = source.architecture;
  if (architecture.empty()) {
    const int device = detail::current_cuda_device();
    int major = 0;
    int minor = 0;
    detail::check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                       "cudaDeviceGetAttribute");
    detail::check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
                       "cudaDeviceGetAttribute");
    architecture = detail::architecture_for(major, minor);
  }
  const auto module = std::make_shared<detail::rtc_module>(
      source.name, architecture, detail::compile_text(source, names, architecture));
  std::vector<rtc_kernel> all;
  all.reserve(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    all.push_back(rtc_kernel(detail::keep(
        std::make_unique<const detail::rtc_code>(module, names[i], module->text().kernels[i]))));
  }
  return all;
}
/// The same for one kernel.
inline rtc_kernel compile(const rtc_source& source, const rtc_name& kernel) {
  return compile_all(source, std::vector{kernel}).front();
}

CEDE_END_NAMESPACE
