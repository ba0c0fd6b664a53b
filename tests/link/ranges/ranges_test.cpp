// SPDX-License-Identifier: Apache-2.0
// What a profiler is told. The program is its own tool: NVTX finds its entry point in tool.cpp.
#include <cede/detail/cuda_ranges.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace {

std::vector<std::string>& told() {
  static std::vector<std::string> lines;
  return lines;
}

std::string text_of(const nvtxEventAttributes_t* a) {
  if (a->messageType == NVTX_MESSAGE_TYPE_ASCII) return a->message.ascii;
  return reinterpret_cast<const char*>(a->message.registered);
}

nvtxDomainHandle_t NVTX_API create(const char* name) {
  told().push_back(std::string("domain ") + name);
  return reinterpret_cast<nvtxDomainHandle_t>(&told());
}
int NVTX_API push(nvtxDomainHandle_t d, const nvtxEventAttributes_t* a) {
  CHECK(d == reinterpret_cast<nvtxDomainHandle_t>(&told()));
  told().push_back("push " + text_of(a));
  return 0;
}
int NVTX_API pop(nvtxDomainHandle_t) {
  told().emplace_back("pop");
  return 0;
}
nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t, const nvtxEventAttributes_t* a) {
  told().push_back("start " + text_of(a));
  return 42;
}
void NVTX_API end(nvtxDomainHandle_t, nvtxRangeId_t id) {
  told().push_back("end " + std::to_string(id));
}
nvtxStringHandle_t NVTX_API register_string(nvtxDomainHandle_t, const char* text) {
  static const std::string kept = text;  // one is registered here
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<char*>(kept.c_str()));
}

template <class F>
void put(NvtxFunctionTable table, unsigned id, F* f) {
  *table[id] = reinterpret_cast<NvtxFunctionPointer>(f);
}

}  // namespace

/// Puts the functions above into NVTX's table.
extern "C" int attach_tool(NvtxGetExportTableFunc_t get) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  put(table, NVTX_CBID_CORE2_DomainCreateA, create);
  put(table, NVTX_CBID_CORE2_DomainRangePushEx, push);
  put(table, NVTX_CBID_CORE2_DomainRangePop, pop);
  put(table, NVTX_CBID_CORE2_DomainRangeStartEx, start);
  put(table, NVTX_CBID_CORE2_DomainRangeEnd, end);
  put(table, NVTX_CBID_CORE2_DomainRegisterStringA, register_string);
  return 1;
}

TEST_CASE("ranges: a tool hears of launches and requests, in a domain of their own") {
  const cede::detail::range_name name("saxpy");
  {
    const cede::detail::thread_range outer(name);
    const auto request = cede::detail::start_range("request of serve");
    CHECK(request == 42);
    cede::detail::end_range(request);
  }
  CHECK(told() == std::vector<std::string>{"domain cede", "push saxpy", "start request of serve",
                                           "end 42", "pop"});
}
