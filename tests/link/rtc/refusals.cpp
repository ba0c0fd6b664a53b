// SPDX-License-Identifier: Apache-2.0
// What run-time compilation refuses, and that it says why: the kernel, the cause, the remedy.
#include <cede/rtc.hpp>

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace {

cede::rtc_source source(std::string text) {
  return {.text = std::move(text), .architecture = "sm_90"};
}

struct refusal {
  std::string what = "nothing was thrown";
  std::string log;

  [[nodiscard]] bool says(const std::string& words) const {
    const bool found = what.find(words) != std::string::npos;
    if (!found) MESSAGE("\"", words, "\" is not in: ", what);
    return found;
  }
};

refusal outcome(const cede::rtc_source& s, const cede::rtc_name& name = {"k"}) {
  try {
    static_cast<void>(cede::compile(s, name));
  } catch (const cede::rtc_error& e) {
    CHECK(!e.log().empty());
    return {e.what(), e.log()};
  } catch (const cede::error& e) {
    return {e.what(), {}};
  }
  return {};
}
refusal outcome(const std::string& text, const cede::rtc_name& name = {"k"}) {
  return outcome(source(text), name);
}

}  // namespace

TEST_CASE("a syntax error comes with the kernel's name, its place in the text, a remedy") {
  const auto r = outcome("#include <cstdint>\n\n__global__ void k(int* p) {\n  *p = oops;\n}\n");
  CHECK(
      r.says("rtc: k of kernels.cu cannot be compiled (NVRTC_ERROR_COMPILATION):\n"
             "kernels.cu(4): error: identifier \"oops\" is undefined"));
  CHECK(r.says("correct the text; rtc_error::log() holds all that the compiler said"));
  CHECK(r.log.find("1 error detected") != std::string::npos);
}

TEST_CASE("a name that is not there, one of several, a plain function, a type") {
  const std::string text =
      "namespace n { __global__ void k(int* p) {} }\n"
      "__global__ void two(int* p) {}\n__global__ void two(float* p) {}\n"
      "template <class T> __global__ void t(T* p) {}\n__device__ int f(int i) { return i; }\n";
  for (const char* name : {"k", "n::other", "two", "t", "f", "n::k;", "int", ""}) {
    CAPTURE(name);
    const auto r = outcome(text, {name});
    CHECK(r.says(std::string("rtc: kernels.cu has no kernel ") + name + ":\n"));
    CHECK(
        r.says("name it as the text would, with namespaces and template arguments, and one of "
               "several functions by rtc_name::signature as well"));
  }
  CHECK(outcome(text, {.name = "two", .signature = "void(double*)"})
            .says("has no kernel two of type void(double*)"));
}

TEST_CASE("of several names the wrong one is named") {
  try {
    static_cast<void>(cede::compile_all(source("__global__ void a() {}\n"), {{"a"}, {"b"}}));
    FAIL("nothing was thrown");
  } catch (const cede::rtc_error& e) {
    CHECK(std::string(e.what()).starts_with("rtc: kernels.cu has no kernel b:"));
  }
  CHECK_THROWS_WITH_AS(static_cast<void>(cede::compile_all(source(""), {})),
                       "rtc: no kernel of kernels.cu was named; name at least one",
                       cede::invalid_argument);
}

TEST_CASE("headers: one that is not found, one inside the region, cede's own, CUDA's") {
  CHECK(outcome("#include \"nowhere.cuh\"\n__global__ void k() {}\n")
            .says("add the folder that holds the header to rtc_source::include, or its text to "
                  "rtc_source::headers"));
  CHECK(outcome("__global__ void k() {}\n#include <cooperative_groups.h>\n")
            .says("put its #include to the top of the text, before the first declaration"));
  using cede::detail::include_folders;
  const auto own = cede::detail::own_folder();
  CHECK_THROWS_WITH_AS(
      static_cast<void>(include_folders({}, "/nowhere", {})),
      "rtc: cede's headers are not in /nowhere, where this program was compiled; add the folder "
      "that holds cede/rtc.hpp to rtc_source::include",
      cede::invalid_argument);
  CHECK_THROWS_WITH_AS(
      static_cast<void>(include_folders({}, own, {"/nowhere"})),
      "rtc: CUDA's headers (cuda/atomic) were not found; add the include folder of the CUDA "
      "Toolkit to rtc_source::include, or set CUDA_HOME",
      cede::invalid_argument);
  // Folders of the user's come first and are enough.
  const auto all = include_folders({own}, "/nowhere", cede::detail::cuda_folders());
  CHECK(all.front() == own);
  CHECK(all.size() >= 2);
}

