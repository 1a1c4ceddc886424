// What a caller can ask of one row of logits, after adjusting them. Code of one translation unit and kernels that give
// the same bytes in every tier.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <span>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Repetition factors and additions, then the mask, then the temperature.
void adjust_logits(const bonsai_output &output, std::span<float> logits);

// The largest logit's id, the lowest of equals. NaN is only chosen if there is nothing else: then id 0.
int32_t find_largest(const KernelTable &kernels, std::span<const float> logits);

// The ids of the k largest, in falling order, the lower id first among equals; NaN comes after everything else.
// `ranks` (k) is scratch.
void find_top(std::span<const float> logits, std::span<int32_t> ids, std::span<uint64_t> ranks);

// log(sum(exp(logits))); an infinite largest logit is the result, and NaN anywhere else makes it NaN.
float log_sum_exp(const KernelTable &kernels, std::span<const float> logits);

}  // namespace bonsai::cpu
