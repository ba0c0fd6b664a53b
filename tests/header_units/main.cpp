// SPDX-License-Identifier: Apache-2.0
// That the program links is the test: a missing include or a definition that is not inline stops
// it.
int main() { return 0; }
