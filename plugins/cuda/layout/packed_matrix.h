// Weights from the ABI's blocks into the order that the kernels read (kernels/matrix_layout.h), and what activations go
// with them.
//
// Packed sizes are the file's but for padding (rows to 16, columns to 512) and, in bytes for 256 weights,
//   TQ1_0_G128 56 -> 68   TQ1_0 54 -> 68   TQ2_0 66 -> 68   Q3_K 110 -> 114   Q4_K 144 -> 148   Q5_K 176 -> 180
//   Q8_K 292 -> 260   IQ4_XS 136 -> 138
// Every value is kept as it is, with these exceptions. BF16 becomes binary16 times a power of two for each row, which
// makes the row's largest magnitude one in [2^14, 2^15): what is lost is below 2^-38 of that magnitude. F32 becomes the
// sum of two such numbers: below 2^-22 of the weight itself, or 2^-38 of the row's largest. A row of these two formats
// with an infinity or a NaN becomes NaN as a whole. (The CPU backend has such a row's infinities in its sums; a product
// is not finite in either.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/quant/format.h"
#include "plugins/cuda/kernels/matrix_layout.h"

namespace bonsai::cuda {

// The name that the kernels for a format are compiled for, as in "matmul.cu BONSAI_FORMAT=Q4_0".
std::string_view kernel_format(quant::Format format);

const MatrixLayout &matrix_layout(quant::Format format);

uint64_t tile_count(uint64_t rows);
uint32_t segment_count(uint64_t columns);

// Bytes of a tile and of a whole packed matrix: multiples of 64.
size_t tile_bytes(quant::Format format, uint64_t columns);
size_t packed_bytes(quant::Format format, uint64_t rows, uint64_t columns);

// Packs tiles [first_tile, last_tile) of a matrix. Different ranges may be packed at the same time.
struct PackArguments {
  quant::Format format;
  uint64_t rows;
  uint64_t columns;         // a multiple of the format's block
  const std::byte *source;  // (rows, columns) in the ABI's blocks, any alignment
  uint64_t first_tile;
  uint64_t last_tile;
  std::byte *packed;  // where first_tile goes: (last_tile - first_tile) * tile_bytes() bytes, aligned to 16
};
void pack_tiles(const PackArguments &arguments);

}  // namespace bonsai::cuda
