// SPDX-License-Identifier: Apache-2.0
// What of a ported kernel needs no nvcc: where its arguments lie, and binding bodies beforehand.
#include <cede/port/kernel.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <cstring>

namespace {

template <class T, class... Rest>
void addresses(const cede::detail::pack<T, Rest...>& p, const char* base, std::uint32_t* at) {
  *at = static_cast<std::uint32_t>(reinterpret_cast<const char*>(&p.first) - base);
  if constexpr (sizeof...(Rest) != 0) addresses(p.rest, base, at + 1);
}
template <class... A>
void check_offsets() {
  const cede::detail::pack<A...> p{};
  std::array<std::uint32_t, sizeof...(A)> real{};
  addresses(p, reinterpret_cast<const char*>(&p), real.data());
  CHECK(cede::detail::pack_offsets<A...>::value == real);
}

struct three {
  char bytes[3];
};
struct alignas(32) wide {
  char bytes[32];
};

struct adds {
  float* out;
  void operator()(cede::block, float a, int b) const { *out = a + static_cast<float>(b); }
};

}  // namespace

TEST_CASE("the offsets of a kernel's arguments are those the compiler chose") {
  CHECK(cede::detail::pack_offsets<>::value.empty());
  check_offsets<char>();
  check_offsets<char, double>();
  check_offsets<double, char>();
  check_offsets<char, short, int, long, float*>();
  check_offsets<long, char, char, int>();
  check_offsets<three, int, three, three>();
  check_offsets<char, wide, char, three, double>();
}

TEST_CASE("bind gives a body its arguments in the types it takes") {
  float out = 0;
  const auto b = cede::bind(adds{&out}, 2.5, 3L);
  static_assert(std::is_same_v<decltype(b.args.first), float>);
  static_assert(std::is_same_v<decltype(b.args.rest.first), int>);
  CHECK(b.args.first == 2.5F);
  CHECK(b.args.rest.first == 3);
}
