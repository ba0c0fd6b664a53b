// SPDX-License-Identifier: Apache-2.0
// The text of kernels as somebody wrote them, without a word of cede. port_test.cu includes it
// twice: as it is, and inside a port region. Every kernel adds to what is there, so that a tile
// executed twice, or not at all, shows.

/// Tiled, 2-D, a template, launch bounds, one barrier.
template <class T>
__global__ void __launch_bounds__(256) transpose(T* out, const T* in, int width, int height) {
  __shared__ T tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x;
  int y = blockIdx.y * 16 + threadIdx.y;
  if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x;
  y = blockIdx.x * 16 + threadIdx.y;
  if (x < height && y < width) out[y * height + x] += tile[threadIdx.x][threadIdx.y];
}

/// Threads past the end return before barriers the others meet; dynamic shared memory.
__global__ void mirror(unsigned* out, const unsigned* in, unsigned n) {
  extern __shared__ unsigned row[];
  const unsigned base = blockIdx.x * blockDim.x;
  const unsigned t = threadIdx.x;
  if (base + t >= n) return;
  const unsigned here = n - base < blockDim.x ? n - base : blockDim.x;
  row[t] = in[base + t];
  __syncthreads();
  const unsigned other = row[here - 1 - t];
  __syncthreads();
  row[t] = other + gridDim.x;
  __syncthreads();
  out[base + t] += row[here - 1 - t] + 3 * other;
}

/// A block collective of CUB.
__global__ void block_sums(float* sums, const float* in) {
  using reduce = cub::BlockReduce<float, 128>;
  __shared__ typename reduce::TempStorage storage;
  const float sum = reduce(storage).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) sums[blockIdx.x] += sum;
}

/// Cooperative groups: the block, and tiles of it.
__global__ void tile_sums(unsigned* sums, const unsigned* in) {
  const auto block = cooperative_groups::this_thread_block();
  const auto tile = cooperative_groups::tiled_partition<16>(block);
  __shared__ unsigned part[16];
  const unsigned v = in[blockIdx.x * block.size() + block.thread_rank()];
  const unsigned sum = cooperative_groups::reduce(tile, v, cooperative_groups::plus<unsigned>());
  if (tile.thread_rank() == 0) part[tile.meta_group_rank()] = sum;
  block.sync();
  if (block.thread_rank() < tile.meta_group_size()) {
    sums[blockIdx.x * tile.meta_group_size() + block.thread_rank()] += part[block.thread_rank()];
  }
}

/// 3-D, a halo in shared memory, blockIdx and gridDim on all axes.
__global__ void stencil(unsigned* out, const unsigned* in, int nx, int ny, int nz) {
  __shared__ unsigned box[6][6][10];
  const int x0 = blockIdx.x * 8;
  const int y0 = blockIdx.y * 4;
  const int z0 = blockIdx.z * 4;
  const int threads = blockDim.x * blockDim.y * blockDim.z;
  for (int i = threadIdx.x + 8 * (threadIdx.y + 4 * threadIdx.z); i < 6 * 6 * 10; i += threads) {
    const int x = (x0 + i % 10 - 1 + nx) % nx;
    const int y = (y0 + i / 10 % 6 - 1 + ny) % ny;
    const int z = (z0 + i / 60 - 1 + nz) % nz;
    box[i / 60][i / 10 % 6][i % 10] = in[(z * ny + y) * nx + x];
  }
  __syncthreads();
  const int x = threadIdx.x + 1;
  const int y = threadIdx.y + 1;
  const int z = threadIdx.z + 1;
  const unsigned sum = box[z][y][x - 1] + 3 * box[z][y][x + 1] + 5 * box[z][y - 1][x] +
                       7 * box[z][y + 1][x] + 11 * box[z - 1][y][x] + 13 * box[z + 1][y][x];
  const unsigned gx = gridDim.x * blockDim.x;
  const unsigned gy = gridDim.y * blockDim.y;
  out[((z0 + threadIdx.z) * gy + y0 + threadIdx.y) * gx + x0 + threadIdx.x] += sum + gridDim.z;
}

/// Barriers with results; for native blocks alone.
__global__ void votes(unsigned* out, const unsigned* in) {
  const unsigned v = in[blockIdx.x * blockDim.x + threadIdx.x];
  const int count = __syncthreads_count(v % 3 == 0);
  const int any = __syncthreads_or(v % 1021 == 0);
  const int all = __syncthreads_and(v % 1021 != 1);
  if (threadIdx.x == 0)
    out[blockIdx.x] += static_cast<unsigned>(4 * count + 2 * (any != 0) + (all != 0));
}

struct weights {
  unsigned of[200];
};
/// A large argument, indexed by what only the device knows.
__global__ void weigh(unsigned* out, const weights w, short factor) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] += w.of[i % 200] * factor;
}

/// One of two of a name.
__global__ void mark(unsigned* out) { out[blockIdx.x] += 1 + blockIdx.x; }
__global__ void mark(unsigned long long* out) { out[blockIdx.x] += 2 + blockIdx.x; }
