// SPDX-License-Identifier: Apache-2.0
// Recorded graphs: on a latency-critical stream as few calls as the device allows, on a gated one
// the operations they stand for.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/engine.hpp>
#include <cede/detail/engine_inline.hpp>
#include <cede/detail/engine_queue.hpp>
#include <cede/detail/graph_node.hpp>
#include <cede/detail/refusals.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// What one device made of the runs of a recorded graph between its foreign nodes, in their order;
/// null where the nodes go one by one. Gone only once no stream executes it.
class made_graph {
 public:
  made_graph(std::shared_ptr<engine> owner, std::vector<cudaGraphExec_t> runs)
      : owner_(std::move(owner)), runs_(std::move(runs)) {}
  made_graph(const made_graph&) = delete;
  made_graph& operator=(const made_graph&) = delete;
  ~made_graph() {
    if (std::ranges::any_of(runs_, [](auto g) { return g != nullptr; }))
      owner_->retire_graphs(std::move(runs_), std::move(until_));
  }

  [[nodiscard]] const engine* owner() const { return owner_.get(); }
  [[nodiscard]] cudaGraphExec_t run(std::size_t i) const { return runs_[i]; }
  /// Notes what must be done before the graphs may go. Words of streams outlive the streams.
  void keep_until(const activity_words& a, std::uint64_t number) {
    const std::scoped_lock lock(mutex_);
    const auto known = std::ranges::find(until_, &a, &inline_mark::activity);
    if (known == until_.end()) {
      until_.push_back({&a, number});
    } else {
      known->number = std::max(known->number, number);
    }
  }

 private:
  std::shared_ptr<engine> owner_;
  std::vector<cudaGraphExec_t> runs_;
  std::mutex mutex_;
  std::vector<inline_mark> until_;
};

/// Of one recorded graph, by scheduler.
class made_graphs {
 public:
  std::shared_ptr<made_graph> of(engine& e, std::span<const graph_node> nodes) {
    const std::scoped_lock lock(mutex_);
    for (const auto& m : all_)
      if (m->owner() == &e) return m;
    all_.push_back(std::make_shared<made_graph>(e.shared_from_this(), e.make_graphs(nodes)));
    return all_.back();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<made_graph>> all_;
};

/// Calls `own(nodes)` for every run of nodes that are the library's, `foreign(node)` for the
/// others.
template <class Own, class Foreign>
void cut_graph(std::span<const graph_node> nodes, Own&& own, Foreign&& foreign) {
  while (!nodes.empty()) {
    const auto end = std::ranges::find_if_not(nodes, is_own);
    const auto n = static_cast<std::size_t>(end - nodes.begin());
    if (n > 0) {
      own(nodes.first(n));
      nodes = nodes.subspan(n);
    } else {
      foreign(nodes.front());
      nodes = nodes.subspan(1);
    }
  }
}

inline submission whole_submission(const graph_launch& l) {
  submission what;
  what.kernel = l.kernel;
  what.body = l.body.data();
  what.geometry = l.geometry;
  what.how = form::whole;
  what.count = l.geometry.tiles();
  return what;
}

inline std::vector<cudaGraphExec_t> engine::make_graphs(std::span<const graph_node> nodes) {
  throw_if_failed();
  const device_scope current(*device_);
  sweep_graphs();
  std::vector<cudaGraphExec_t> made;
  try {
    cut_graph(
        nodes,
        [&](std::span<const graph_node> run) {
          made.push_back(nullptr);
          if (run.size() < 2) return;  // a launch is no dearer than a graph of it
          std::vector<submission> launches;
          launches.reserve(run.size());
          std::vector<graph_item> items;
          for (const graph_node& n : run) {
            if (const auto* l = std::get_if<graph_launch>(&n)) {
              launches.push_back(whole_submission(*l));
              items.push_back({.launch = &launches.back()});
            } else {
              const auto& c = std::get<graph_copy>(n);
              items.push_back({.to = c.to, .from = c.from, .byte = c.byte, .bytes = c.bytes});
            }
          }
          made.back() = device_->make_graph(items);
        },
        [](const graph_node&) {});
  } catch (...) {
    for (cudaGraphExec_t g : made)
      if (g != nullptr) device_->destroy_graph(g);
    throw;
  }
  return made;
}

/// Destroys them now or, where a stream may still execute them, at a later call.
inline void engine::retire_graphs(std::vector<cudaGraphExec_t> made,
                                  std::vector<inline_mark> until) noexcept {
  try {
    const device_scope current(*device_);
    {
      const std::scoped_lock lock(requests_mutex_);
      retired_graphs_.push_back({std::move(made), std::move(until)});
    }
    sweep_graphs();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): they go with the device
  }
}

/// Call with the device current.
inline void engine::sweep_graphs() {
  std::vector<cudaGraphExec_t> over;
  {
    const std::scoped_lock lock(requests_mutex_);
    std::erase_if(retired_graphs_, [&](retired_graph& r) {
      const bool done = std::ranges::all_of(r.until, [](const inline_mark& p) {
        return atomics::load<protocol::order::acquire, protocol::scope::system>(
                   p.activity->completed) >= p.number;
      });
      if (!done) return false;
      over.insert(over.end(), r.made.begin(), r.made.end());
      return true;
    });
  }
  for (cudaGraphExec_t g : over)
    if (g != nullptr) device_->destroy_graph(g);
}

