// SPDX-License-Identifier: Apache-2.0
// What a user's first file looks like; it runs on the host device.
#include <cede/cede.hpp>

#include <cstdio>

int main() {
  std::printf("cede %d.%d.%d\n", CEDE_VERSION_MAJOR, CEDE_VERSION_MINOR, CEDE_VERSION_PATCH);
  return 0;
}
