// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <cstdlib>
#include <new>

#include "cuda_check.hpp"

namespace colocate {

#if CEDE_EXAMPLE_CUDA

bool cuda_present(std::string& why) {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return true;
  why = status == cudaSuccess ? "There is no CUDA device here."
                              : "There is no CUDA device that can be used: " +
                                    std::string(cudaGetErrorString(status)) + ".";
  (void)cudaGetLastError();
  return false;
}

#else

bool cuda_present(std::string& why) {
  why =
      "This program was built without CUDA, since no GPU or no CUDA toolkit was found when it was "
      "built.";
  return false;
}

#endif

namespace memory {
namespace {

// Of a cache line, and of what the widest vector access needs.
constexpr std::size_t alignment = 128;

#if CEDE_EXAMPLE_CUDA
// Setting memory, and copying to it from pageable memory, may return before the device is done; the
// queues of the models do not wait for the default stream.
void settle() { COLOCATE_CUDA(cudaStreamSynchronize(cudaStreamLegacy)); }
#endif

}  // namespace

void* allocate(place where, [[maybe_unused]] reach who, std::size_t bytes) {
  if (where == place::host) {
    void* p = ::operator new(bytes, std::align_val_t{alignment});
    std::memset(p, 0, bytes);
    return p;
  }
  void* p = nullptr;
#if CEDE_EXAMPLE_CUDA
  if (who == reach::both) {
    COLOCATE_CUDA(cudaHostAlloc(&p, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
    std::memset(p, 0, bytes);
  } else {
    COLOCATE_CUDA(cudaMalloc(&p, bytes));
    COLOCATE_CUDA(cudaMemset(p, 0, bytes));
    settle();
  }
#endif
  return p;
}

void release(place where, [[maybe_unused]] reach who, void* p) noexcept {
  if (where == place::host) {
    ::operator delete(p, std::align_val_t{alignment});
    return;
  }
#if CEDE_EXAMPLE_CUDA
  // A failure was reported by whoever waited for the device; here nothing can be done about it.
  (void)(who == reach::both ? cudaFreeHost(p) : cudaFree(p));
#endif
}

void copy(place where, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;  // `from` may be null
  if (where == place::host) {
    std::memcpy(to, from, bytes);
    return;
  }
#if CEDE_EXAMPLE_CUDA
  COLOCATE_CUDA(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
  settle();
#endif
}

}  // namespace memory
}  // namespace colocate
