// expect: cede/port/begin.hpp opens a region of CUDA kernels: compile this file with nvcc
#include <cede/cede.hpp>
#ifndef CEDE_EXPECT_OK
#include <cede/port/begin.hpp>
#endif
