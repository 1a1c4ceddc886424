// The vocabulary in AVX2 with AVX-VNNI.
#define BONSAI_TIER avx2_vnni_operations
#include "plugins/cpu/simd/avx2/dot_vnni.h"
//
#include "tests/plugins/cpu/digest/vocabulary.inl.h"

namespace bonsai::cpu::digest {

size_t avx2_vnni_vocabulary(const uint32_t *operands, uint32_t *results) {
  return avx2_vnni_operations::run_vocabulary(operands, results);
}

}  // namespace bonsai::cpu::digest
