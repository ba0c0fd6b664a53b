// SPDX-License-Identifier: Apache-2.0
// Kernels compiled at run time, on a GPU: the same text, compiled and launched by plain NVRTC and
// through cede under random raises, gives the same bits.
#include <support/gpu.hpp>

#include <cede/cuda_usage.hpp>
#include <cede/rtc.hpp>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "under_raises.cuh"

using namespace test;

namespace {

/// The kernels of port_test.cu, behind the headers that they need.
cede::rtc_source source() {
  std::ifstream file(CEDE_SOURCE_ROOT "/tests/gpu/port_kernels.hpp");
  REQUIRE_MESSAGE(file, "tests/gpu/port_kernels.hpp is not there");
  return {.text =
              "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>\n"
              "#include <cub/block/block_reduce.cuh>\n" +
              std::string(std::istreambuf_iterator<char>(file), {}),
          .name = "port_kernels.hpp"};
}

std::string architecture() {
  int major = 0;
  int minor = 0;
  CUDA_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  CUDA_OK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
  return cede::detail::architecture_for(major, minor);
}

/// A kernel of the text as NVRTC makes it without cede; launched on the default stream.
class plain_kernel {
 public:
  explicit plain_kernel(const std::string& name) {
    const cede::rtc_source s = source();
    cede::detail::rtc_program program(s.text, s.name, s.headers);
    program.ask_for(name);
    std::vector<std::string> options{"--std=c++20", "--gpu-architecture=" + architecture()};
    for (const std::string& f : cede::detail::include_folders({}, cede::detail::own_folder(),
                                                              cede::detail::cuda_folders())) {
      options.push_back("--include-path=" + f);
    }
    REQUIRE_MESSAGE(program.compile(options) == NVRTC_SUCCESS, program.log());
    const std::string code = program.machine_code();
    const auto& calls = cede::detail::library_calls();
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUDA_OK(cudaFree(nullptr));
    REQUIRE(calls.load(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0) ==
            CUDA_SUCCESS);
    REQUIRE(calls.kernel(&kernel, library, program.symbol(name).c_str()) == CUDA_SUCCESS);
    REQUIRE(calls.function(&function_, kernel) == CUDA_SUCCESS);
  }
  template <class... Args>
  void operator()(dim3 grid, dim3 block, std::size_t shared, Args... args) const {
    std::array<void*, sizeof...(Args)> all{&args...};
    CUlaunchConfig c{};
    c.gridDimX = grid.x;
    c.gridDimY = grid.y;
    c.gridDimZ = grid.z;
    c.blockDimX = block.x;
    c.blockDimY = block.y;
    c.blockDimZ = block.z;
    c.sharedMemBytes = static_cast<unsigned>(shared);
    REQUIRE(cede::detail::driver().launch_kernel(&c, function_, all.data(), nullptr) ==
            CUDA_SUCCESS);
    CUDA_OK(cudaStreamSynchronize(nullptr));
  }

 private:
  CUfunction function_ = nullptr;
};

struct weights {
  unsigned of[200];
};

/// All kernels, compiled once: undeclared, and as their author would declare them.
struct kernels {
  cede::rtc_kernel transpose, transpose_safe, mirror, mirror_safe, sums, sums_safe, tiles,
      tiles_safe, stencil, stencil_safe, votes, weigh, mark, mark_wide, mark_tight;
};
const kernels& compiled() {
  static const kernels k = [] {
    constexpr cede::kernel_traits safe{.persistent_safe = true};
    constexpr cede::kernel_traits bounded{
        .max_threads = 256, .min_blocks = 2, .persistent_safe = true};
    const auto made = cede::compile_all(
        source(),
        {{"transpose<float>"},
         {.name = "transpose<float>", .traits = bounded},
         {"mirror"},
         {.name = "mirror", .traits = safe},
         {"block_sums"},
         {.name = "block_sums", .traits = safe},
         {"tile_sums"},
         {.name = "tile_sums", .traits = safe},
         {"stencil"},
         {.name = "stencil", .traits = safe},
         {"votes"},
         {"weigh"},
         {.name = "mark", .signature = "void(unsigned*)"},
         {.name = "mark", .signature = "void(unsigned long long*)"},
         {.name = "mark", .signature = "void(unsigned*)", .traits = {.max_threads = 64}}});
    return kernels{made[0], made[1], made[2],  made[3],  made[4],  made[5],  made[6], made[7],
                   made[8], made[9], made[10], made[11], made[12], made[13], made[14]};
  }();
  return k;
}

}  // namespace

TEST_CASE("rtc: a templated tiled transpose, 2-D") {
  const int width = 3001;
  const int height = static_cast<int>(sized(2000)) + 7;
  const dim3 grid((width + 15) / 16, (height + 15) / 16);
  const dim3 block(16, 16);
  const auto n = static_cast<std::size_t>(width) * static_cast<std::size_t>(height);
  buffer<float> in(random_values<float>(n)), out(n);
  plain_kernel("transpose<float>")(grid, block, 0, out.get(), in.get(), width, height);
  const auto expected = out.read();
  const auto& k = compiled();
  both_forms({.grid = grid, .block = block},
             cede::bind(k.transpose, out.get(), in.get(), width, height),
             cede::bind(k.transpose_safe, out.get(), in.get(), width, height), out, expected);
}

