// expect: cede/detail/cuda_kernels.hpp holds device code: compile this file with nvcc
#ifdef CEDE_EXPECT_OK
#include <cede/detail/cuda_launch.hpp>
#else
#include <cede/detail/cuda_kernels.hpp>
#endif
