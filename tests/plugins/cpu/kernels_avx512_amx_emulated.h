// The avx512-amx tier, compiled from its own sources over SIMDe and tile registers in memory.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Runs wherever cpu_has_avx2().
const KernelTable &avx512_amx_emulated_kernels();

}  // namespace bonsai::cpu