TEST_CASE("rtc: early returns before barriers, dynamic shared memory up to the device's limit") {
  const unsigned n = sized(3000037U);
  const unsigned threads = 96;
  const unsigned tiles = (n + threads - 1) / threads;
  const std::size_t shared = threads * sizeof(unsigned);
  buffer<unsigned> in(random_values<unsigned>(n)), out(n);
  plain_kernel("mirror")(tiles, threads, shared, out.get(), in.get(), n);
  const auto expected = out.read();
  const auto& k = compiled();
  both_forms({.grid = tiles, .block = threads, .shared = shared},
             cede::bind(k.mirror, out.get(), in.get(), n),
             cede::bind(k.mirror_safe, out.get(), in.get(), n), out, expected);

  int most = 0;
  CUDA_OK(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0));
  for (const cede::form how : {cede::form::gated, cede::form::persistent}) {
    for (const int less : {0, 16, 40}) {
      out.clear();
      cede::preemptible job{
          {.grid = tiles, .block = threads, .shared = static_cast<std::size_t>(most - less)},
          cede::bind(k.mirror_safe, out.get(), in.get(), n),
          {.form = how}};
      job.launch();
      REQUIRE(job.wait_for(patience()));
      CHECK(out.read() == expected);
    }
  }
}

TEST_CASE("rtc: a CUB block reduction") {
  const unsigned tiles = sized(40000);
  buffer<float> in(random_values<float>(tiles * 128UL)), out(tiles);
  plain_kernel("block_sums")(tiles, 128, 0, out.get(), in.get());
  const auto expected = out.read();
  const auto& k = compiled();
  both_forms({.grid = tiles, .block = 128}, cede::bind(k.sums, out.get(), in.get()),
             cede::bind(k.sums_safe, out.get(), in.get()), out, expected);
}

TEST_CASE("rtc: reductions over tiles of cooperative groups") {
  const unsigned tiles = sized(40000);
  buffer<unsigned> in(random_values<unsigned>(tiles * 256UL)), out(tiles * 16UL);
  plain_kernel("tile_sums")(tiles, 256, 0, out.get(), in.get());
  const auto expected = out.read();
  const auto& k = compiled();
  both_forms({.grid = tiles, .block = 256}, cede::bind(k.tiles, out.get(), in.get()),
             cede::bind(k.tiles_safe, out.get(), in.get()), out, expected);
}

TEST_CASE("rtc: a 3-D stencil through shared memory") {
  const int nx = 264;
  const int ny = 132;
  const int nz = static_cast<int>(sized(160)) / 4 * 4;
  const dim3 grid(nx / 8, ny / 4, nz / 4);
  const dim3 block(8, 4, 4);
  const auto n = static_cast<std::size_t>(nx) * ny * static_cast<std::size_t>(nz);
  buffer<unsigned> in(random_values<unsigned>(n)), out(n);
  plain_kernel("stencil")(grid, block, 0, out.get(), in.get(), nx, ny, nz);
  const auto expected = out.read();
  const auto& k = compiled();
  both_forms({.grid = grid, .block = block}, cede::bind(k.stencil, out.get(), in.get(), nx, ny, nz),
             cede::bind(k.stencil_safe, out.get(), in.get(), nx, ny, nz), out, expected);
}

TEST_CASE("rtc: barriers with results, a large argument, arguments converted") {
  const unsigned tiles = sized(40000);
  const cede::shape shape{.grid = tiles, .block = 256};
  const auto& k = compiled();
  {
    buffer<unsigned> in(random_values<unsigned>(tiles * 256UL)), out(tiles);
    plain_kernel("votes")(tiles, 256, 0, out.get(), in.get());
    const auto expected = out.read();
    under_raises(shape, cede::bind(k.votes, out.get(), in.get()), cede::form::gated, out, expected);
  }
  weights w;
  for (unsigned i = 0; i < 200; ++i) w.of[i] = mix(i);
  buffer<unsigned> out(tiles * 256UL);
  plain_kernel("weigh")(tiles, 256, 0, out.get(), w, short{7});
  const auto expected = out.read();
  const auto body = cede::bind(k.weigh, out.get(), w, 7.5);
  under_raises(shape, body, cede::form::gated, out, expected);
  CHECK(cede::usage_of(body, shape, cede::form::gated).local_bytes == 0);
}

