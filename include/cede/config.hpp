// SPDX-License-Identifier: Apache-2.0
// Version, language gates and the few macros every other header uses.
#pragma once

/// Version of the library; the build checks these three against its own.
#define CEDE_VERSION_MAJOR 0
#define CEDE_VERSION_MINOR 1
#define CEDE_VERSION_PATCH 0
/// One comparable number: major * 10000 + minor * 100 + patch.
#define CEDE_VERSION (CEDE_VERSION_MAJOR * 10000 + CEDE_VERSION_MINOR * 100 + CEDE_VERSION_PATCH)

#if defined(_MSVC_LANG)
#error "cede runs on Linux with g++, clang++ or nvcc; the Microsoft compiler is not supported"
#endif
#if !defined(__cplusplus) || __cplusplus < 202002L
#error "cede needs C++20: compile with -std=c++20 (nvcc: --std=c++20; Meson: cpp_std and cuda_std)"
#endif
#if !defined(__linux__) && !defined(__CUDACC_RTC__)
#error "cede runs on Linux only: it relies on ELF weak symbols to share one registry per process"
#endif
#if defined(__CUDACC_VER_MAJOR__) && (__CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ < 1205)
#error "cede needs the CUDA Toolkit 12.5 or newer (13.0 is what is tested)"
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error \
    "cede needs compute capability 7.0 or newer (independent thread scheduling): use -arch=sm_80 or above"
#endif

/// True where nvcc compiles: only there can a body be launched on a CUDA device.
#if defined(__CUDACC__)
#define CEDE_NVCC 1
/// Marks a body's call operator: `__host__ __device__` under nvcc, nothing under a host compiler,
/// so that one source runs on both devices.
#define CEDE_BODY __host__ __device__
#else
#define CEDE_NVCC 0
#define CEDE_BODY
#endif

/// True where NVRTC compiles, at run time (<cede/rtc.hpp>): there is no host side then, and no
/// standard library but the few headers that come with the text.
#if defined(__CUDACC_RTC__)
#define CEDE_RTC 1
#else
#define CEDE_RTC 0
#endif

/// Shared by every copy of the library in one process, whatever the visibility flags.
#define CEDE_PROCESS_WIDE __attribute__((visibility("default")))
/// Never exported: two shared libraries may each hold the same kernel template.
#if CEDE_RTC
#define CEDE_HIDDEN
#else
#define CEDE_HIDDEN __attribute__((visibility("hidden")))
#endif

// The inline namespace changes with every layout change, so that objects built against two layouts
// do not link into one another by accident.
#define CEDE_BEGIN_NAMESPACE \
  namespace cede {           \
  inline namespace v0 {
#define CEDE_END_NAMESPACE \
  }                        \
  }
