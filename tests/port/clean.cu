// SPDX-License-Identifier: Apache-2.0
// Nothing leaks here, though there is much that might seem to: plain kernels, cooperative groups, a
// CUB collective, gridDim, blockDim, a body written by hand, all forms.
#include <cede/cede.hpp>

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>

namespace cg = cooperative_groups;

__global__ void plain_before(unsigned* p) { p[blockIdx.x] = gridDim.x; }
__device__ unsigned unused() { return blockIdx.z; }

#include <cede/port/begin.hpp>
template <class T>
__global__ void __launch_bounds__(256) transpose(T* out, const T* in, int w, int h) {
  __shared__ T tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x;
  int y = blockIdx.y * 16 + threadIdx.y;
  if (x < w && y < h) tile[threadIdx.y][threadIdx.x] = in[y * w + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x;
  y = blockIdx.x * 16 + threadIdx.y;
  if (x < h && y < w) out[y * h + x] = tile[threadIdx.x][threadIdx.y];
}
__global__ void collectives(unsigned* out, const unsigned* in) {
  using reduce = cub::BlockReduce<unsigned, 128>;
  __shared__ typename reduce::TempStorage storage;
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  const unsigned v = in[blockIdx.x * blockDim.x + block.thread_rank()];
  const unsigned row = cg::reduce(tile, v, cg::plus<unsigned>());
  block.sync();
  const unsigned all = reduce(storage).Sum(v);
  if (threadIdx.x == 0) out[blockIdx.x + gridDim.x * blockIdx.y] = all + row + gridDim.z;
}
#include <cede/port/end.hpp>

__global__ void plain_behind(unsigned* p) { p[blockIdx.x] = gridDim.x + unused(); }

struct written_by_hand {
  unsigned* p;
  CEDE_BODY void operator()(cede::block b) const { p[b.index().x] = b.grid().y; }
};

void use(cede::stream& s, float* to, const float* from, unsigned* out, const unsigned* in) {
  const cede::shape shape{.grid = 4, .block = {16, 16}};
  constexpr cede::kernel_traits safe{.max_threads = 256, .persistent_safe = true};
  s.launch(shape, cede::body<transpose<float>, safe>, to, from, 64, 64);
  s.launch(shape, cede::body<transpose<float>>, to, from, 64, 64);
  s.launch({.grid = 4, .block = 128}, cede::body<collectives>, out, in);
  s.launch(shape, written_by_hand{out});
  plain_before<<<1, 1>>>(out);
  plain_behind<<<1, 1>>>(out);
}
