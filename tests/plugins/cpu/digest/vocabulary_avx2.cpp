// The vocabulary in AVX2, FMA and F16C.
#define BONSAI_TIER avx2_operations
#include "plugins/cpu/simd/avx2/dot_maddubs.h"
//
#include "tests/plugins/cpu/digest/vocabulary.inl.h"

namespace bonsai::cpu::digest {

size_t avx2_vocabulary(const uint32_t *operands, uint32_t *results) {
  return avx2_operations::run_vocabulary(operands, results);
}

}  // namespace bonsai::cpu::digest
