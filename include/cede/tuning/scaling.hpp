// SPDX-License-Identifier: Apache-2.0
// How times of tiles change with the number of blocks that share an SM.
#pragma once

#include <cede/config.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

CEDE_BEGIN_NAMESPACE

namespace tuning {

/// A value at a number of blocks per SM.
struct level {
  double blocks = 1;
  double value = 0;
  bool limited = false;  ///< something else may have been the limit: at most so much
};

/// Adds a level; of two with as many blocks the one with the smaller (larger) value stays.
inline void merge(std::vector<level>& into, level v, bool larger = false) {
  for (level& l : into) {
    if (l.blocks != v.blocks) continue;
    if ((v.value > l.value) == larger) l = v;
    return;
  }
  into.push_back(v);
}

/// How many times longer than at `last` something is taken to be with so many blocks: in
/// proportion; or, up to `reach` times as many, as it grew from `before` and a little more.
inline double extrapolated(const level* before, const level& last, double blocks, double reach) {
  double exponent = 1;
  if (before != nullptr && blocks <= reach * last.blocks) {
    exponent = std::log(last.value / before->value) / std::log(last.blocks / before->blocks);
    exponent = std::clamp(exponent + 0.35, 0.35, 1.2);
  }
  return std::pow(blocks / last.blocks, exponent);
}

/// On the line between two levels, in logarithms.
inline double between(const level& below, const level& above, double blocks) {
  const double share = std::log(blocks / below.blocks) / std::log(above.blocks / below.blocks);
  return below.value * std::pow(above.value / below.value, share);
}

/// Time of a tile with so many blocks per SM, from those of the same kind and, where none was seen
/// with as many, of another. Beyond what is known: as if fewer blocks did not make tiles shorter,
/// and more made them longer, as the last ones did and a little more.
inline double tile_between(const std::vector<level>& own, const std::vector<level>& other,
                           double blocks, double reach) {
  const level* below = nullptr;
  const level* before = nullptr;  // the one below `below`
  const level* above = nullptr;
  for (const auto* known : {&own, &other}) {
    const auto left_out = [&](const level& l) {
      return l.limited && known == &other && !own.empty();
    };
    for (const level& l : *known) {
      if (left_out(l)) continue;
      if (l.blocks == blocks) return l.value;
      if (l.blocks < blocks && (below == nullptr || l.blocks > below->blocks)) below = &l;
      if (l.blocks > blocks && (above == nullptr || l.blocks < above->blocks)) above = &l;
    }
    if (below == nullptr) continue;
    for (const level& l : *known) {
      if (left_out(l)) continue;
      if (l.blocks < below->blocks && (before == nullptr || l.blocks > before->blocks)) before = &l;
    }
  }
  if (below == nullptr) return above->value;
  if (above == nullptr) return below->value * extrapolated(before, *below, blocks, reach);
  // Short of a knee between the two, and along a straight line: half way.
  const double knee = std::max(below->value, above->value * blocks / above->blocks);
  return std::sqrt(knee * between(*below, *above, blocks));
}

}  // namespace tuning

CEDE_END_NAMESPACE
