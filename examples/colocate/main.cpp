// SPDX-License-Identifier: Apache-2.0
// A latency-critical service and best-effort training share one device; see --help.
#include "program.hpp"

int main(int argc, char** argv) { return colocate::program({argv + 1, argv + argc}); }
