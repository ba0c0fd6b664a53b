// SPDX-License-Identifier: Apache-2.0
// Opens a port region: from here to <cede/port/end.hpp> the text of a `__global__` kernel compiles
// as a device function that `cede::body<kernel>` makes a body of. Include it after all headers, as
// often as there are regions. docs/porting.md tells what a region redirects and what it refuses.

#if !defined(CEDE_PORT_READY)
#error "cede/port/begin.hpp comes after <cede/cede.hpp>: include that first"
#elif !defined(__CUDACC__)
#error "cede/port/begin.hpp opens a region of CUDA kernels: compile this file with nvcc"
#elif defined(CEDE_PORT_REGION)
#error \
    "cede/port/begin.hpp inside a port region: close the one before with <cede/port/end.hpp>, and keep headers out of regions"
#else
#define CEDE_PORT_REGION 1

// What is included by now must still be all that is included at the end.
#if defined(_COOPERATIVE_GROUPS_H_)
#define CEDE_PORT_HAS_COOPERATIVE_GROUPS 1
#endif
#if defined(CUB_VERSION)
#define CEDE_PORT_HAS_CUB 1
#endif
#if defined(THRUST_VERSION)
#define CEDE_PORT_HAS_THRUST 1
#endif
#if defined(__CUDA_FP16_H__)
#define CEDE_PORT_HAS_FP16 1
#endif
#if defined(__CUDA_BF16_H__)
#define CEDE_PORT_HAS_BF16 1
#endif
#if defined(__CUDA_FP8_H__)
#define CEDE_PORT_HAS_FP8 1
#endif
#if defined(_CUDA_PIPELINE_H_)
#define CEDE_PORT_HAS_PIPELINE 1
#endif
#if defined(CURAND_KERNEL_H_)
#define CEDE_PORT_HAS_CURAND 1
#endif
#if defined(__CUDA_MMA_H__)
#define CEDE_PORT_HAS_MMA 1
#endif

// NVRTC has no such pragma; what it compiles ends with the region.
#if !defined(__CUDACC_RTC__)
#pragma push_macro("__global__")
#pragma push_macro("__launch_bounds__")
#pragma push_macro("blockIdx")
#pragma push_macro("gridDim")
#pragma push_macro("__syncthreads")
#pragma push_macro("__syncthreads_or")
#pragma push_macro("__syncthreads_and")
#pragma push_macro("__syncthreads_count")
#pragma push_macro("group_index")
#pragma push_macro("this_grid")
#pragma push_macro("this_multi_grid")
#pragma push_macro("this_cluster")
#endif
#undef __global__
#undef __launch_bounds__
#undef blockIdx
#undef gridDim
#undef __syncthreads
#undef __syncthreads_or
#undef __syncthreads_and
#undef __syncthreads_count
#undef group_index
#undef this_grid
#undef this_multi_grid
#undef this_cluster

#define __global__ __device__ __attribute__((always_inline)) inline
#define __launch_bounds__(...)
#define blockIdx (::cede::port::block_index())
#define gridDim (::cede::port::grid_dim())
#define __syncthreads() ::cede::port::sync_threads()
#define __syncthreads_or(...) ::cede::port::sync_threads_or(__VA_ARGS__)
#define __syncthreads_and(...) ::cede::port::sync_threads_and(__VA_ARGS__)
#define __syncthreads_count(...) ::cede::port::sync_threads_count(__VA_ARGS__)
// Cooperative groups read the physical block. Their names become ones that do not exist, so that
// the compiler quotes the reason.
#define group_index cede_port_refuses_group_index_use_blockIdx
#define this_grid cede_port_refuses_this_grid_use_blockIdx_and_no_grid_barrier
#define this_multi_grid cede_port_refuses_this_multi_grid
#define this_cluster cede_port_refuses_this_cluster

#endif
