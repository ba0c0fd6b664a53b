// SPDX-License-Identifier: Apache-2.0
// What streams, graphs and devices refuse in the same words.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <cstddef>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// `owner` and `name` say who was called: "stream ", "training/0". Builds no string unless it
/// throws.
inline void check_pointer(const char* owner, const std::string& name, const char* call,
                          const void* p, std::size_t bytes) {
  if (p == nullptr && bytes != 0) {
    throw invalid_argument(owner + name + ": " + call + "() of " + std::to_string(bytes) +
                           " bytes with a null pointer");
  }
}

[[noreturn]] inline void refuse_null_graph(const std::string& who) {
  throw contract_error(who + ": launch() of a null cudaGraphExec_t; instantiate it first");
}

[[noreturn]] inline void refuse_foreign_graph(const std::string& who) {
  throw not_supported(who +
                      ": launch() of a cudaGraphExec_t on a device that has none of CUDA's "
                      "graphs; record a cede::graph instead");
}

}  // namespace detail

CEDE_END_NAMESPACE
