// SPDX-License-Identifier: Apache-2.0
// Texts that NVRTC compiles, in a program of g++ alone: what comes out, and what a launch makes of
// its arguments. That it runs is tests/gpu/rtc_test.cu.
#include <cede/cede.hpp>
#include <cede/rtc.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace {

const std::string transpose = R"(
template <class T>
__global__ void __launch_bounds__(256) transpose(T* out, const T* in, int width, int height) {
  __shared__ T tile[16][17];
  int x = blockIdx.x * 16 + threadIdx.x;
  int y = blockIdx.y * 16 + threadIdx.y;
  if (x < width && y < height) tile[threadIdx.y][threadIdx.x] = in[y * width + x];
  __syncthreads();
  x = blockIdx.y * 16 + threadIdx.x;
  y = blockIdx.x * 16 + threadIdx.y;
  if (x < height && y < width) out[y * height + x] += tile[threadIdx.x][threadIdx.y];
}
)";

const std::string mirror = R"(
extern "C" __global__ void mirror(unsigned* out, const unsigned* in, unsigned n) {
  extern __shared__ unsigned row[];
  const unsigned base = blockIdx.x * blockDim.x;
  if (base + threadIdx.x >= n) return;
  const unsigned here = n - base < blockDim.x ? n - base : blockDim.x;
  row[threadIdx.x] = in[base + threadIdx.x];
  __syncthreads();
  out[base + threadIdx.x] += row[here - 1 - threadIdx.x] + gridDim.x;
}
)";

cede::rtc_source source(std::string text) {
  return {.text = std::move(text), .architecture = "sm_90"};
}

/// Reads of the physical block in PTX that are not the adapter's own.
std::size_t unmarked(std::string_view ptx) {
  std::size_t all = 0;
  for (const std::string_view word : {"%ctaid", "%nctaid"}) {
    for (std::size_t at = ptx.find(word); at != std::string_view::npos;
         at = ptx.find(word, at + 1)) {
      const std::size_t line = ptx.rfind('\n', at) + 1;
      if (ptx.substr(line, at - line).find("cede: physical block") == std::string_view::npos) ++all;
    }
  }
  return all;
}
std::size_t count(std::string_view text, std::string_view word) {
  std::size_t all = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    ++all;
  }
  return all;
}
/// The kernels of a form in PTX, in all bounds; each is declared and defined.
std::size_t kernels(const std::string& ptx, const std::string& form) {
  return count(ptx, "ported_" + form + "_kernel") == 0
             ? 0
             : count(ptx, ".entry _ZN4cede2v06detail7kernels" +
                              std::to_string(form.size() + std::strlen("ported__kernel")) +
                              "ported_" + form + "_kernel");
}