TEST_CASE("cooperative groups of the grid and of the cluster, the group's index") {
  const std::string head = "#include <cooperative_groups.h>\n__global__ void k(unsigned* p) { ";
  CHECK(outcome(head + "p[cooperative_groups::this_thread_block().group_index().x] = 1; }")
            .says("group_index() of cooperative groups tells the physical block: use blockIdx"));
  CHECK(outcome(head + "cooperative_groups::this_grid().sync(); }")
            .says("a grid group sees the physical grid: use blockIdx and gridDim"));
  CHECK(outcome(head + "cooperative_groups::this_cluster().sync(); }")
            .says("a cluster sees the physical blocks: launch such a kernel as it is through "
                  "stream::run"));
}

TEST_CASE("what compiles and would be wrong is found in the PTX, with the kernel's name") {
  cede::rtc_source helper =
      source("#include \"row.cuh\"\n__global__ void k(unsigned* p) { *p = row(); }");
  helper.headers = {{"row.cuh", "__device__ inline unsigned row() { return blockIdx.y; }\n"}};
  const auto r = outcome(helper);
  CHECK(r.says("rtc: in kernels.cu k(unsigned int*) reads the physical block index ("));
  CHECK(r.says("read blockIdx inside the port region and pass it on"));
  CHECK(outcome("__global__ void k(unsigned* p) { asm volatile(\"mov.u32 %0, %%nctaid.x;\" : "
                "\"=r\"(*p)); }")
            .says("k(unsigned int*) reads the physical grid size"));
  CHECK(outcome("__device__ __noinline__ unsigned stays() { return blockIdx.x; }\n"
                "__global__ void k(unsigned* p) { *p = stays(); }")
            .says("k(unsigned int*) has a function that reads blockIdx, gridDim or waits in "
                  "__syncthreads and was not inlined (in stays(), "));
  const std::string votes = "__global__ void k(int* p) { *p = __syncthreads_or(*p); }";
  CHECK(outcome(votes).what == "nothing was thrown");
  CHECK(outcome(votes, {.name = "k", .traits = {.persistent_safe = true}})
            .says("uses __syncthreads_or, _and or _count in persistent workers"));
  // All that leaks is in the log.
  const auto two = outcome(
      "__global__ void k(unsigned* p) { asm volatile(\"mov.u32 %0, %%nctaid.x;\" : \"=r\"(p[0])); "
      "asm volatile(\"mov.u32 %0, %%ctaid.z;\" : \"=r\"(p[1])); }");
  CHECK(two.says("(and 1 more, see rtc_error::log())"));
  CHECK(two.log.find("physical block index") != std::string::npos);
  CHECK(two.log.find("physical grid size") != std::string::npos);
}

TEST_CASE("functions of the host, parameters that cannot travel, traits that contradict") {
  CHECK(outcome("int f() { return 1; }\n__global__ void k(int* p) { *p = f(); }")
            .says("mark the function __device__: a text for NVRTC has no host side"));
  CHECK(outcome("__global__ void k(int& p) { p = 1; }")
            .says("a kernel takes its parameters by value"));
  CHECK(outcome("struct s { __device__ s(const s&) {} };\n__global__ void k(s v) {}")
            .says("a kernel's parameters must be trivially copyable"));
  CHECK(outcome("__global__ void k() {}", {.name = "k", .traits = {.min_blocks = 2}})
            .says("kernel_traits with 'min_blocks' state 'max_threads' as well"));
  CHECK(outcome("__global__ void k() {}", {.name = "k", .traits = {.max_threads = 2000}})
            .says("above 1024"));
}

TEST_CASE("options that cannot be given, and one that does not exist") {
  const auto with = [](std::string option) {
    cede::rtc_source s = source("__global__ void k() {}");
    s.options = {std::move(option)};
    return outcome(s);
  };
  CHECK(with("--gpu-architecture=sm_80").what ==
        "rtc: the option --gpu-architecture=sm_80 of kernels.cu cannot be given: name it in "
        "rtc_source::architecture");
  CHECK(with("-arch=sm_80").says("name it in rtc_source::architecture"));
  CHECK(with("-default-device").says("mark functions __device__"));
  CHECK(with("-rdc=true").says("nothing is linked to the text"));
  CHECK(with("-rdc=false").what == "nothing was thrown");
  CHECK(with("--std=c++17").says("leave the -std option out of rtc_source::options"));
  CHECK(with("--no-such-option").says("correct rtc_source::options"));
  cede::rtc_source s = source("__global__ void k() {}");
  s.architecture = "sm_1";
  CHECK(outcome(s).says("correct rtc_source::architecture"));
}
