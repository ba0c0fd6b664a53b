// SPDX-License-Identifier: Apache-2.0
// Names for profilers (Nsight Systems, CUPTI): what cede submits, its requests and its streams.
//
// Without a tool attached each call is a load and a branch. NVTX comes with the toolkit as headers;
// the tool is found at run time.
#pragma once

#include <cede/config.hpp>

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>

#include <cstdint>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// The domain that a tool can switch on and off as one. One per process and tool: made again by
/// each shared library, and the same for the tool.
inline nvtxDomainHandle_t ranges_domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("cede");
  return domain;
}

/// A name that is used often.
class range_name {
 public:
  range_name() = default;
  explicit range_name(const std::string& name)
      : registered_(nvtxDomainRegisterStringA(ranges_domain(), name.c_str())) {}
  [[nodiscard]] nvtxEventAttributes_t attributes() const {
    nvtxEventAttributes_t a{};
    a.version = NVTX_VERSION;
    a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    a.message.registered = registered_;
    return a;
  }

 private:
  nvtxStringHandle_t registered_ = nullptr;
};

/// A range on this thread, from construction to destruction.
class thread_range {
 public:
  explicit thread_range(const range_name& name) {
    const nvtxEventAttributes_t a = name.attributes();
    nvtxDomainRangePushEx(ranges_domain(), &a);
  }
  thread_range(const thread_range&) = delete;
  thread_range& operator=(const thread_range&) = delete;
  ~thread_range() { nvtxDomainRangePop(ranges_domain()); }
};

/// A range that another thread may end.
inline std::uint64_t start_range(const std::string& name) {
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = name.c_str();
  return nvtxDomainRangeStartEx(ranges_domain(), &a);
}
inline void end_range(std::uint64_t range) { nvtxDomainRangeEnd(ranges_domain(), range); }

inline void name_raw_stream(cudaStream_t s, const std::string& name) {
  nvtxNameCudaStreamA(s, name.c_str());
}

}  // namespace detail

CEDE_END_NAMESPACE
