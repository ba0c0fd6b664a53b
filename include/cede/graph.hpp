// SPDX-License-Identifier: Apache-2.0
// A sequence of launches, copies and fills that is written once and launched often.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/detail/engine_graph.hpp>
#include <cede/detail/graph_node.hpp>
#include <cede/detail/refusals.hpp>
#include <cede/detail/registration.hpp>
#include <cede/shape.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#if CEDE_NVCC
#include <cede/cuda_device.hpp>
#endif

CEDE_BEGIN_NAMESPACE

/// A recorded sequence of nodes, each behind the one before it, for `stream::launch(graph)`. Bodies
/// and their arguments are copied when recorded; memory they point to must be there whenever the
/// graph is launched, and host memory of copies must be pinned and stay until they are done.
///
/// On a latency-critical stream of a CUDA device every run of nodes between foreign ones is one of
/// CUDA's graphs, made when the graph is first launched there (which may take a millisecond and
/// wait for the device: launch it once before serving), and one call each time. Elsewhere the nodes
/// go one by one: a best-effort graph gives way between its nodes and inside its bodies as launches
/// do. Foreign nodes are not preemptible.
///
/// Movable. Recording is not thread-safe; launching is, while nobody records. Nothing here waits.
class graph {
 public:
  graph() = default;

  /// A launch of a body, as `stream::launch`. Options count on gated streams only. What does not
  /// fit the device is refused where the graph is launched, before any node of it is queued.
  template <class Body, class... Args, detail::compiler By = detail::this_compiler>
  graph& launch(const shape& geometry, const launch_options& options, Body body, Args&&... args) {
    auto bound = detail::bind_body(std::move(body), std::forward<Args>(args)...);
    using B = decltype(bound);
    detail::check_body<B>();
    const detail::kernel_entry& k =
        detail::entry_for<B, By, !detail::trait_whole<B>()>(bound, geometry);
    return add(detail::graph_launch{&k, detail::body_bytes(&bound, k.bytes), geometry, options});
  }
  /// The same with default options.
  template <class Body, class... Args, detail::compiler By = detail::this_compiler>
    requires(!std::same_as<Body, launch_options>)
  graph& launch(const shape& geometry, Body body, Args&&... args) {
    return launch<Body, Args...>(geometry, launch_options{}, std::move(body),
                                 std::forward<Args>(args)...);
  }
  /// One of CUDA's graphs, a foreign node. It must stay until no launch of this graph executes it.
  /// Throws `contract_error` for null.
  graph& launch(cudaGraphExec_t foreign) {
    if (foreign == nullptr) detail::refuse_null_graph("graph");
    return add(detail::graph_foreign{foreign});
  }
  /// Calls `f(cudaStream_t)` at every launch of the graph, as `stream::run` does on a
  /// latency-critical stream and `stream::defer` on a gated one. A foreign node.
  template <class F>
    requires std::copy_constructible<F>
  graph& run(F f) {
    return add(detail::graph_call{std::function<void(cudaStream_t)>(std::move(f))});
  }
  /// As `stream::copy`. Throws `invalid_argument` for a null pointer with bytes to copy.
  graph& copy(void* to, const void* from, std::size_t bytes) {
    detail::check_pointer("graph", {}, "copy", to, bytes);
    detail::check_pointer("graph", {}, "copy", from, bytes);
    return bytes == 0 ? *this : add(detail::graph_copy{to, from, 0, bytes});
  }
  /// As `stream::fill`. Throws `invalid_argument` for a null pointer with bytes to fill.
  graph& fill(void* to, unsigned char byte, std::size_t bytes) {
    detail::check_pointer("graph", {}, "fill", to, bytes);
    return bytes == 0 ? *this : add(detail::graph_copy{to, nullptr, byte, bytes});
  }

  /// Nodes recorded so far.
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  /// Whether nothing is recorded.
  [[nodiscard]] bool empty() const { return nodes_.empty(); }

 private:
  friend class stream;
  template <class Node>
  graph& add(Node n) {
    made_ = std::make_unique<detail::made_graphs>();  // what was made is of fewer nodes
    nodes_.emplace_back(std::move(n));
    return *this;
  }

  std::vector<detail::graph_node> nodes_;
  std::unique_ptr<detail::made_graphs> made_;
};

CEDE_END_NAMESPACE
