// A tier that is another one but for products of many vectors, for which weights are unpacked.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// What is its own.
struct ManyVectors {
  const char *name;
  uint32_t most_with_signs, most_with_trits;  // UINT32_MAX: it does not multiply these
  bool takes_codes;                           // of two bits, which others multiply abreast
  PanelKernel panels;
  size_t scratch_bytes;
  uint64_t vector_bytes;
  void (*matmul)(const MatmulArgs &args);
  AbreastKernel abreast = {};  // instead of the other's, if there is one
};

// Not compiled for a tier: every machine makes all tables, whatever it runs.
KernelTable with_many_vectors(const KernelTable &other, const ManyVectors &many);

#if defined(__x86_64__)
const KernelTable &avx2_vnni_kernels_without_panels();
const ManyVectors &avx2_vnni_many_vectors();
const ManyVectors &avx512_amx_many_vectors();
const ManyVectors &avx512_panels_many_vectors();
const ManyVectors &avx512_panels32_many_vectors();
#endif

}  // namespace bonsai::cpu
