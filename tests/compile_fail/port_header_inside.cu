// expect: a CUDA header was included inside a port region
#include <cede/cede.hpp>
#ifdef CEDE_EXPECT_OK
#include <cooperative_groups.h>
#endif

#include <cede/port/begin.hpp>
#include <cooperative_groups.h>
__global__ void kernel(int* p) { cooperative_groups::this_thread_block().sync(); }
#include <cede/port/end.hpp>
