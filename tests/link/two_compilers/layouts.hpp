// SPDX-License-Identifier: Apache-2.0
// Size, alignment and member offsets of the library's types as the including compiler sees them.
#pragma once

#include <cede/cede.hpp>

#include <cstddef>
#include <map>
#include <string>

// Conditionally supported, and supported.
#pragma GCC diagnostic ignored "-Winvalid-offsetof"
#if defined(__NVCC__)
#pragma nv_diag_suppress 1427
#endif

namespace {

using layout_map = std::map<std::string, std::size_t>;

template <class T>
void add(layout_map& all, const std::string& name) {
  all["sizeof " + name] = sizeof(T);
  all["alignof " + name] = alignof(T);
}

#define CEDE_TYPE(T) add<T>(all, #T)
#define CEDE_MEMBER(T, M) all["offset of " #T "::" #M] = offsetof(T, M)

layout_map layouts_here() {
  layout_map all;
  CEDE_TYPE(cede::scheduler);
  CEDE_TYPE(cede::workload);
  CEDE_TYPE(cede::stream);
  CEDE_TYPE(cede::event);
  CEDE_TYPE(cede::request);
  CEDE_TYPE(cede::timeline);
  CEDE_TYPE(cede::adapter_device);
  CEDE_TYPE(cede::error);
  CEDE_TYPE(cede::device_error);

  CEDE_TYPE(cede::extent);
  CEDE_TYPE(cede::shape);
  CEDE_MEMBER(cede::shape, block);
  CEDE_MEMBER(cede::shape, shared);
  CEDE_MEMBER(cede::shape, cluster);
  CEDE_TYPE(cede::launch_options);
  CEDE_MEMBER(cede::launch_options, chunk);
  CEDE_MEMBER(cede::launch_options, whole);
  CEDE_TYPE(cede::workload_options);
  CEDE_MEMBER(cede::workload_options, priority);
  CEDE_MEMBER(cede::workload_options, turnaround);
  CEDE_MEMBER(cede::workload_options, weight);
  CEDE_MEMBER(cede::workload_options, hold_off);
  CEDE_MEMBER(cede::workload_options, max_hold);
  CEDE_TYPE(cede::scheduler_options);
  CEDE_MEMBER(cede::scheduler_options, policy);
  CEDE_MEMBER(cede::scheduler_options, timeline);
  CEDE_MEMBER(cede::scheduler_options, max_queued);
  CEDE_MEMBER(cede::scheduler_options, stuck_after);
  CEDE_TYPE(cede::request_options);
  CEDE_TYPE(cede::workload_stats);
  CEDE_MEMBER(cede::workload_stats, turnaround);
  CEDE_MEMBER(cede::workload_stats, response);
  CEDE_TYPE(cede::scheduler_stats);
  CEDE_MEMBER(cede::scheduler_stats, workloads);

  // What inline functions of both compilers work on.
  CEDE_TYPE(cede::detail::engine);
  CEDE_TYPE(cede::detail::scheduler_core);
  CEDE_TYPE(cede::detail::workload_core);
  CEDE_MEMBER(cede::detail::workload_core, host_gate);
  CEDE_MEMBER(cede::detail::workload_core, request_stats);
  CEDE_TYPE(cede::detail::stream_core);
  CEDE_MEMBER(cede::detail::stream_core, lane);
  CEDE_MEMBER(cede::detail::stream_core, queue);
  CEDE_MEMBER(cede::detail::stream_core, activity);
  CEDE_TYPE(cede::detail::request_core);
  CEDE_TYPE(cede::detail::operation);
  CEDE_MEMBER(cede::detail::operation, work);
  CEDE_TYPE(cede::detail::launch_work);
  CEDE_TYPE(cede::detail::plan);
  CEDE_TYPE(cede::detail::kernel_entry);
  CEDE_MEMBER(cede::detail::kernel_entry, host_run);
  CEDE_MEMBER(cede::detail::kernel_entry, cuda);
  CEDE_MEMBER(cede::detail::kernel_entry, next);
  CEDE_TYPE(cede::detail::submission);
  CEDE_MEMBER(cede::detail::submission, terms);
  CEDE_MEMBER(cede::detail::submission, words);
  CEDE_TYPE(cede::detail::control);
  CEDE_MEMBER(cede::detail::control, state);
  CEDE_TYPE(cede::detail::device_facts);
  CEDE_TYPE(cede_process::registry);
  CEDE_MEMBER(cede_process::registry, schedulers);
  CEDE_MEMBER(cede_process::registry, cuda);

  // What host and device meet in.
  CEDE_TYPE(cede::detail::gate_words);
  CEDE_TYPE(cede::detail::slot_words);
  CEDE_MEMBER(cede::detail::slot_words, left);
  CEDE_MEMBER(cede::detail::slot_words, set_aside);
  CEDE_TYPE(cede::detail::record_words);
  CEDE_MEMBER(cede::detail::record_words, half_done);
  CEDE_TYPE(cede::detail::chain_words);
  CEDE_TYPE(cede::detail::publication_words);
  CEDE_MEMBER(cede::detail::publication_words, id);
  CEDE_TYPE(cede::detail::activity_words);
  CEDE_MEMBER(cede::detail::activity_words, completed);
  CEDE_TYPE(cede::protocol::terms);
  CEDE_MEMBER(cede::protocol::terms, batch);
  CEDE_MEMBER(cede::protocol::terms, records);
  return all;
}

#undef CEDE_TYPE
#undef CEDE_MEMBER

}  // namespace
