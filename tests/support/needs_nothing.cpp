// SPDX-License-Identifier: Apache-2.0
#include "support/skip.hpp"

std::string cede_test::missing() { return {}; }
