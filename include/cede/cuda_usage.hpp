// SPDX-License-Identifier: Apache-2.0
// What the compiler made of a body: registers, local and shared memory of the kernel around it.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/cuda_device.hpp>
#include <cede/detail/cuda_call.hpp>
#include <cede/detail/registration.hpp>
#include <cede/error.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <string>

CEDE_BEGIN_NAMESPACE

/// What one form of a body needs.
struct code_usage {
  unsigned registers = 0;         ///< per thread
  std::size_t local_bytes = 0;    ///< per thread: spilled registers and local arrays
  std::size_t static_shared = 0;  ///< bytes per block, without the dynamic ones
  unsigned max_threads = 0;       ///< most threads of a block it can be launched with
};

/// Asks the driver about the code that a launch of this body with this shape would run; `how` is
/// `whole`, `sliced`, `gated` or `persistent`. Arguments do not matter: `cede::bind` a kernel with
/// any. Throws `not_supported` if there is no CUDA device, if the body forbids the form, or if no
/// nvcc compiled it. Thread-safe; the first call of a body loads its code, which may wait for the
/// device.
template <class Body, detail::compiler By = detail::this_compiler>
[[nodiscard]] code_usage usage_of(const Body& body, const shape& s, form how) {
  detail::check_body<Body>();
  static_cast<void>(detail::current_cuda_device());
  const detail::kernel_entry& k =
      detail::entry_for<Body, By, !detail::trait_whole<Body>()>(body, s);
  const std::string name(k.name);
  if (k.cuda == nullptr) {
    throw not_supported("usage_of " + name +
                        ": a host compiler compiled this call, so there is no device code; move "
                        "it into a .cu file compiled by nvcc");
  }
  if (how == form::automatic) {
    throw invalid_argument("usage_of " + name +
                           ": form::automatic is no code of its own; ask for whole, sliced, "
                           "gated or persistent");
  }
  const void* const symbol = how == form::persistent ? k.cuda->persistent
                             : how == form::gated    ? k.cuda->gated
                                                     : k.cuda->native;
  if (symbol == nullptr) {
    throw not_supported("usage_of " + name + ": the body's traits forbid this form");
  }
  void* function = nullptr;
  detail::check_cuda(static_cast<cudaError_t>(k.cuda->resolve(symbol, &function)),
                     "cudaGetFuncBySymbol");
  const auto ask = [&](CUfunction_attribute what) {
    int value = 0;
    detail::check_driver(
        detail::driver().get_attribute(&value, what, static_cast<CUfunction>(function)),
        "cuFuncGetAttribute");
    return static_cast<unsigned>(value);
  };
  return {.registers = ask(CU_FUNC_ATTRIBUTE_NUM_REGS),
          .local_bytes = ask(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
          .static_shared = ask(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
          .max_threads = ask(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)};
}

CEDE_END_NAMESPACE
