// A tier that is another one but for products of many vectors, which go through tile registers.
#pragma once

#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

// What is its own.
struct TileKernels {
  const char *name;
  uint32_t most_looked_up;
  uint64_t vector_bytes;
  void (*matmul)(const MatmulArgs &args);
};

// Not compiled for a tier: every machine makes all tables, whatever it runs.
KernelTable with_tiles(const KernelTable &other, const TileKernels &tiles);

#if defined(__x86_64__)
const TileKernels &avx512_amx_tiles();
#endif

}  // namespace bonsai::cpu
