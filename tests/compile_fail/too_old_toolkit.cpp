// expect: cede needs the CUDA Toolkit 12.5 or newer
// with: -D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=4
#include <cede/config.hpp>
