// Products of many vectors with weights of one or two bits, in which 32 vectors lie side by side (kernels/abreast.h).
#pragma once

#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

// Of a product's vectors, how many are better multiplied so with the matrices that take their activations in `layout`:
// the first ones, or none.
uint32_t count_abreast(const Threads &threads, const KernelTable &kernels, const Product &product,
                       ActivationLayout layout);

// Multiplies all vectors so; product.then is left alone.
void multiply_abreast(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout);

}  // namespace bonsai::cpu
