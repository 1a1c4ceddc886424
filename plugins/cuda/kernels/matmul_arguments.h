// What the kernels of matmul.cu are given. Host and device both include this file.
#pragma once

#include "activation_arguments.h"
#include "matrix_layout.h"
#include "plain_types.h"

namespace bonsai::cuda {

// y[token][row - first_row] = W[row] x[token] + bias[row - first_row], or += that, for `rows` rows from first_row.
// Grids, threads and shared memory: layout/matmul_plan.h.
struct MatmulArguments {
  const void *weights;  // packed: layout/packed_matrix.h
  uint64_t tile_bytes;
  PackedActivations activations;  // with the form that the format takes (layout/packed_matrix.h)
  const float *bias;              // (rows); null: none
  float *y;                       // (n, y_stride)
  uint64_t y_stride;              // floats from token to token
  uint32_t first_row;
  uint32_t rows;
  uint32_t segments;         // of 512 columns in a row
  uint32_t n;                // tokens
  uint32_t tiles_per_block;  // not of matmul_prefill
  uint32_t add;              // 1: y += ..., 0: y = ...
};

inline constexpr uint32_t kBitStepTiles = 4;  // of one token, that a warp of matmul_bits works on at once

// matmul_bits_1_gated: silu(gate) * up of one token, packed for the product behind it. Gate and up are one matrix, as
// many rows of each, gate first. A block has the kGatedTiles tiles, half of them gate's, half the same of up, that a
// group of 128 results is made of, and for each segment as many warps as leave each kGatedSteps steps of four tiles, or
// one. The same bytes as a product and swiglu_quantize.
inline constexpr uint32_t kGatedTiles = 16, kGatedSteps = 2;
static_assert(kGatedTiles % (kGatedSteps * kBitStepTiles) == 0 && (kGatedSteps & (kGatedSteps - 1)) == 0);
inline constexpr uint32_t kGatedMaxThreads = 512;
struct GatedMatmulArguments {
  MatmulArguments product;   // nothing is added to, no bias, no y
  PackedActivations packed;  // codes alone
};
// Registers hold all of a block's weights with 1-bit codes only.
constexpr bool has_gated(const MatrixLayout &layout) { return layout.bits == 1; }

inline constexpr uint32_t kDecodeTokens = 8;  // of a block of matmul_decode
inline constexpr uint32_t kBitTokens = 4;     // the most of matmul_bits
inline constexpr uint32_t kDecodeMaxThreads = 256;
inline constexpr uint32_t kOneMaxThreads = 192;  // of matmul_one
inline constexpr uint32_t kPrefillTokens = 64;   // of a block of matmul_prefill
inline constexpr uint32_t kPrefillMaxThreads = 256;

// Segments whose sums a block that multiplies so many tokens has in shared memory at a time.
constexpr uint32_t round_segments(uint32_t tokens) { return tokens <= kDecodeTokens ? 32 : 256 / tokens; }

// matmul_held_8 and _16, whose warps hold their tokens' codes of a segment in registers, are for integers whose groups
// have a scale alone.
constexpr bool has_held(const MatrixLayout &layout) { return !layout.is_float() && layout.scales == Scales::kHalf; }
inline constexpr uint32_t kHeldMaxThreads = 256, kHeldBlocks = 2;  // that a multiprocessor is to hold
inline constexpr uint32_t kHeldTokenFloats = 20;                   // 16 rows; lanes that write meet in no bank
inline constexpr uint32_t kHeldRecordBytes = 8;                    // of a token, for each group
// Shared memory of a block of so many warps, and what it needs for each tile where rows have more segments than that.
constexpr uint32_t held_bytes(const MatrixLayout &layout, uint32_t tokens, uint32_t warps) {
  const uint32_t sums = 2 * kHeldTokenFloats * static_cast<uint32_t>(sizeof(float));
  return warps * tokens * (kSegmentColumns / group_columns(layout) * kHeldRecordBytes + sums);
}
constexpr uint32_t held_tile_bytes(uint32_t tokens) {
  return tokens * kTileRows * static_cast<uint32_t>(sizeof(float));
}

// For which formats there are matmul_decode, _16 and _32: those that any plan takes them for. Elsewhere they do
// nothing.
constexpr bool has_decode(const MatrixLayout &layout) { return !has_held(layout); }
constexpr bool has_decode_16(const MatrixLayout &layout) { return layout.is_float(); }
constexpr bool has_decode_32(const MatrixLayout &layout) { return has_decode(layout); }

// Blocks of the most threads that a multiprocessor is to hold, as many as have room without spilling, or
// with little of it (compile/units.cpp): the kernels' launch bounds, and what grids are
// planned for.
constexpr uint32_t bit_blocks(const MatrixLayout &layout, uint32_t tokens) {
  if (tokens == 1 && layout.bits == 1) return 3;
  return tokens == 4 && layout.bits == 2 ? 1 : 2;
}
// Of matmul_bits_1_long, of which a multiprocessor holds one block.
constexpr uint32_t long_max_threads(const MatrixLayout &layout) { return layout.bits == 1 ? 768 : 512; }
constexpr uint32_t one_blocks(const MatrixLayout &layout) {
  return layout.bits == 2 && layout.high_bits > 0 ? 1 : 2;  // a step of Q3_K is too long for two
}
constexpr uint32_t decode_blocks(const MatrixLayout &layout) {
  return layout.scales == Scales::kHalfAndMinimum && layout.high_bits > 0 ? 1 : 2;  // a step of Q5_1 likewise
}

// Of matmul_prefill.
constexpr uint32_t prefill_blocks(const MatrixLayout &layout) {
  return layout.bits == 4 && layout.high_bits > 0 && layout.has_minima() ? 1 : 2;  // Q5_1 and Q5_K
}

}  // namespace bonsai::cuda
