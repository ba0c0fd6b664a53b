// expect: cede_port_refuses_group_index_use_blockIdx
#include <cede/cede.hpp>

#include <cooperative_groups.h>

#include <cede/port/begin.hpp>
__global__ void kernel(unsigned* p) {
  const auto block = cooperative_groups::this_thread_block();
#ifdef CEDE_EXPECT_OK
  p[blockIdx.x] = block.thread_index().x;
#else
  p[block.group_index().x] = block.thread_index().x;
#endif
}
#include <cede/port/end.hpp>
