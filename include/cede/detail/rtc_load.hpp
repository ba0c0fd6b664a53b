// SPDX-License-Identifier: Apache-2.0
// Compiled text on the device: loaded when a launch is prepared, kept until the process ends, since
// schedulers keep pointers to the code of what they have launched.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/cuda_call.hpp>
#include <cede/detail/rtc_arguments.hpp>
#include <cede/detail/rtc_compile.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>
#include <cede/rtc_source.hpp>

#include <cuda.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The driver's functions for code that no compiler of the program has seen.
struct library_table {
  CUresult (*load)(CUlibrary*, const void*, CUjit_option*, void**, unsigned, CUlibraryOption*,
                   void**, unsigned) = nullptr;
  CUresult (*kernel)(CUkernel*, CUlibrary, const char*) = nullptr;
  CUresult (*function)(CUfunction*, CUkernel) = nullptr;
};
inline const library_table& library_calls() {
  static const library_table table = [] {
    library_table t;
    const auto fetch = [](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(driver_entry(name));
    };
    fetch(t.load, "cuLibraryLoadData");
    fetch(t.kernel, "cuLibraryGetKernel");
    fetch(t.function, "cuKernelGetFunction");
    return t;
  }();
  return table;
}

/// One compiled text.
class rtc_module {
 public:
  rtc_module(std::string name, std::string architecture, compiled_text text)
      : name_(std::move(name)), architecture_(std::move(architecture)), text_(std::move(text)) {}

  [[nodiscard]] const compiled_text& text() const { return text_; }

  /// A kernel of it in the current context, loaded. Throws `device_error`.
  CUfunction function(const std::string& symbol) {
    const std::scoped_lock lock(mutex_);
    if (library_ == nullptr) {
      check(library_calls().load(&library_, text_.image.data(), nullptr, nullptr, 0, nullptr,
                                 nullptr, 0),
            "cuLibraryLoadData");
    }
    CUkernel kernel = nullptr;
    check(library_calls().kernel(&kernel, library_, symbol.c_str()), "cuLibraryGetKernel");
    CUfunction f = nullptr;
    check(library_calls().function(&f, kernel), "cuKernelGetFunction");
    int registers = 0;  // asking loads it, where loading is lazy
    check(driver().get_attribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, f), "cuFuncGetAttribute");
    return f;
  }

 private:
  void check(CUresult status, const char* call) const {
    if (status == CUDA_SUCCESS) return;
    check_driver(status, "rtc: " + name_ + ", compiled for " + architecture_ + ": " + call);
  }

  std::string name_;
  std::string architecture_;
  compiled_text text_;
  std::mutex mutex_;
  CUlibrary library_ = nullptr;
};

/// One kernel of a module; its address stands for it.
struct rtc_symbol {
  rtc_module* module = nullptr;
  std::string name;
};
inline int resolve_rtc(const void* symbol, void** function) {
  const auto* s = static_cast<const rtc_symbol*>(symbol);
  *function = s->module->function(s->name);
  return 0;
}

/// All that launches of one kernel of a text need.
class rtc_code {
 public:
  rtc_code(std::shared_ptr<rtc_module> m, const rtc_name& n, const compiled_kernel& k)
      : module_(std::move(m)), name_(n.name), parameters_(k.parameters) {
    // Behind the pointer to this object, see rtc_arguments.
    std::size_t at = parameters_.empty() ? sizeof(void*) : argument_room(sizeof(void*));
    for (const parameter& p : parameters_) {
      offsets_.push_back(static_cast<std::uint32_t>(at));
      at += argument_room(p.size);
    }
    const auto symbol = [&](const std::string& s) -> const void* {
      return s.empty() ? nullptr : &symbols_.emplace_back(module_.get(), s);
    };
    const void* const closing = symbol(module_->text().closing);
    for (const compiled_bound& b : k.bounds) {
      cuda_kernels& c = kernels_.emplace_back();
      c.native = symbol(b.native);
      c.gated = symbol(b.gated);
      c.persistent = symbol(b.persistent);
      c.closing = b.gated.empty() ? nullptr : closing;
      c.resolve = &resolve_rtc;
      c.split = true;
      c.parameters = offsets_;
      kernel_entry& e = entries_.emplace_back();
      e.name = name_;
      e.traits = {.native = !n.traits.persistent_safe,
                  .whole = n.traits.whole,
                  .looks_back = n.traits.looks_back,
                  .independent = n.traits.independent,
                  .max_threads = b.threads,
                  .min_blocks = n.traits.min_blocks};
      e.bytes = at;
      e.align = 16;
      e.cuda = &c;
    }
  }
  rtc_code(const rtc_code&) = delete;
  rtc_code& operator=(const rtc_code&) = delete;
  ~rtc_code() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const std::string& ptx() const { return module_->text().ptx; }
  [[nodiscard]] const std::deque<rtc_symbol>& symbols() const { return symbols_; }

  /// Throws `invalid_argument` unless as many arguments were passed as the kernel takes.
  void check_count(std::size_t passed) const {
    if (passed == parameters_.size()) return;
    throw invalid_argument("launch of " + name_ + ": " + std::to_string(passed) +
                           " arguments were passed, the kernel takes " +
                           std::to_string(parameters_.size()) + " (" + text_of(parameters_) +
                           "); pass these (to an adapter: cede::bind)");
  }
  /// The code for blocks of this many threads; past the last bound the launch is refused in words
  /// by the shape's own check.
  [[nodiscard]] const kernel_entry& entry(const shape& s) const {
    if (s.block.x <= 1024 && s.block.y <= 1024 && s.block.z <= 1024) {
      for (const kernel_entry& e : entries_) {
        if (s.threads() <= e.traits.max_threads) return e;
      }
    }
    return entries_.back();
  }

 private:
  std::shared_ptr<rtc_module> module_;
  std::string name_;
  std::vector<parameter> parameters_;
  std::vector<std::uint32_t> offsets_;
  std::deque<rtc_symbol> symbols_;  // deques: their addresses are given away
  std::deque<cuda_kernels> kernels_;
  std::deque<kernel_entry> entries_;
};

/// Keeps code until the process ends: never destroyed, so that nothing is unloaded while CUDA goes.
inline const rtc_code& keep(std::unique_ptr<const rtc_code> code) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<const rtc_code>>();
  const std::scoped_lock lock(mutex);
  return *all.emplace_back(std::move(code));
}

}  // namespace detail

CEDE_END_NAMESPACE
