// The avx2-vnni tier, compiled from its own sources with AVX-VNNI's one instruction over SIMDe.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// Runs wherever cpu_has_avx2().
const KernelTable &avx2_vnni_emulated_kernels();

}  // namespace bonsai::cpu
