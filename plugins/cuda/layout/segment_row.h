// One row of one segment (512 columns) as numbers: what is between the ABI's blocks and the packed order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/quant/format.h"
#include "plugins/cuda/kernels/matrix_layout.h"

namespace bonsai::cuda {

struct SegmentRow {
  alignas(8) uint8_t codes[kSegmentColumns] = {};  // whole codes, signed or not, or FP8 numbers
  uint16_t high[kSegmentColumns] = {};             // halves; F32: the larger of two
  uint16_t low[kSegmentColumns] = {};
  uint16_t d[kSegmentColumns / 32] = {};  // halves: of each group, or of each 256
  uint16_t m[kSegmentColumns / 32] = {};  // m or dmin
  float float_d[kSegmentColumns / 256] = {};
  uint8_t integers[kSegmentColumns / 16] = {};  // s of each group; Q2_K: s | m << 4
  uint8_t minima[kSegmentColumns / 16] = {};
};

// A whole row in the ABI's blocks.
struct SourceRow {
  quant::Format format;
  const std::byte *blocks;
  uint64_t columns;
};

// The power of two that is 1 in a row's half-precision numbers: NaN for a row of BF16 or F32 that holds an infinity or
// a NaN, 1 for other formats.
float row_scale(const SourceRow &row);

// The row's columns [512 segment, 512 (segment + 1)), zeros where there are none. `scale` is row_scale(row).
SegmentRow read_segment(const SourceRow &row, uint64_t segment, float scale);

}  // namespace bonsai::cuda
