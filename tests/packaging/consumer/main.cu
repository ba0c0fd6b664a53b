// SPDX-License-Identifier: Apache-2.0
// The same program by nvcc, with everything that runs on a GPU.
#include "main.cpp"
