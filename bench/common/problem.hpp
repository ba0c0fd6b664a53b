// SPDX-License-Identifier: Apache-2.0
// What all problems share: a size, a shape, outputs that can be reset, compared and kept.
//
// A problem P of the suite has
//   P::name, P::body_type                      how rows of a record are called; the body's type
//   P(memory&, problem_size)                   allocates and fills, from a fixed seed
//   shape, body                                what to launch
//   reset()                                    before a launch whose result is looked at
//   keep(), differences()                      bit by bit against an earlier result
//   error(), P::tolerance                      against a reference computed on the CPU; 0 = exact
#pragma once

#include "common/memory.hpp"

#include <cede/body.hpp>
#include <cede/shape.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

/// `tiny`: a few tiles, for CPU threads and slow tools, odd extents where the body allows them.
/// `small`: less than one wave of an H200; `medium`: 50 to 200 us there; `large`: 1 to 5 ms.
enum class problem_size { tiny, small, medium, large };

inline const char* name_of(problem_size s) {
  switch (s) {
    case problem_size::tiny:
      return "tiny";
    case problem_size::small:
      return "small";
    case problem_size::medium:
      return "medium";
    default:
      return "large";
  }
}

template <class T>
T choose(problem_size s, T tiny, T small, T medium, T large) {
  switch (s) {
    case problem_size::tiny:
      return tiny;
    case problem_size::small:
      return small;
    case problem_size::medium:
      return medium;
    default:
      return large;
  }
}

class problem {
 public:
  cede::shape shape;

  problem(const problem&) = delete;
  problem& operator=(const problem&) = delete;
  virtual ~problem() = default;

  /// Puts back what the body changes.
  virtual void reset() {
    for (const output& o : outputs_) memory_.clear(o.data, o.bytes);
  }
  /// Remembers the outputs.
  void keep() {
    for (output& o : outputs_) {
      if (o.kept == nullptr) o.kept = memory_.allocate(o.bytes);
      memory_.copy(o.kept, o.data, o.bytes);
    }
  }
  /// How many 4-byte words of the outputs differ from those remembered.
  [[nodiscard]] std::uint64_t differences() {
    std::uint64_t n = 0;
    for (const output& o : outputs_) n += memory_.count_different(o.data, o.kept, o.bytes);
    return n;
  }

 protected:
  explicit problem(memory& m) : memory_(m) {}

  /// An array the body writes, a multiple of 4 bytes.
  template <class T>
  T* output_array(std::size_t n) {
    T* p = memory_.array<T>(n);
    outputs_.push_back({p, n * sizeof(T), nullptr});
    return p;
  }
  memory& memory_;

 private:
  struct output {
    void* data;
    std::size_t bytes;
    void* kept;
  };
  std::vector<output> outputs_;
};

/// Largest deviation of `got` from `want`, relative to `want` where that is larger than `scale`.
template <class Got, class Want>
double largest_deviation(const std::vector<Got>& got, const std::vector<Want>& want,
                         double scale = 1) {
  double largest = got.size() == want.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < got.size() && i < want.size(); ++i) {
    const double w = static_cast<double>(want[i]);
    const double off = std::abs(static_cast<double>(got[i]) - w) / std::fmax(scale, std::abs(w));
    if (!(off <= largest)) largest = std::isnan(off) ? INFINITY : off;
  }
  return largest;
}

}  // namespace bench
