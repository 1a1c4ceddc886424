#include "plugins/cpu/kernels/many_vectors.h"

namespace bonsai::cpu {

// Vectors are still multiplied abreast where sums of signs are looked up however many there are.
KernelTable with_many_vectors(const KernelTable &other, const ManyVectors &many) {
  KernelTable table = other;
  table.name = many.name;
  table.most_with_signs = many.most_with_signs;
  table.most_with_trits = many.most_with_trits;
  table.panels = many.panels;
  table.scratch_bytes = many.scratch_bytes;
  table.vector_bytes = many.vector_bytes;
  table.matmul = many.matmul;
  if (many.abreast.multiply) {
    table.abreast = many.abreast;
  } else {
    if (many.most_with_signs != UINT32_MAX) table.abreast = {};
    if (many.takes_codes) table.abreast.takes_ternary = table.abreast.takes_q2_0_g64 = false;
  }
  return table;
}

#if defined(__x86_64__)
const KernelTable &avx2_vnni_kernels() {
  static const KernelTable kTable = with_many_vectors(avx2_vnni_kernels_without_panels(), avx2_vnni_many_vectors());
  return kTable;
}

const KernelTable &avx512_amx_kernels() {
  static const KernelTable kTable = with_many_vectors(avx512_kernels(), avx512_amx_many_vectors());
  return kTable;
}

const KernelTable &avx512_panels_kernels() {
  static const KernelTable kTable = with_many_vectors(avx512_kernels(), avx512_panels_many_vectors());
  return kTable;
}

const KernelTable &avx512_panels32_kernels() {
  static const KernelTable kTable = with_many_vectors(avx512_kernels(), avx512_panels32_many_vectors());
  return kTable;
}
#endif

}  // namespace bonsai::cpu