template <class Body>
std::string refused(const Body& launch) {
  try {
    launch();
  } catch (const cede::error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Kernels of all kinds of parameters, compiled once.
struct kinds {
  struct wide {
    double of[5];
  };
  cede::rtc_kernel all;
  cede::rtc_kernel none;
  kinds(const kinds&) = delete;
  explicit kinds(std::vector<cede::rtc_kernel> both) : all(both.at(0)), none(both.at(1)) {}
};
const kinds& compiled_kinds() {
  static const kinds k{cede::compile_all(source(R"(
enum class colour : short {};
struct wide { double of[5]; };
__global__ void every(float* p, int i, unsigned long long u, float f, double d, bool b, colour c,
                    const char* s, const wide w, const signed char k) {
  p[blockIdx.x] = i + u + f + d + b + static_cast<short>(c) + *s + w.of[i] + k;
}
namespace { namespace deep { __global__ void none() {} } }
)"),
                                         {{"every"}, {"deep::none"}})};
  return k;
}

}  // namespace

TEST_CASE("a templated tiled transpose compiles, in the forms its traits allow") {
  const auto native = cede::compile(source(transpose), {.name = "transpose<float>"});
  CHECK(native.name() == "transpose<float>");
  CHECK(unmarked(native.ptx()) == 0);
  CHECK(count(native.ptx(), "cede: physical block") > 0);
  CHECK(kernels(native.ptx(), "native") >= 3);  // for 256, 512 and 1024 threads
  CHECK(kernels(native.ptx(), "gated") == kernels(native.ptx(), "native"));
  CHECK(kernels(native.ptx(), "persistent") == 0);
  for (const char* bound : {".maxntid 256", ".maxntid 512", ".maxntid 1024"}) {
    CHECK(count(native.ptx(), bound) > 0);
  }

  const auto safe =
      cede::compile(source(transpose),
                    {.name = "transpose<unsigned>",
                     .traits = {.max_threads = 256, .min_blocks = 2, .persistent_safe = true}});
  CHECK(unmarked(safe.ptx()) == 0);
  CHECK(kernels(safe.ptx(), "persistent") > 0);
  CHECK(kernels(safe.ptx(), "persistent") < kernels(native.ptx(), "gated"));
  CHECK(count(safe.ptx(), ".maxntid 512") == 0);
  CHECK(count(safe.ptx(), ".minnctapersm 2") > 0);

  const auto whole =
      cede::compile(source(transpose), {.name = "transpose<double>", .traits = {.whole = true}});
  CHECK(kernels(whole.ptx(), "native") > 0);
  CHECK(kernels(whole.ptx(), "gated") == 0);
}

TEST_CASE("an early return, dynamic shared memory, extern \"C\"; nothing of the text stays apart") {
  const auto k =
      cede::compile(source(mirror), {.name = "mirror", .traits = {.persistent_safe = true}});
  CHECK(unmarked(k.ptx()) == 0);
  CHECK(kernels(k.ptx(), "persistent") >= 3);
  CHECK(count(k.ptx(), ".func") == 0);
  CHECK(count(k.ptx(), ".entry mirror") == 0);
}

TEST_CASE("headers in front, helpers, collectives, options, headers given as text") {
  cede::rtc_source s = source(R"(// Its own headers come first.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_reduce.cuh>

#include <cstdint>
#include "mine.cuh"

namespace cg = cooperative_groups;

__device__ unsigned place() { return blockIdx.x + gridDim.x * blockIdx.y; }
static __global__ void sums(std::uint32_t* out, const unsigned* in) {
  using reduce = cub::BlockReduce<unsigned, WIDTH>;
  __shared__ typename reduce::TempStorage storage;
  const auto block = cg::this_thread_block();
  const auto tile = cg::tiled_partition<32>(block);
  const unsigned v = twice(in[place() * WIDTH + block.thread_rank()]);
  const unsigned row = cg::reduce(tile, v, cg::plus<unsigned>());
  block.sync();
  const unsigned all = reduce(storage).Sum(v);
  if (threadIdx.x == 0) out[place()] = all + row;
}
)");
  s.headers = {{"mine.cuh", "__device__ inline unsigned twice(unsigned v) { return 2 * v; }\n"}};
  s.options = {"-DWIDTH=128", "--use_fast_math"};
  const auto k = cede::compile(s, {.name = "sums", .traits = {.max_threads = 128}});
  CHECK(unmarked(k.ptx()) == 0);
}

TEST_CASE("one of several functions of a name is chosen by its type") {
  const std::string marks = R"(
__global__ void mark(unsigned* out) { out[blockIdx.x] += 1; }
__global__ void mark(unsigned long long* out, int by) { out[blockIdx.x] += by; }
)";
  const auto both = cede::compile_all(
      source(marks), {{.name = "mark", .signature = "void(unsigned*)"},
                      {.name = "mark", .signature = "void(unsigned long long*, int)"}});
  CHECK_NOTHROW(static_cast<void>(cede::bind(both[0], nullptr)));
  CHECK_THROWS_AS(static_cast<void>(cede::bind(both[0], nullptr, 1)), cede::invalid_argument);
  CHECK_NOTHROW(static_cast<void>(cede::bind(both[1], nullptr, 1)));
}

TEST_CASE("PTX alone, for an architecture in front of the device's") {
  CHECK(cede::detail::architecture_for(9, 0) == "sm_90");
  CHECK(cede::detail::architecture_for(99, 9).starts_with("compute_"));
  CHECK_THROWS_AS(static_cast<void>(cede::detail::architecture_for(1, 0)), cede::not_supported);
  cede::rtc_source s = source(mirror);
  s.architecture = "compute_80";
  const auto k = cede::compile(s, {"mirror"});
  CHECK(count(k.ptx(), ".target sm_80") == 1);
}

