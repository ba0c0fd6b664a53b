// SPDX-License-Identifier: Apache-2.0
// Closes a port region (<cede/port/begin.hpp>): every word means again what it meant before.

#if !defined(CEDE_PORT_REGION)
#error "cede/port/end.hpp without a port region: <cede/port/begin.hpp> opens one"
#else
#undef CEDE_PORT_REGION

#if !defined(__CUDACC_RTC__)
#pragma pop_macro("__global__")
#pragma pop_macro("__launch_bounds__")
#pragma pop_macro("blockIdx")
#pragma pop_macro("gridDim")
#pragma pop_macro("__syncthreads")
#pragma pop_macro("__syncthreads_or")
#pragma pop_macro("__syncthreads_and")
#pragma pop_macro("__syncthreads_count")
#pragma pop_macro("group_index")
#pragma pop_macro("this_grid")
#pragma pop_macro("this_multi_grid")
#pragma pop_macro("this_cluster")
#endif

// A header read inside the region keeps the redirected words for the rest of the program.
#if (defined(_COOPERATIVE_GROUPS_H_) && !defined(CEDE_PORT_HAS_COOPERATIVE_GROUPS)) || \
    (defined(CUB_VERSION) && !defined(CEDE_PORT_HAS_CUB)) ||                           \
    (defined(THRUST_VERSION) && !defined(CEDE_PORT_HAS_THRUST)) ||                     \
    (defined(__CUDA_FP16_H__) && !defined(CEDE_PORT_HAS_FP16)) ||                      \
    (defined(__CUDA_BF16_H__) && !defined(CEDE_PORT_HAS_BF16)) ||                      \
    (defined(__CUDA_FP8_H__) && !defined(CEDE_PORT_HAS_FP8)) ||                        \
    (defined(_CUDA_PIPELINE_H_) && !defined(CEDE_PORT_HAS_PIPELINE)) ||                \
    (defined(CURAND_KERNEL_H_) && !defined(CEDE_PORT_HAS_CURAND)) ||                   \
    (defined(__CUDA_MMA_H__) && !defined(CEDE_PORT_HAS_MMA))
#error \
    "cede: a CUDA header was included inside a port region and would keep its redirected words: include it above <cede/port/begin.hpp>"
#endif

#undef CEDE_PORT_HAS_COOPERATIVE_GROUPS
#undef CEDE_PORT_HAS_CUB
#undef CEDE_PORT_HAS_THRUST
#undef CEDE_PORT_HAS_FP16
#undef CEDE_PORT_HAS_BF16
#undef CEDE_PORT_HAS_FP8
#undef CEDE_PORT_HAS_PIPELINE
#undef CEDE_PORT_HAS_CURAND
#undef CEDE_PORT_HAS_MMA

#endif
