// SPDX-License-Identifier: Apache-2.0
// Decides from files which workloads belong together; see --help.
#include "program.hpp"

int main(int argc, char** argv) { return plan::program({argv + 1, argv + argc}); }
