// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer slows this program down ten times or more: long sweeps then take a part.
#pragma once

namespace cede_test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace cede_test
