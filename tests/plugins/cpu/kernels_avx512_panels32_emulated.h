// The avx512-panels32 tier, compiled from its own sources over SIMDe.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Runs on any x86-64 machine with AVX2.
const KernelTable &avx512_panels32_emulated_kernels();

}  // namespace bonsai::cpu
