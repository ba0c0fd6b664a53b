// SPDX-License-Identifier: Apache-2.0
// Besides its rows as a body, the product is held against cuBLAS at 4096 x 4096 x 4096.
#include "bodies/tensor_gemm.cuh"

#include "adapters/cublas.hpp"
#include "measure/body_rows.cuh"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

namespace bench {

template <>
struct native_extras<tensor_gemm_problem> {
  static void add(benchmark::State& state) {
    if (!cublas_product::available()) return;
    constexpr std::uint32_t n = 4096;
    constexpr std::size_t elements = std::size_t{n} * n;
    cuda_memory memory;
    tensor_gemm_problem problem(memory, n, n, n);
    native_launch<tensor_gemm> ours(problem.shape, problem.body);
    timer clock;
    cublas_product theirs(clock.stream());
    auto* c = memory.array<std::uint16_t>(elements);
    auto run_theirs = [&](int) { theirs.run(n, n, n, problem.body.a, problem.body.b, c); };
    auto run_ours = [&](int) { ours.plain(clock.stream()); };
    clock.time(run_theirs, 1, false);
    clock.time(run_ours, 1, false);
    compare(memory.read(problem.body.c, elements), memory.read(c, elements));

    const pair_times t = time_pairs([&] { return clock.time(run_theirs, 8, true); },
                                    [&] { return clock.time(run_ours, 8, true); }, pairs);
    constexpr double operations = 2.0 * n * n * n;
    state.counters["cublas_tflops"] = operations / t.first_us * 1e-6;
    state.counters["native_tflops"] = operations / t.second_us * 1e-6;
    state.counters["ratio_to_cublas"] = t.first_us / t.second_us;  // of speeds
  }

 private:
  static void compare(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float x = from_bfloat16(a[i]);
      const float y = from_bfloat16(b[i]);
      // Each is rounded to 8 bits of mantissa.
      if (!(std::fabs(x - y) <= 0.01F * std::fmax(1.0F, std::fabs(y)))) {
        throw std::runtime_error("the product differs from that of cuBLAS");
      }
    }
  }
};

}  // namespace bench

BENCH_BODY(bench::tensor_gemm_problem);
