// SPDX-License-Identifier: Apache-2.0
// What a recorded graph is made of.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/operation.hpp>
#include <cede/detail/plan.hpp>
#include <cede/device.hpp>
#include <cede/shape.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <variant>

CEDE_BEGIN_NAMESPACE

namespace detail {

struct graph_launch {
  const kernel_entry* kernel = nullptr;
  body_bytes body;
  shape geometry{};
  launch_options options{};
};
/// A copy, or where `from` is null a fill.
struct graph_copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned char byte = 0;
  std::size_t bytes = 0;
};
/// Foreign nodes: the library does not see what they do.
struct graph_foreign {
  cudaGraphExec_t exec = nullptr;
};
struct graph_call {
  std::function<void(cudaStream_t)> call;
};

using graph_node = std::variant<graph_launch, graph_copy, graph_foreign, graph_call>;

/// Whether the node is one the library can make part of a graph of its own.
inline bool is_own(const graph_node& n) {
  return std::holds_alternative<graph_launch>(n) || std::holds_alternative<graph_copy>(n);
}

}  // namespace detail

CEDE_END_NAMESPACE