TEST_CASE("rtc: whole, in slices, on streams of both sides, loaded beforehand or late") {
  const unsigned tiles = sized(20000);
  buffer<unsigned> narrow(tiles);
  buffer<unsigned long long> wide(tiles);
  std::vector<unsigned> once(tiles);
  std::vector<unsigned long long> thrice(tiles);
  for (unsigned i = 0; i < tiles; ++i) {
    once[i] = 1 + i;
    thrice[i] = 3ULL * (2 + i);
  }
  const cede::shape shape{.grid = tiles, .block = 1};
  const auto& k = compiled();
  k.mark.load();
  cede::sliceable parts{shape, cede::bind(k.mark, narrow.get())};
  raw_stream s;
  for (auto p : parts.slices({.count = 7})) parts.launch(s.s, p);
  s.finish();
  CHECK(narrow.read() == once);

  cede::scheduler gpu;
  auto serve = gpu.workload({.name = "serve", .priority = cede::latency_critical});
  auto train = gpu.workload({.name = "train", .priority = cede::best_effort});
  cede::stream front = serve.stream();
  cede::stream back = train.stream();
  back.launch(shape, k.mark_wide, wide.get());
  back.launch(shape, {.form = cede::form::gated, .chunk = 500}, k.mark_wide, wide.get());
  back.launch(shape, {.form = cede::form::sliced, .slices = 5}, k.mark_wide, wide.get());
  narrow.clear();
  front.launch(shape, k.mark, narrow.get());
  REQUIRE(front.synchronize_for(patience()));
  REQUIRE(back.synchronize_for(patience()));
  CHECK(narrow.read() == once);
  CHECK(wide.read() == thrice);

  // A text that comes while the scheduler runs.
  const cede::rtc_kernel late = cede::compile(
      {.text = "__global__ void late(unsigned* p) { p[blockIdx.x] += blockIdx.x + 1; }"}, {"late"});
  narrow.clear();
  back.launch(shape, late, narrow.get());
  REQUIRE(back.synchronize_for(patience()));
  CHECK(narrow.read() == once);
}

TEST_CASE("rtc: wrong arguments, shapes and forms are refused; nothing is launched") {
  const auto& k = compiled();
  buffer<unsigned> out(8);
  cede::scheduler gpu;
  auto train = gpu.workload({.name = "train", .priority = cede::best_effort});
  cede::stream t = train.stream();
  CHECK_THROWS_AS(t.launch({.grid = 8}, k.mark), cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 8}, k.mark, out.get(), 1), cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 8}, k.mark, 5), cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 8, .block = 65}, k.mark_tight, out.get()),
                  cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 8, .block = 2000}, k.mark, out.get()), cede::invalid_argument);
  CHECK_THROWS_AS(t.launch({.grid = 8}, {.form = cede::form::persistent}, k.mark, out.get()),
                  cede::not_supported);
  CHECK_THROWS_AS((cede::preemptible{{.grid = 8}, k.mark}), cede::invalid_argument);
  REQUIRE(t.synchronize_for(patience()));
  CHECK(out.read() == std::vector<unsigned>(8));
}

TEST_CASE("rtc: launch bounds, stated or chosen by the shape") {
  const auto& k = compiled();
  buffer<unsigned> out(8);
  const auto free = cede::bind(k.mark, out.get());
  for (const unsigned threads : {1U, 256U, 257U, 512U, 513U, 1024U}) {
    const unsigned bound = threads <= 256 ? 256 : threads <= 512 ? 512 : 1024;
    const auto u = cede::usage_of(free, {.grid = 8, .block = threads}, cede::form::gated);
    CHECK(u.max_threads == bound);
    CHECK(u.registers > 0);
    CHECK(u.local_bytes == 0);
  }
  const auto tight = cede::bind(k.mark_tight, out.get());
  CHECK(cede::usage_of(tight, {.grid = 8, .block = 64}, cede::form::whole).max_threads == 64);
}

TEST_CASE("rtc: a kernel declared whole has one slice and is not preempted") {
  const cede::rtc_kernel k = cede::compile(
      {.text = "__global__ void fill(unsigned* p) { p[blockIdx.x] = blockIdx.x + gridDim.x; }"},
      {.name = "fill", .traits = {.whole = true}});
  buffer<unsigned> out(50);
  const auto body = cede::bind(k, out.get());
  cede::sliceable one{{.grid = 50}, body};
  CHECK_THROWS_AS(static_cast<void>(one.slices({.count = 2})), cede::not_supported);
  raw_stream s;
  one.launch(s.s);
  s.finish();
  CHECK(out.read().at(49) == 99);
  CHECK_THROWS_AS((cede::preemptible{{.grid = 50}, body}), cede::not_supported);
}

TEST_CASE("rtc: code for another GPU is refused with the text's name") {
  int major = 0;
  CUDA_OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  const cede::rtc_kernel k = cede::compile({.text = "__global__ void k() {}",
                                            .name = "other.cu",
                                            .architecture = major == 8 ? "sm_90" : "sm_80"},
                                           {"k"});
  try {
    k.load();
    FAIL("nothing was thrown");
  } catch (const cede::device_error& e) {
    CHECK(std::string(e.what()).find("rtc: other.cu, compiled for sm_") == 0);
  }
}
