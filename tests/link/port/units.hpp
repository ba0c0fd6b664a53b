// SPDX-License-Identifier: Apache-2.0
// What the two translation units tell the program.
#pragma once

#include <cede/device.hpp>

struct told {
  const cede::detail::kernel_entry* shared_256;
  const cede::detail::kernel_entry* shared_1024;
  const cede::detail::kernel_entry* own;
};
told first();
told second();

/// Binds (double, long, char) to a kernel that takes (float, int, short); what came out.
struct converted {
  float a;
  int b;
  short c;
  unsigned bytes;
};
converted convert();
