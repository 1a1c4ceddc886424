// The avx512 tier, compiled from its own sources over SIMDe.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Runs wherever cpu_has_avx2().
const KernelTable &avx512_emulated_kernels();

}  // namespace bonsai::cpu
