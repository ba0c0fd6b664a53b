// expect: cede_port_refuses_this_cluster
#include <cede/cede.hpp>

#include <cooperative_groups.h>

#include <cede/port/begin.hpp>
__global__ void kernel(unsigned* p) {
#ifdef CEDE_EXPECT_OK
  const auto group = cooperative_groups::this_thread_block();
#else
  const auto group = cooperative_groups::this_cluster();
#endif
  p[blockIdx.x] = group.thread_rank();
}
#include <cede/port/end.hpp>
