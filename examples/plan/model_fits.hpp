// SPDX-License-Identifier: Apache-2.0
// Models of co-location, learned from observations.
#pragma once

#include <cede/colocate/partition_model.hpp>
#include <cede/colocate/shared_model.hpp>

#include <span>

#include "folds.hpp"

namespace plan {

using cede::colocate::partition_model;
using cede::colocate::shared_model;

/// Coefficients alone, by least squares of the error of progress, none of them negative. Throws
/// `input_error` if there is no observation or the shares of one overlap.
partition_model::coefficients fit_coefficients(std::span<const observation> seen);

/// A model of all observations; its p95 is that of models that saw nothing of the family they were
/// tried on, and 1 if there are too few families or observations to tell. Throws as
/// `fit_coefficients`.
partition_model fit_partition(std::span<const observation> seen);

struct shared_options {
  /// Of the squared coefficients of standardised features, from 0.
  double penalty = 1;
  /// The model answers where each feature is between the smallest seen by this and the largest
  /// times this, from 1. Of a dozen workloads nearly each is the extreme of some feature: with 1 a
  /// model refuses most workloads it has not seen.
  double beyond = 2;
};

/// A line by least squares with a penalty, through the features of `shared_model`. Its p95 is that
/// of models without the family they were tried on, where these answer. Throws `input_error` for
/// less than two observations or one in which a workload is confined.
shared_model fit_shared(std::span<const observation> seen, const shared_options& o = {});

}  // namespace plan
