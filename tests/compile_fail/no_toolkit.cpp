// expect: cede/cuda_device.hpp needs the CUDA Toolkit's headers
// with: -nostdinc -nostdinc++ -DWITHOUT_TOOLKIT
#ifdef WITHOUT_TOOLKIT
#include <cede/cuda_device.hpp>
#else
#include <cede/cede.hpp>
#endif
