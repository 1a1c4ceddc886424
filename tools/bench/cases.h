// Every kernel of plugins/cpu/kernels/kernels.h, in every tier that this machine runs, as benchmarks. Names are
// KERNEL/[FORMAT/]TIER/SHAPE/.../PLACE.
#pragma once

#include <memory>

#include "tools/bench/limits.h"

namespace bonsai::kernel_bench {

// Each registers its cases with Google Benchmark; `limits` may be filled in later, before they run.
void add_matmul_cases(const std::shared_ptr<const Limits> &limits);
void add_row_cases(const std::shared_ptr<const Limits> &limits);  // quantize, rms_norm, swiglu, max_value, sum_exp
void add_attention_cases(const std::shared_ptr<const Limits> &limits);

}  // namespace bonsai::kernel_bench
