// SPDX-License-Identifier: Apache-2.0
// What a refusal says.
#pragma once

#include <cede/error.hpp>

#include <string>

namespace cede_test {

/// The sentence of the `invalid_argument` that `f` throws.
template <class F>
std::string sentence_of(F&& f) {
  try {
    f();
  } catch (const cede::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Whether a sentence has `part` in it.
inline bool says(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

}  // namespace cede_test
