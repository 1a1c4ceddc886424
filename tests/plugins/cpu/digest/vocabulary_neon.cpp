// The vocabulary in Advanced SIMD with dot products.
#define BONSAI_TIER neon_operations
#include "plugins/cpu/simd/neon/vector.h"
//
#include "tests/plugins/cpu/digest/vocabulary.inl.h"

namespace bonsai::cpu::digest {

size_t neon_vocabulary(const uint32_t *operands, uint32_t *results) {
  return neon_operations::run_vocabulary(operands, results);
}

}  // namespace bonsai::cpu::digest
