// SPDX-License-Identifier: Apache-2.0
// The other translation unit: the same template, another function of the same name.
#include "units.hpp"

#include <cede/cede.hpp>

#define CEDE_TEST_NUMBER 2

// clang-format off: the order is the point
#include <cede/port/begin.hpp>
#include "text.hpp"
#include <cede/port/end.hpp>
// clang-format on

told second() {
  using namespace cede::detail;
  const auto shared = cede::bind(cede::body<shared_kernel<float>>, nullptr, 3);
  const auto own = cede::bind(cede::body<own_kernel>, nullptr);
  const auto entry = [](const auto& body, unsigned threads) {
    using B = std::remove_cvref_t<decltype(body)>;
    return &entry_for<B, this_compiler, true>(body, {.grid = 4, .block = threads});
  };
  return {entry(shared, 200), entry(shared, 513), entry(own, 1)};
}
