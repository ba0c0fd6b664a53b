// expect: cede needs compute capability 7.0 or newer
// with: -D__CUDA_ARCH__=610
#include <cede/config.hpp>
