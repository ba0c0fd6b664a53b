// SPDX-License-Identifier: Apache-2.0
// What each library offers; the same source is built as several libraries, by both compilers. The
// table has types of the language alone, so that a program need not know cede to use it.
#pragma once

struct library {
  const char* compiler;
  /// Where this library finds the registry of the process.
  const void* (*registry)();
  /// Makes a scheduler on a host device and enters it as the one of CUDA device `number`; keeps it.
  void (*enter)(int number);
  void (*leave)();
  /// Opens the scheduler of CUDA device `number` and adds a workload to it; returns how many it
  /// has. -1: refused, `why` says why.
  int (*open)(int number, const char** why);
  /// Runs a body over `tiles` tiles on a stream of a `cede::scheduler`; returns the sum it
  /// computed.
  int (*run)(void* scheduler, int tiles);
  /// Lets cede throw.
  void (*fail)();
};
