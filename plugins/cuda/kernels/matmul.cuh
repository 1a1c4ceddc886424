// What the matrix kernels share: which tiles a block has, and how a finished sum becomes a result.
#pragma once

#include "formats.cuh"
#include "matmul_arguments.h"

// The layout of the format that this unit is compiled for, as in -DBONSAI_FORMAT=Q4_0.
#define BONSAI_JOIN_NAMES(a, b, c) a##b##c
#define BONSAI_LAYOUT_NAME(format) BONSAI_JOIN_NAMES(k, format, Layout)

namespace bonsai::cuda {

inline constexpr MatrixLayout kLayout = BONSAI_LAYOUT_NAME(BONSAI_FORMAT);

inline constexpr uint32_t kStepsInSegment = kSegmentColumns / step_columns(kLayout);

// Tiles that hold rows [first_row, first_row + rows).
__device__ inline uint32_t first_tile(const MatmulArguments &arguments) { return arguments.first_row / kTileRows; }
__device__ inline uint32_t end_tile(const MatmulArguments &arguments) {
  return (arguments.first_row + arguments.rows + kTileRows - 1) / kTileRows;
}

__device__ inline const uint8_t *tile_at(const MatmulArguments &arguments, uint32_t tile) {
  return static_cast<const uint8_t *>(arguments.weights) + tile * arguments.tile_bytes;
}

// Packed columns from token to token.
__device__ inline uint32_t padded_columns(const MatmulArguments &arguments) {
  return arguments.segments * kSegmentColumns;
}

__device__ inline const int8_t *token_codes(const MatmulArguments &arguments, uint64_t token, uint32_t column) {
  const PackedActivations &activations = arguments.activations;
  const int8_t *codes = kLayout.packing == Packing::kCodesBy128 ? activations.codes_by_128 : activations.codes_by_32;
  return codes + packed_place(activations.together_log2, padded_columns(arguments), token, column);
}

// The records of the packing's group that `column` is in, from `token` on.
__device__ inline const GroupRecord *token_records(const MatmulArguments &arguments, uint32_t token, uint32_t column) {
  const PackedActivations &activations = arguments.activations;
  if constexpr (kLayout.packing == Packing::kCodesBy128) {
    return activations.groups_128 + uint64_t{column / 128} * activations.stride + token;
  } else {
    return activations.groups_32 + uint64_t{column / 32} * activations.stride + token;
  }
}

// Where the sum over all segments of a row of the matrix times a token goes; null: it is not asked for.
__device__ inline float *find_result(const MatmulArguments &arguments, uint32_t row, uint32_t token) {
  const uint32_t index = row - arguments.first_row;  // of rows before the first: larger than any
  if (index >= arguments.rows || token >= arguments.n) return nullptr;
  return arguments.y + token * arguments.y_stride + index;
}

// Writes the sum to `y`, where it goes. `before`: what is there, if it is to be added to that.
__device__ inline void write_result(const MatmulArguments &arguments, uint32_t row, uint32_t token, float sum, float *y,
                                    float before) {
  if constexpr (kLayout.is_float()) {
    if constexpr (kLayout.scales == Scales::kRow) {
      const uint8_t *scales = tile_at(arguments, row / kTileRows) + arguments.segments * kLayout.record_bytes();
      sum *= reinterpret_cast<const float *>(scales)[row % kTileRows];
    }
    sum *= arguments.activations.row_scales[token];
  }
  if (arguments.bias) sum += arguments.bias[row - arguments.first_row];
  *y = arguments.add ? before + sum : sum;
}

}  // namespace bonsai::cuda
