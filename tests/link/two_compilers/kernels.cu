// SPDX-License-Identifier: Apache-2.0
// The part nvcc compiles: bodies and their launches, on streams it did not make.
#include "kernels.hpp"

#include <utility>

#include "layouts.hpp"
#include "where.hpp"

namespace {

// Every thread passes its number on to its neighbour through shared memory.
struct count {
  int n;
  int* out;
  CEDE_BODY void operator()(cede::block b) const {
    int* passed = b.dynamic_shared<int>();
    const unsigned t = b.thread_rank();
    const int i = static_cast<int>(b.index().x * b.size() + t);
    if (i >= n) return;  // before the barrier
    passed[(t + 1) % b.size()] = i + 1;
    b.sync();
    const bool first = t == 0;
    out[i] = first ? i : passed[t];
  }
};

struct device_only {
  int* out;
  __device__ void operator()(cede::block) const { *out = 4; }
};

}  // namespace

namespace by_nvcc {

void launch_count(cede::stream& s, int tiles, int n, int* out, cede::form how) {
  constexpr int threads = 64;
  const cede::shape shape{.grid = tiles, .block = threads, .shared = threads * sizeof(int)};
  s.launch(shape, {.form = how}, count{n, out});
}

void launch_where(cede::stream& s, int* out) { s.launch({.grid = 1, .block = 32}, where{}, out); }

void launch_device_lambda(cede::stream& s, int* out) {
  s.launch({.grid = 1, .block = 32}, [=] __device__(cede::block) { *out = 3; });
}

void launch_device_only(cede::stream& s, int* out) {
  s.launch({.grid = 1, .block = 1}, device_only{out});
}

cede::event record(cede::stream& s) { return s.record(); }
void wait(cede::stream& s, const cede::event& e) { s.wait(e); }
void close(cede::request r) { r.close(); }

bool where_has_device_code() {
  using bound = decltype(cede::detail::bind_body(where{}, static_cast<int*>(nullptr)));
  return cede::detail::entry_of<bound, cede::detail::this_compiler, true>().cuda != nullptr;
}

std::map<std::string, std::size_t> layouts() { return layouts_here(); }

}  // namespace by_nvcc
