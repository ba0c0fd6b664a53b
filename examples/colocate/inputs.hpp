// SPDX-License-Identifier: Apache-2.0
// From a request's context tokens to one of the few inputs that the service answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "random.hpp"

namespace colocate {

inline constexpr std::uint32_t shortest_sequence = 8;
inline constexpr std::uint32_t longest_sequence = 512;
inline constexpr std::size_t most_inputs = 64;

/// Context tokens / 16, but at least 8 and at most 512.
std::uint32_t sequence_length(std::uint64_t context_tokens);

/// The lengths of the distinct inputs, rising, at most 64: every length from 8 up to where steps of
/// one would be too many, then in equal ratios up to 512. A length is at most 5 % away from its
/// input.
std::vector<std::uint32_t> input_lengths();

/// The index in `lengths` of the one nearest to `length`, by ratio.
std::size_t nearest_input(const std::vector<std::uint32_t>& lengths, std::uint32_t length);

/// Context tokens drawn log-normally with the median and spread of the Azure trace of code
/// completions (Patel et al., ISCA 2024), for arrivals that say nothing about lengths.
std::uint64_t draw_context_tokens(generator& random);

}  // namespace colocate
