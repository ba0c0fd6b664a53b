// SPDX-License-Identifier: Apache-2.0
// Drives code that is written over an `Atomics` policy, such as the protocol, through its
// interleavings: all of a small case, or many random ones of a larger case.
//
//   memory.hpp    what a load may see: the last store, or any that weaker orders allow
//   machine.hpp   threads, one operation at a time; a state is a value
//   explore.hpp   all states, or random runs
//   launches.hpp  the protocol's own case: lanes, workers, watchers, dispatchers, requests
#pragma once

#include "support/interleave/explore.hpp"
#include "support/interleave/machine.hpp"
#include "support/interleave/memory.hpp"
