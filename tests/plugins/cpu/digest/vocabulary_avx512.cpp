// The vocabulary in AVX-512.
#define BONSAI_TIER avx512_operations
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "tests/plugins/cpu/digest/vocabulary.inl.h"

namespace bonsai::cpu::digest {

size_t avx512_vocabulary(const uint32_t *operands, uint32_t *results) {
  return avx512_operations::run_vocabulary(operands, results);
}

}  // namespace bonsai::cpu::digest
