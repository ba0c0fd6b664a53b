// SPDX-License-Identifier: Apache-2.0
// Running a callable as one tile, for the tests of what a tile sees.
#pragma once

#include <cede/detail/host_fibers.hpp>

#include <atomic>
#include <cstddef>
#include <exception>
#include <string>

namespace cede_test {

using cede::block;
using cede::index3;
using cede::detail::tile_runner;

inline constexpr std::size_t stack_bytes = std::size_t{64} * 1024;
inline constexpr std::size_t shared_bytes = std::size_t{48} * 1024;

template <class F>
void call(const void* body, block b) {
  (*static_cast<const F*>(body))(b);
}

/// Runs a callable as the body of one tile.
template <class F>
std::exception_ptr run(tile_runner& runner, const F& body, index3 dim, std::size_t dynamic = 0,
                       const std::atomic<bool>* given_up = nullptr) {
  return runner.run(&call<F>, &body, {2, 3, 4}, {5, 6, 7}, dim, dynamic, nullptr, given_up);
}

template <class F>
void run_well(tile_runner& runner, const F& body, index3 dim, std::size_t dynamic = 0) {
  const std::exception_ptr error = run(runner, body, dim, dynamic);
  if (error) std::rethrow_exception(error);
}

inline std::string message(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace cede_test
