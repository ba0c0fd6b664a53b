// SPDX-License-Identifier: Apache-2.0
// Bodies: traits, arguments converted on the host, and what a body sees of its tile.
#include <cede/body.hpp>
#include <cede/detail/registration.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

namespace {

class fake_tile final : public cede::detail::host_tile {
 public:
  void sync() override { ++syncs; }
  void* shared(const void* key, std::size_t, std::size_t) override {
    keys[used == 0 || keys[used - 1] != key ? used++ : used - 1] = key;
    return storage;
  }
  void* dynamic_shared() override { return storage; }
  bool should_yield() override { return told; }
  [[nodiscard]] bool resumed() const override { return told; }
  [[nodiscard]] void* state(std::size_t) const override { return kept; }
  bool told = false;
  void* kept = nullptr;
  int syncs = 0;
  const void* keys[8] = {};
  int used = 0;
  alignas(16) unsigned char storage[64] = {};
};

cede::block first_thread(fake_tile& t) { return {{1, 2, 3}, {4, 5, 6}, {8, 4, 2}, {3, 1, 1}, t}; }

struct plain {
  void operator()(cede::block) const {}
};
struct keeps {
  struct state {
    int a[3];
  };
  static constexpr bool independent = true;
  void operator()(cede::block) const {}
};
struct declared {
  static constexpr bool native = true;
  static constexpr bool looks_back = true;
  static constexpr unsigned max_threads = 256;
  static constexpr unsigned min_blocks = 2;
  void operator()(cede::block) const {}
};
struct takes {
  double* out;
  void operator()(cede::block, int n, float a, double b) const {
    *out = n + static_cast<double>(a) + b;
  }
};
struct takes_anything {
  int* bytes;
  template <class T>
  void operator()(cede::block, T) const {
    *bytes = static_cast<int>(sizeof(T));
  }
};

}  // namespace

TEST_CASE("a body declares nothing by default") {
  constexpr cede::body_traits t = cede::traits_of<plain>();
  CHECK_FALSE(t.native);
  CHECK_FALSE(t.whole);
  CHECK_FALSE(t.looks_back);
  CHECK_FALSE(t.independent);
  CHECK(t.max_threads == 0);
}

TEST_CASE("traits are read from the body, and stay when arguments are bound") {
  constexpr cede::body_traits t = cede::traits_of<declared>();
  CHECK(t.native);
  CHECK(t.looks_back);
  CHECK(t.max_threads == 256);
  CHECK(t.min_blocks == 2);
  using bound = cede::detail::bound<declared, int>;
  CHECK(cede::traits_of<bound>().native);
  CHECK(cede::traits_of<bound>().max_threads == 256);
}

TEST_CASE("arguments are converted to the body's own parameter types") {
  double out = 0;
  const auto b = cede::detail::bind_body(takes{&out}, 3L, 0.5, 2);
  static_assert(std::is_trivially_copyable_v<decltype(b)>);
  fake_tile t;
  b(first_thread(t));
  CHECK(out == 5.5);
}

TEST_CASE("a body with a template call operator takes arguments as they are") {
  int bytes = 0;
  fake_tile t;
  cede::detail::bind_body(takes_anything{&bytes}, std::int16_t{4})(first_thread(t));
  CHECK(bytes == 2);
}

TEST_CASE("a block asks its tile about giving way, and finds its state there") {
  fake_tile t;
  CHECK_FALSE(first_thread(t).should_yield());
  CHECK_FALSE(first_thread(t).resumed());
  int kept = 7;
  t.told = true;
  t.kept = &kept;
  CHECK(first_thread(t).should_yield());
  CHECK(first_thread(t).resumed());
  CHECK(&first_thread(t).state<int>() == &kept);
}

TEST_CASE("what a body declares as its state stays when arguments are bound") {
  CHECK(cede::detail::trait_state_bytes<plain>() == 0);
  CHECK(cede::detail::trait_state_bytes<keeps>() == 12);
  CHECK(cede::detail::trait_state_bytes<cede::detail::bound<keeps, int>>() == 12);
  CHECK(cede::detail::entry_of<keeps, cede::detail::this_compiler, true>().state_bytes == 12);
}

TEST_CASE("a block knows its tile and its thread") {
  fake_tile t;
  const cede::block b = first_thread(t);
  CHECK(b.index() == cede::index3{1, 2, 3});
  CHECK(b.grid() == cede::index3{4, 5, 6});
  CHECK(b.dim() == cede::index3{8, 4, 2});
  CHECK(b.thread_rank() == 3 + 8 * (1 + 4 * 1));
  CHECK(b.size() == 64);
  b.sync();
  CHECK(t.syncs == 1);
}

TEST_CASE("shared objects are told apart by type and tag; atomics return the value before") {
  fake_tile t;
  const cede::block b = first_thread(t);
  b.shared<int>() = 4;
  static_cast<void>(b.shared<int, 1>());
  static_cast<void>(b.shared<float>());
  CHECK(t.used == 3);
  CHECK(t.keys[0] != t.keys[1]);
  int n = 5;
  CHECK(b.atomic_add(&n, 2) == 5);
  CHECK(n == 7);
  CHECK(static_cast<void*>(b.dynamic_shared<double>()) == static_cast<void*>(t.storage));
}

TEST_CASE("a body's name is its type's") {
  CHECK(cede::detail::type_name<plain>().find("plain") != std::string_view::npos);
}
