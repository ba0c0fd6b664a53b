// SPDX-License-Identifier: Apache-2.0
// What kernels.cu, compiled by nvcc, offers main.cpp, compiled by g++.
#pragma once

#include <cede/cede.hpp>

#include <cstddef>
#include <map>
#include <string>

namespace by_nvcc {

/// out[i] = i, except the last tile's last `surplus` threads, which return before a barrier.
void launch_count(cede::stream& s, int tiles, int n, int* out, cede::form how);
/// The same body type as main.cpp launches; writes 2 where it ran on a CUDA device, else 1.
void launch_where(cede::stream& s, int* out);
/// A lambda that exists on the device only.
void launch_device_lambda(cede::stream& s, int* out);
/// A body whose call operator is marked `__device__` alone.
void launch_device_only(cede::stream& s, int* out);

/// Makes an event here, waits for one made there.
cede::event record(cede::stream& s);
void wait(cede::stream& s, const cede::event& e);
/// Takes a request by value and closes it.
void close(cede::request r);

/// True if this compiler's entry of `where` has device code.
bool where_has_device_code();
std::map<std::string, std::size_t> layouts();

}  // namespace by_nvcc