inline void engine::check_foreign_graph(const stream_core& s) const {
  if (!device_->facts().cuda) refuse_foreign_graph("stream " + s.name);
}

inline void engine::inline_launch_graph(stream_core& s, cudaGraphExec_t g) {
  check_foreign_graph(s);
  inline_call(s, [&] { device_->launch_graph(s.lane, g); });
  s.work->launches.fetch_add(1, std::memory_order_relaxed);
}

inline void engine::inline_graph(stream_core& s, std::span<const graph_node> nodes,
                                 made_graphs& made) {
  bool calls = false;
  std::uint64_t launches = 0;
  std::uint64_t tiles = 0;
  for (const graph_node& n : nodes) {
    if (const auto* l = std::get_if<graph_launch>(&n)) {
      check_inline(s, *l->kernel, l->geometry);
      ++launches;
      tiles += l->geometry.tiles();
    } else if (std::holds_alternative<graph_foreign>(n)) {
      check_foreign_graph(s);
      ++launches;
    } else {
      calls = calls || std::holds_alternative<graph_call>(n);
    }
  }
  throw_if_gone(*s.work);
  const std::shared_ptr<made_graph> of_device = made.of(*this, nodes);
  std::size_t at = 0;
  const auto put_own = [&](std::span<const graph_node> run) {
    if (cudaGraphExec_t g = of_device->run(at++); g != nullptr) {
      device_->launch_graph(s.lane, g);
      return;
    }
    for (const graph_node& n : run) {
      if (const auto* l = std::get_if<graph_launch>(&n)) {
        device_->submit(s.lane, whole_submission(*l));
      } else if (const auto& c = std::get<graph_copy>(n); c.from != nullptr) {
        device_->copy(s.lane, c.to, c.from, c.bytes);
      } else {
        device_->fill(s.lane, c.to, c.byte, c.bytes);
      }
    }
  };
  if (!calls) {
    inline_call(s, [&] {
      cut_graph(nodes, put_own, [&](const graph_node& n) {
        device_->launch_graph(s.lane, std::get<graph_foreign>(n).exec);
      });
    });
  } else {
    // Callables are called without the stream's lock; the hold around all of it keeps the gate
    // closed from the first node to the last.
    inline_run(s, [&](cudaStream_t lane) {
      cut_graph(
          nodes, [&](std::span<const graph_node> run) { inline_call(s, [&] { put_own(run); }); },
          [&](const graph_node& n) {
            if (const auto* f = std::get_if<graph_foreign>(&n)) {
              inline_call(s, [&] { device_->launch_graph(lane, f->exec); });
            } else {
              std::get<graph_call>(n).call(lane);
            }
          });
    });
  }
  {
    // Inside a request the word of the end is yet to be left.
    const std::scoped_lock lock(s.inline_mutex);
    of_device->keep_until(*s.activity, s.last_write + (s.dirty ? 1 : 0));
  }
  s.work->launches.fetch_add(launches, std::memory_order_relaxed);
  s.work->tiles.fetch_add(tiles, std::memory_order_relaxed);
}

inline operation engine::launch_operation(stream_core& s, const kernel_entry& k, const void* body,
                                          const shape& geometry, plan p) {
  launch_work l;
  l.kernel = &k;
  l.geometry = geometry;
  l.plan = p;
  l.tiles = l.plan.tiles;
  l.body = body_bytes(body, k.bytes);
  l.memory = worker_memory_of(s, k, l.plan);
  operation op;
  op.work = std::move(l);
  return op;
}

/// A graph of the program's on a gated stream: opaque, and a launch that fails is a failure of the
/// device, since nobody is there to catch it.
inline operation engine::foreign_graph_operation(cudaGraphExec_t g) {
  return deferred_operation([this, g](cudaStream_t lane) {
    try {
      device_->launch_graph(lane, g);
    } catch (...) {
      fail(std::current_exception());
    }
  });
}

inline void engine::gated_launch_graph(stream_core& s, cudaGraphExec_t g) {
  check_foreign_graph(s);
  enqueue(s, foreign_graph_operation(g));
}

inline void engine::gated_graph(stream_core& s, std::span<const graph_node> nodes) {
  // All that can be refused is refused before the first node is queued.
  std::vector<plan> plans;
  plans.reserve(nodes.size());
  for (const graph_node& n : nodes) {
    const auto* l = std::get_if<graph_launch>(&n);
    if (std::holds_alternative<graph_foreign>(n)) check_foreign_graph(s);
    plans.push_back(l == nullptr ? plan{} : plan_for(*s.work, *l->kernel, l->geometry, l->options));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const graph_node& n = nodes[i];
    if (const auto* l = std::get_if<graph_launch>(&n)) {
      enqueue(s, launch_operation(s, *l->kernel, l->body.data(), l->geometry, plans[i]));
    } else if (const auto* f = std::get_if<graph_foreign>(&n)) {
      enqueue(s, foreign_graph_operation(f->exec));
    } else if (const auto* c = std::get_if<graph_copy>(&n)) {
      enqueue(s, copy_operation(c->to, c->from, c->byte, c->bytes));
    } else {
      enqueue(s, deferred_operation(std::get<graph_call>(n).call));
    }
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
