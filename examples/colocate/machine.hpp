// SPDX-License-Identifier: Apache-2.0
// The machine and the sources a record was made with.
#pragma once

#include <string>
#include <vector>

#include "memory.hpp"
#include "results.hpp"

namespace colocate {

/// What the device is called.
std::string device_name(place where);

/// The clock of the SMs in MHz, measured by a short kernel; 0 on the host. Waits for the device.
double sm_clock_mhz(place where);

/// gpu, driver, cuda, date, commit, tree: the last two from CEDE_COMMIT and CEDE_TREE if these are
/// set, else from git if the program lies in a working copy, else empty.
std::vector<context_entry> machine_context(place where);

}  // namespace colocate
