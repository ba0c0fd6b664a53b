// SPDX-License-Identifier: Apache-2.0
// Shared memory on the host device.
#include <cede/detail/host_shared.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "host_tile_fixture.hpp"

namespace {

using namespace cede_test;
using cede::detail::shared_arena;

}  // namespace

TEST_CASE("static shared objects are told apart by type and tag, and aligned as the type asks") {
  struct alignas(256) wide {
    int value;
  };
  tile_runner runner(stack_bytes, shared_bytes);
  run_well(runner,
           [&](block b) {
             int& a = b.shared<int, 0>();
             int& c = b.shared<int, 1>();
             auto& w = b.shared<wide>();
             if (b.thread_rank() == 0) {
               a = 1;
               c = 2;
               w.value = 3;
             }
             b.sync();
             CHECK(&a != &c);
             CHECK(a == 1);
             CHECK(c == 2);
             CHECK(w.value == 3);
             CHECK(reinterpret_cast<std::uintptr_t>(&w) % 256 == 0);
             CHECK(&b.shared<int, 0>() == &a);
           },
           {8, 1, 1});
}

TEST_CASE("shared memory starts every tile filled with 0xff, whatever the tile before left") {
  tile_runner runner(stack_bytes, shared_bytes);
  for (int tile = 0; tile < 3; ++tile) {
    run_well(
        runner,
        [&](block b) {
          auto& s = b.shared<int[4]>();
          auto* d = b.dynamic_shared<unsigned char>();
          if (b.thread_rank() == 0) {
            for (int v : s) CHECK(v == -1);
            for (int i = 0; i < 100; ++i) CHECK(d[i] == 0xff);
          }
          b.sync();
          s[b.thread_rank()] = 5;
          d[b.thread_rank()] = 7;
        },
        {4, 1, 1}, 100);
  }
}

TEST_CASE("dynamic shared memory is aligned to 1024 bytes and apart from static objects") {
  tile_runner runner(stack_bytes, shared_bytes);
  run_well(
      runner,
      [&](block b) {
        auto* d = b.dynamic_shared<char>();
        auto& s = b.shared<char[64]>();
        CHECK(reinterpret_cast<std::uintptr_t>(d) % 1024 == 0);
        CHECK((s >= d + 333 || s + 64 <= d));
        std::memset(d, 1, 333);
        std::memset(s, 2, 64);
        CHECK(d[332] == 1);
      },
      {1, 1, 1}, 333);
}

TEST_CASE("a tile may have exactly the shared memory of the device and no byte more") {
  tile_runner runner(stack_bytes, 4096);
  const auto with_static = [](block b) { b.shared<char[1096]>()[1095] = 1; };
  CHECK(run(runner, with_static, {1, 1, 1}, 3000) == nullptr);
  const std::string refused = message(run(runner, with_static, {1, 1, 1}, 3001));
  CHECK(refused.find("4097 bytes of shared memory, the device has 4096") != std::string::npos);
  CHECK(run(runner, [](block) {}, {1, 1, 1}, 4096) == nullptr);
  CHECK(run(runner, [](block) {}, {1, 1, 1}, 4097) != nullptr);
  CHECK(run(runner, with_static, {1, 1, 1}, 3000) == nullptr);
}

TEST_CASE("the arena keeps an object's address for the whole tile") {
  shared_arena arena(1000);
  arena.begin(0);
  static constexpr char a = 0, b = 0;
  void* const first = arena.named(&a, 100, 8);
  void* const second = arena.named(&b, 100, 8);
  CHECK(first != second);
  CHECK(arena.named(&a, 100, 8) == first);
  arena.begin(0);
  CHECK(arena.named(&b, 100, 8) == first);
}

#if defined(CEDE_ASAN)
TEST_CASE("the address sanitizer knows where shared objects end") {
  tile_runner runner(stack_bytes, shared_bytes);
  run_well(
      runner,
      [&](block b) {
        auto* s = &b.shared<char[100]>()[0];
        auto* t = &b.shared<char[50], 1>()[0];
        auto* d = b.dynamic_shared<char>();
        CHECK_FALSE(__asan_address_is_poisoned(s + 99));
        CHECK(__asan_address_is_poisoned(s + 100));
        CHECK_FALSE(__asan_address_is_poisoned(t + 49));
        CHECK(__asan_address_is_poisoned(t + 50));
        CHECK_FALSE(__asan_address_is_poisoned(d + 332));
        CHECK(__asan_address_is_poisoned(d + 333));
      },
      {1, 1, 1}, 333);
  run_well(runner, [](block b) { CHECK(__asan_address_is_poisoned(b.dynamic_shared<char>())); },
           {1, 1, 1});
}
#endif
