// Which forms of activations a session needs, and where they lie in its scratch memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/quant/format.h"
#include "plugins/cuda/kernels/activation_arguments.h"

namespace bonsai::cuda {

// Forms, as a set: several matrices may read the same activations.
struct ActivationForms {
  bool codes_by_128 = false;
  bool bit_planes = false;
  bool codes_by_32 = false;
  bool halves = false;

  // What a product with a matrix of this format needs. bit_planes: takes_bits(plan), see matmul_plan.h.
  static ActivationForms of(quant::Format format, bool bit_planes);
  ActivationForms &operator|=(const ActivationForms &other);
};

// Columns rounded up as the kernels have them: to whole segments of 512.
uint64_t padded_columns(uint64_t columns);

// Bytes for n tokens of the forms; a multiple of 256. More tokens or columns never need less.
size_t packed_activation_bytes(const ActivationForms &forms, uint64_t n, uint64_t columns);

// The forms of n tokens in memory at `base` (a device address, aligned to 256); null pointers for those not in `forms`.
PackedActivations place_activations(const ActivationForms &forms, std::byte *base, uint64_t n, uint64_t columns);

// The grid of rms_norm_quantize, quantize and swiglu_quantize: (n, chunks), and what a block packs. Results do not
// depend on it.
struct ActivationPlan {
  uint32_t chunks;
  uint32_t chunk_columns;
};
ActivationPlan plan_activations(uint64_t n, uint64_t columns, uint32_t multiprocessors);

}  // namespace bonsai::cuda
