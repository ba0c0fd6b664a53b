// SPDX-License-Identifier: Apache-2.0
// What being preemptible costs, and how soon preemptible work leaves: every body of the suite, in
// three sizes, native, sliced, gated and persistent. --curve[=NAME] prints how one is traded for
// the other, in place of the benchmarks.
#include "measure/program.cuh"
#include "measure/suite.hpp"

#include <cstdio>
#include <exception>
#include <string>

namespace {

int print_curves(const std::string& only) {
  bool found = false;
  std::printf(
      "body,size,form,workers_per_sm,tiles_per_claim,chunk,overlap,ratio_to_native,"
      "turnaround_p50_us,turnaround_p99_us,yields\n");
  for (const bench::suite_body& body : bench::sorted_suite()) {
    if (!only.empty() && body.name != only) continue;
    found = true;
    try {
      body.print_curve();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s: %s\n", body.name.c_str(), e.what());
      return 1;
    }
  }
  if (found) return 0;
  std::fprintf(stderr, "There is no body %s; --curve without a name prints all.\n", only.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  const bool curve = first == "--curve" || first.starts_with("--curve=");
  if (first == "--bodies") {
    for (const bench::suite_body& body : bench::sorted_suite()) std::puts(body.name.c_str());
    return 0;
  }
  if (!bench::have_device()) return 1;
  if (curve) return print_curves(first.size() > 8 ? first.substr(8) : "");
  for (const bench::suite_body& body : bench::sorted_suite()) body.add_rows();
  return bench::run_benchmarks(argc, argv);
}
