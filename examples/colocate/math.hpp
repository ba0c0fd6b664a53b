// SPDX-License-Identifier: Apache-2.0
// Arithmetic for bodies whose results must not depend on which kernel they were compiled into:
// nothing is left for a compiler to contract.
#pragma once

#include <cede/config.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>

// For device code alone: host compilers do not know the pragma.
#if defined(__CUDA_ARCH__)
#define COLOCATE_UNROLL _Pragma("unroll")
#define COLOCATE_UNROLL_BY_8 _Pragma("unroll 8")
#else
#define COLOCATE_UNROLL
#define COLOCATE_UNROLL_BY_8
#endif

namespace colocate {

/// Four floats that travel as one: a 128-bit access on the CUDA device.
struct alignas(16) quad {
  float v[4];
};

/// a * b + c: one rounding on the CUDA device, two on the host.
CEDE_BODY inline float multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return a * b + c;
#endif
}

/// a * b, rounded whatever is done with it next.
CEDE_BODY inline float multiply(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

CEDE_BODY inline float larger(float a, float b) { return a < b ? b : a; }

/// e^x within 3e-7 of its value; 0 below -87, e^88 above 88.
CEDE_BODY inline float exponential(float x) {
  if (x < -87.0F) return 0.0F;
  if (x > 88.0F) x = 88.0F;
  // x = n ln 2 + r: adding and taking away 1.5 * 2^23 rounds to the nearest whole n.
  constexpr float shift = 12582912.0F;
  const float n = multiply_add(x, 1.44269504F, shift) - shift;
  float r = multiply_add(n, -0.693359375F, x);
  r = multiply_add(n, 2.12194440e-4F, r);
  float p = 1.98756915e-4F;
  p = multiply_add(p, r, 1.39819995e-3F);
  p = multiply_add(p, r, 8.33345190e-3F);
  p = multiply_add(p, r, 4.16657959e-2F);
  p = multiply_add(p, r, 1.66666655e-1F);
  p = multiply_add(p, r, 5.00000012e-1F);
  p = multiply_add(p, multiply(r, r), r) + 1.0F;
  const std::uint32_t bits = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) + 127) << 23U;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return multiply(p, scale);
}

/// The bits of a float as a number.
CEDE_BODY inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

}  // namespace colocate
