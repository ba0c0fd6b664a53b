// SPDX-License-Identifier: Apache-2.0
// The same library by nvcc.
#include "library.cpp"
