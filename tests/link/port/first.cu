// SPDX-License-Identifier: Apache-2.0
// One of two translation units that use port regions; this one also looks whether words mean behind
// a region what they meant before it.
#include "units.hpp"

#include <cede/cede.hpp>

#define CEDE_TEST_NUMBER 1
#define CEDE_TEST_TEXT(...) #__VA_ARGS__
#define CEDE_TEST_SHOW(...) CEDE_TEST_TEXT(__VA_ARGS__)

// A program's own macro of a name that the region uses.
#define group_index 41

constexpr const char* global_before = CEDE_TEST_SHOW(__global__);
constexpr const char* bounds_before = CEDE_TEST_SHOW(__launch_bounds__(32));

__global__ void plain_before(int* p) { p[blockIdx.x] = gridDim.x; }

// clang-format off: the order is the point
#include <cede/port/begin.hpp>
#include "text.hpp"
__global__ void takes(float a, int b, short c) {
  if (a > static_cast<float>(b) + static_cast<float>(c) + static_cast<float>(blockIdx.x)) __trap();
}
constexpr const char* global_inside = CEDE_TEST_SHOW(__global__);
#include <cede/port/end.hpp>
// clang-format on

constexpr bool same(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) ++a, ++b;
  return *a == *b;
}
static_assert(same(CEDE_TEST_SHOW(__global__), global_before));
static_assert(same(CEDE_TEST_SHOW(__launch_bounds__(32)), bounds_before));
static_assert(!same(global_inside, global_before));
static_assert(group_index == 41);
#undef group_index
#if defined(blockIdx) || defined(gridDim) || defined(__syncthreads) || defined(this_grid) ||   \
    defined(__syncthreads_or) || defined(__syncthreads_and) || defined(__syncthreads_count) || \
    defined(this_cluster) || defined(this_multi_grid) || defined(CEDE_PORT_REGION) ||          \
    defined(CEDE_PORT_HAS_CUB)
#error "a port region leaks"
#endif

// Headers and kernels behind a region are what they are elsewhere.
#include <cooperative_groups.h>
#include <cub/block/block_scan.cuh>
#include <cuda_fp16.h>

#include <vector>

__global__ void __launch_bounds__(64) plain_behind(int* p) {
  using scan = cub::BlockScan<int, 64>;
  __shared__ typename scan::TempStorage storage;
  int v = static_cast<int>(blockIdx.x + cooperative_groups::this_grid().block_rank() +
                           cooperative_groups::this_thread_block().group_index().x);
  scan(storage).InclusiveSum(v, v);
  __syncthreads();
  p[blockIdx.x] = v + __syncthreads_or(v) + static_cast<int>(__half2float(__int2half_rn(v)));
}

told first() {
  using namespace cede::detail;
  const auto shared = cede::bind(cede::body<shared_kernel<float>>, nullptr, 3);
  const auto own = cede::bind(cede::body<own_kernel>, nullptr);
  const auto entry = [](const auto& body, unsigned threads) {
    using B = std::remove_cvref_t<decltype(body)>;
    return &entry_for<B, this_compiler, true>(body, {.grid = 4, .block = threads});
  };
  return {entry(shared, 256), entry(shared, 1024), entry(own, 1)};
}

const void* plain_kernels[] = {reinterpret_cast<const void*>(&plain_before),
                               reinterpret_cast<const void*>(&plain_behind)};

converted convert() {
  const auto b = cede::bind(cede::body<takes>, 2.5, 7L, 'A');
  static_assert(std::is_same_v<decltype(b.args), cede::detail::pack<float, int, short>>);
  return {b.args.first, b.args.rest.first, b.args.rest.rest.first, sizeof b};
}