TEST_CASE("arguments are converted to the kernel's parameters, whatever was passed") {
  const auto& k = compiled_kinds();
  float out = 0;
  char s = 's';
  enum class small : unsigned char { two = 2 };
  const auto bound = cede::bind(k.all, &out, 7.9, -1, 3, 0.5F, 5, small::two, &s,
                                kinds::wide{{1, 2, 3, 4, 5}}, -4L);
  static_assert(std::is_trivially_copyable_v<decltype(bound)>);
  using cede::detail::compiler;
  const cede::detail::kernel_entry& e =
      cede::detail::entry_for<std::remove_const_t<decltype(bound)>, compiler::host, true>(
          bound, {.grid = 1, .block = 256});
  REQUIRE(e.cuda != nullptr);
  REQUIRE(e.cuda->split);
  REQUIRE(e.cuda->parameters.size() == 10);
  CHECK(e.bytes <= sizeof bound);
  const auto at = [&]<class T>(std::size_t i, T) {
    T value;
    std::memcpy(&value, reinterpret_cast<const char*>(&bound) + e.cuda->parameters[i],
                sizeof value);
    CHECK(e.cuda->parameters[i] + sizeof value <= e.bytes);
    return value;
  };
  CHECK(at(0, &out) == &out);
  CHECK(at(1, int()) == 7);
  CHECK(at(2, 0ULL) == ~0ULL);
  CHECK(at(3, float()) == 3.0F);
  CHECK(at(4, double()) == 0.5);
  CHECK(at(5, bool()) == true);
  CHECK(at(6, short()) == 2);
  CHECK(at(7, &s) == &s);
  CHECK(at(8, kinds::wide()).of[4] == 5.0);
  CHECK(at(9, static_cast<signed char>(0)) == -4);
}

TEST_CASE("a wrong number of arguments, and one of another kind, are refused in a sentence") {
  const auto& k = compiled_kinds();
  CHECK(refused([&] { static_cast<void>(cede::bind(k.none, 1)); }) ==
        "launch of deep::none: 1 arguments were passed, the kernel takes 0 (none); pass these (to "
        "an adapter: cede::bind)");
  CHECK(
      refused([&] { static_cast<void>(cede::bind(k.all, nullptr, 2)); })
          .starts_with("launch of every: 2 arguments were passed, the kernel takes 10 (a pointer, "
                       "a signed integer of 4 bytes, an unsigned integer of 8 bytes, a "
                       "floating-point number of 4 bytes, a floating-point number of 8 bytes, a "
                       "bool, a signed integer of 2 bytes, a pointer, an object of 40 bytes, a "
                       "signed integer of 1 bytes);"));
  struct narrow {
    float of[5];
  };
  const auto nine = [&](auto wide) {
    return refused([&] {
      static_cast<void>(cede::bind(k.all, nullptr, 1, 2, 3, 4, true, 6, nullptr, wide, 9));
    });
  };
  CHECK(nine(kinds::wide{}) == "nothing was thrown");
  CHECK(nine(narrow{}) ==
        "launch of every: argument 9 is an object of 20 bytes, the kernel takes an object of 40 "
        "bytes there; pass that");
  CHECK(nine(1).find("argument 9 is a number") != std::string::npos);
}

TEST_CASE("the code for a launch follows its shape, its traits are those that were named") {
  const auto k = cede::compile(
      source(mirror), {.name = "mirror", .traits = {.persistent_safe = true, .independent = true}});
  const auto bound = cede::bind(k, nullptr, nullptr, 5);
  using B = std::remove_const_t<decltype(bound)>;
  using cede::detail::compiler;
  const auto bound_for = [&](const cede::shape& s) {
    return cede::detail::entry_for<B, compiler::host, true>(bound, s).traits.max_threads;
  };
  CHECK(bound_for({.block = 1}) == 256);
  CHECK(bound_for({.block = {16, 16}}) == 256);
  CHECK(bound_for({.block = 257}) == 512);
  CHECK(bound_for({.block = {8, 8, 9}}) == 1024);
  CHECK(bound_for({.block = std::uint64_t{1} << 40U}) == 1024);
  const auto& t = cede::detail::entry_for<B, compiler::host, true>(bound, {}).traits;
  CHECK(!t.native);
  CHECK(t.independent);
  CHECK(!t.whole);
}

TEST_CASE("on the host device there is no code of it, and that is said") {
  cede::scheduler cpu{cede::host_device{}};
  auto train = cpu.workload({.name = "train", .priority = cede::best_effort});
  cede::stream t = train.stream();
  const auto& k = compiled_kinds();
  CHECK(refused([&] { t.launch({.grid = 1}, k.none); }).find("deep::none has no host code") !=
        std::string::npos);
  CHECK(refused([&] {
          cede::preemptible job{{.grid = 1}, k.none, {}, cede::host_device{}};
        }).find("deep::none has no host code") != std::string::npos);
  // Unbound, an adapter has no arguments to give.
  CHECK(refused([&] {
          cede::preemptible job{{.grid = 1}, k.all, {}, cede::host_device{}};
        }).find("0 arguments were passed") != std::string::npos);
}
