// SPDX-License-Identifier: Apache-2.0
// What a region cannot redirect, one kernel each.
// port-check: expect ^earlier_helper<int>\(int\*\) reads the physical block index .*%ctaid\.y
// port-check: expect ^\(anonymous namespace\)::far_helper reads the physical grid size \(in far\(unsigned int\), .*%nctaid\.z
// port-check: expect ^inline_assembly\(unsigned int\*\) reads the physical grid size .*%nctaid\.x
// port-check: expect ^inline_assembly\(unsigned int\*\) reads the physical block index .*%ctaid\.x
// port-check: expect ^group_in_helper\(unsigned int\*\) reads the physical block index
// port-check: expect ^group_in_helper\(unsigned int\*\) uses what only a cooperative launch has
// port-check: expect ^group_in_helper\(unsigned int\*\) reads the physical grid size
// port-check: expect ^cluster_rank\(unsigned int\*\) uses a thread-block cluster .*%cluster_ctarank
// port-check: expect ^through_pointer\(unsigned int\*, int\) reads the physical block index \(in far_index\(\)
// port-check: expect ^written_by_hand reads the physical block index .*\(a body: b\.index\(\)\)
#include <cede/cede.hpp>

#include <cooperative_groups.h>

__device__ unsigned earlier() { return blockIdx.y; }
__device__ __noinline__ unsigned far(unsigned i) { return i + gridDim.z; }
__device__ __noinline__ unsigned far_index() { return blockIdx.x; }
__device__ __noinline__ unsigned zero() { return 0; }
__device__ void whole_grid() { cooperative_groups::this_grid().sync(); }
__device__ unsigned grid_rank() {
  return static_cast<unsigned>(cooperative_groups::this_grid().block_rank());
}

#include <cede/port/begin.hpp>
template <class T>
__global__ void earlier_helper(T* p) {
  p[blockIdx.x] = static_cast<T>(earlier());
}
namespace {
__global__ void far_helper(unsigned* p) { p[blockIdx.x] = far(blockIdx.y); }
}  // namespace
__global__ void inline_assembly(unsigned* p) {
  unsigned at;
  unsigned of;
  asm volatile("{ mov.u32 %0, %%ctaid.x;\n mov.u32 %1, %%nctaid.x; }" : "=r"(at), "=r"(of));
  p[blockIdx.x] = at * of;
}
__global__ void group_in_helper(unsigned* p) {
  p[blockIdx.x] = grid_rank();
  whole_grid();
}
__global__ void cluster_rank(unsigned* p) {
  unsigned rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  p[blockIdx.x] = rank;
}
__global__ void through_pointer(unsigned* p, int which) {
  unsigned (*const f)() = which == 0 ? far_index : zero;
  p[blockIdx.x] = f();
}
#include <cede/port/end.hpp>

struct written_by_hand {
  unsigned* p;
  CEDE_BODY void operator()(cede::block b) const {
#if defined(__CUDA_ARCH__)
    p[b.index().x] = blockIdx.x;
#endif
  }
};

void use(cede::stream& s, unsigned* p, int* q) {
  const cede::shape shape{.grid = 4, .block = 32};
  s.launch(shape, cede::body<earlier_helper<int>>, q);
  s.launch(shape, cede::body<far_helper>, p);
  s.launch(shape, cede::body<inline_assembly>, p);
  s.launch(shape, cede::body<group_in_helper>, p);
  s.launch(shape, cede::body<cluster_rank>, p);
  s.launch(shape, cede::body<through_pointer>, p, 1);
  s.launch(shape, written_by_hand{p});
}
