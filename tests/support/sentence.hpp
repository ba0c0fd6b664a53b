// SPDX-License-Identifier: Apache-2.0
// What a refusal says.
#pragma once

#include <cede/error.hpp>

#include <string>

namespace cede_test {

/// The sentence of the error that `f` throws.
template <class Error = cede::invalid_argument, class F>
std::string sentence_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// Whether a sentence has `part` in it.
inline bool says(const std::string& sentence, const std::string& part) {
  return sentence.find(part) != std::string::npos;
}

}  // namespace cede_test
