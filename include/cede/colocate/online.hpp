// SPDX-License-Identifier: Apache-2.0
// Corrects a model's predictions by the progress that is then observed.
#pragma once

#include <cede/config.hpp>
#include <cede/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

CEDE_BEGIN_NAMESPACE

namespace colocate {

struct online_options {
  /// Weight that an observation loses with each that follows, above 0, at most 1. 0.98: the last
  /// fifty count.
  double forgetting = 0.98;
  /// How many observations the uncorrected model is worth at the start, above 0.
  double trust = 10;
};

/// Recursive least squares with exponential forgetting (Ljung and Söderström, *Theory and Practice
/// of Recursive Identification*, 2.6.2), of observed progress over what was predicted: an offset
/// and a factor, which begin as 0 and 1. A direction in which nothing new is seen is not forgotten
/// beyond what was trusted at the start, so that it does not run away when predictions repeat.
///
/// One thread at a time; never waits or allocates.
class online_correction {
 public:
  /// Throws `invalid_argument` for options out of range.
  explicit online_correction(online_options o = {}) : options_(o) {
    if (!(o.forgetting > 0 && o.forgetting <= 1) || !(o.trust > 0 && std::isfinite(o.trust))) {
      throw invalid_argument("online_correction got forgetting " + std::to_string(o.forgetting) +
                             " and trust " + std::to_string(o.trust) +
                             "; give a factor above 0 and at most 1, and a positive number");
    }
    offset_offset_ = factor_factor_ = 1 / o.trust;
  }

  /// The progress to expect where the model predicts `predicted`, 0 to 1.
  [[nodiscard]] double operator()(double predicted) const {
    return std::clamp(offset_ + factor_ * predicted, 0.0, 1.0);
  }

  /// Where `predicted` was the model's own word, `observed` was seen. What is no finite number is
  /// left out.
  void observe(double predicted, double observed) {
    if (!std::isfinite(predicted) || !std::isfinite(observed)) return;
    ++seen_;
    const double u = offset_offset_ + offset_factor_ * predicted;  // covariance times (1, p)
    const double v = offset_factor_ + factor_factor_ * predicted;
    const double scale = options_.forgetting + u + v * predicted;
    const double error = observed - (offset_ + factor_ * predicted);
    offset_ += u / scale * error;
    factor_ += v / scale * error;
    const double grow = 1 / options_.forgetting;
    offset_offset_ = (offset_offset_ - u * u / scale) * grow;
    offset_factor_ = (offset_factor_ - u * v / scale) * grow;
    factor_factor_ = (factor_factor_ - v * v / scale) * grow;
    // Shrinks the whole covariance where it has grown beyond the start: it stays one.
    const double most = 1 / options_.trust;
    const double trace = offset_offset_ + factor_factor_;
    if (trace > 2 * most) {
      const double by = 2 * most / trace;
      offset_offset_ *= by;
      offset_factor_ *= by;
      factor_factor_ *= by;
    }
  }

  [[nodiscard]] double offset() const { return offset_; }
  [[nodiscard]] double factor() const { return factor_; }
  [[nodiscard]] std::size_t seen() const { return seen_; }

 private:
  online_options options_;
  double offset_ = 0;
  double factor_ = 1;
  double offset_offset_;
  double offset_factor_ = 0;
  double factor_factor_;
  std::size_t seen_ = 0;
};

}  // namespace colocate

CEDE_END_NAMESPACE
