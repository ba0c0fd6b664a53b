// SPDX-License-Identifier: Apache-2.0
// Everything. Under nvcc this includes the CUDA device; under a host compiler it needs no toolkit.
#pragma once

#include <cede/block.hpp>
#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/error.hpp>
#include <cede/event.hpp>
#include <cede/graph.hpp>
#include <cede/host_device.hpp>
#include <cede/policy/lift.hpp>
#include <cede/policy/pieces.hpp>
#include <cede/policy/policy.hpp>
#include <cede/policy/strict_priority.hpp>
#include <cede/policy/ungated.hpp>
#include <cede/policy/waiting.hpp>
#include <cede/port/kernel.hpp>

#include <cede/preempt.hpp>
#include <cede/priority.hpp>
#include <cede/scheduler.hpp>
#include <cede/shape.hpp>

#include <cede/slice.hpp>
#include <cede/stats.hpp>
#include <cede/stream.hpp>
#include <cede/timeline.hpp>
#include <cede/workload.hpp>
