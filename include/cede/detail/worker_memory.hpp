// SPDX-License-Identifier: Apache-2.0
// The device memory that a persistent launch needs beside its control words.
#pragma once

#include <cede/config.hpp>
#include <cede/detail/plan.hpp>
#include <cede/device.hpp>
#include <cede/error.hpp>

#include <cstddef>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// `p.memory.bytes` bytes. Where the device has not as much it is told what they are for.
inline std::byte* make_worker_memory(device& d, const kernel_entry& k, const plan& p) {
  try {
    return static_cast<std::byte*>(d.memory(p.memory.bytes));
  } catch (const out_of_memory& e) {
    throw out_of_memory("launch of " + std::string(k.name) + ": no memory for the `state` of " +
                            std::to_string(p.workers) + " workers, " +
                            std::to_string(k.state_bytes) +
                            " bytes each; make the body's state smaller, or ask for fewer workers "
                            "with launch_options::workers_per_sm (" +
                            e.what() + ")",
                        e.code(), e.call());
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
