// SPDX-License-Identifier: Apache-2.0
// What a user's first file looks like. It runs on the host device, whichever compiler made it.
#include <cede/cede.hpp>

#include <cstdio>
#include <vector>

struct square {
  int* out;
  CEDE_BODY void operator()(cede::block b) const {
    if (b.thread_rank() == 0) out[b.index().x] = static_cast<int>(b.index().x * b.index().x);
  }
};

int main() {
  std::vector<int> out(100);
  cede::scheduler cpu{cede::host_device{.sms = 2}};
  cede::stream t = cpu.workload({.name = "train", .priority = cede::best_effort}).stream();
  t.launch({.grid = out.size(), .block = 32}, square{out.data()});
  t.synchronize();
  std::printf("cede %d.%d.%d by %s: 99 * 99 = %d\n", CEDE_VERSION_MAJOR, CEDE_VERSION_MINOR,
              CEDE_VERSION_PATCH, CEDE_NVCC ? "nvcc" : "g++", out[99]);
  return out[99] == 99 * 99 ? 0 : 1;
}
