// How the cases quantise activations.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::kernel_bench {

// n vectors of `columns` floats, one after the other, to `rows`, which are quantized_row_bytes(layout, columns) each.
inline cpu::QuantizeArgs whole_rows(cpu::ActivationLayout layout, const float *x, uint32_t n, uint64_t columns,
                                    std::byte *rows) {
  return {.x = x,
          .x_stride = columns,
          .n = n,
          .columns = columns,
          .layout = layout,
          .begin = 0,
          .end = columns,
          .rows = rows,
          .tables = nullptr};
}

}  // namespace bonsai::kernel_bench
