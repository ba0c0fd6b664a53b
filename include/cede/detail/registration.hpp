// SPDX-License-Identifier: Apache-2.0
// Turns a body type into a kernel_entry and enters it into the program's list before main runs, so
// that a scheduler can load all device code when it is made and nothing has to be loaded later.
#pragma once

#include <cede/body.hpp>
#include <cede/config.hpp>
#include <cede/device.hpp>

#include <atomic>

CEDE_BEGIN_NAMESPACE

namespace detail {

/// Which compiler instantiates a template. A parameter of everything that differs between the two,
/// so that a program made of both kinds of translation unit has two functions, not two versions of
/// one.
enum class compiler : bool { host, nvcc };
inline constexpr compiler this_compiler = CEDE_NVCC ? compiler::nvcc : compiler::host;

/// Head of the list of all entries of this program or shared library.
inline std::atomic<kernel_entry*>& entry_list() {
  static std::atomic<kernel_entry*> head{nullptr};
  return head;
}

inline bool add_entry(kernel_entry& e) {
  e.next = entry_list().load();
  while (!entry_list().compare_exchange_weak(e.next, &e)) {
  }
  return true;
}

template <class B>
void run_on_host(const void* body, block b) {
  (*static_cast<const B*>(body))(b);
}

/// The device code of a body; specialised where nvcc compiles (detail/cuda_kernels.hpp).
template <class B, compiler By, bool Preemptible>
struct device_code {
  static const cuda_kernels* get() { return nullptr; }
};

/// `Preemptible` = false keeps the forms a body forbids from being instantiated.
template <class B, compiler By, bool Preemptible>
struct registration {
  static kernel_entry make() {
    kernel_entry e;
    if constexpr (requires { B::name(); }) {
      e.name = B::name();
    } else {
      e.name = type_name<B>();
    }
    e.traits = traits_of<B>();
    e.bytes = sizeof(B);
    e.align = alignof(B);
    e.state_bytes = trait_state_bytes<B>();
    if constexpr (!device_lambda<B> && !requires { B::device_only; }) e.host_run = &run_on_host<B>;
    e.cuda = device_code<B, By, Preemptible>::get();
    return e;
  }
  static kernel_entry& entry() {
    static kernel_entry e = make();
    return e;
  }
  static inline const bool entered = add_entry(entry());
};

/// The entry of a body type. Naming `entered` makes the compiler emit its initialiser.
template <class B, compiler By, bool Preemptible>
const kernel_entry& entry_of() {
  (void)registration<B, By, Preemptible>::entered;
  return registration<B, By, Preemptible>::entry();
}

/// The entry a launch of this body uses: of its type, unless the body itself chooses by shape.
template <class B, compiler By, bool Preemptible>
const kernel_entry& entry_for(const B& body, const shape& s) {
  if constexpr (requires { body.template entry<By, Preemptible>(s); }) {
    return body.template entry<By, Preemptible>(s);
  } else {
    return entry_of<B, By, Preemptible>();
  }
}

}  // namespace detail

CEDE_END_NAMESPACE
