// The vocabulary in plain C++.
#define BONSAI_TIER portable_operations
#include "plugins/cpu/simd/portable/vector.h"
//
#include "tests/plugins/cpu/digest/vocabulary.inl.h"

namespace bonsai::cpu::digest {

size_t portable_vocabulary(const uint32_t *operands, uint32_t *results) {
  return portable_operations::run_vocabulary(operands, results);
}

}  // namespace bonsai::cpu::digest
