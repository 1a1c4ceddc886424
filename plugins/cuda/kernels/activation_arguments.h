// What the kernels of activations.cu and embedding.cu are given, and how activations are packed for products with
// weights. Host and device both include this file.
#pragma once

#include "plain_types.h"

namespace bonsai::cuda {

// Beside the 8-bit codes of a group: x = code * scale.
struct alignas(8) GroupRecord {
  float scale;              // 0: all codes are 0; NaN: the group held an infinity or a NaN
  int16_t sum;              // of the group's codes
  int16_t second_half_sum;  // of the latter half of them
};

// The activations of n tokens in all the forms that were asked for; a null pointer is a form that was not. `columns`
// below is rounded up to a multiple of 512; what is beyond the true columns is 0.
//
// Codes are 8-bit integers, -127..127, rounded to nearest, ties to even, of x * (127 / amax) with scale amax / 127,
// where amax is the group's largest magnitude. A group with amax below 2^-118 is 0, one with an infinity or a NaN has
// scale NaN and codes 0: as the CPU backend does it where a block is one group.
//
// Halves: x = (high + low) * scale, good to 2^-21 of the token's largest magnitude, where scale is a power of two. A
// token with an infinity or a NaN has scale NaN.
//
// Codes and halves lie by 32 columns, of a token alone or of eight tokens one after the other, as the tensor cores take
// them: what a warp reads is contiguous. So they are (n / together, columns / 32, together, 32): see packed_place.
struct PackedActivations {
  int8_t *codes_by_128;
  GroupRecord *groups_128;  // (columns / 128, stride)
  uint32_t *bit_planes;  // (n, columns / 512, 32, 4) of codes_by_128: word (4 b + t, k) has bit b of those columns of
                         // the segment's k-th 128 that lane t of one-bit weights has, in the same order
  int8_t *codes_by_32;
  GroupRecord *groups_32;  // (columns / 32, stride)
  uint16_t *high, *low;    // binary16
  float *row_scales;       // (n)
  uint32_t stride;         // tokens from group to group: n rounded up to a multiple of 8
  uint32_t together_log2;  // of the tokens that lie together
};

// 1 token alone, or 8.
constexpr uint32_t together_log2(uint64_t n) { return n == 1 ? 0 : 3; }

// Where a token's column is among the codes or halves.
constexpr uint64_t packed_place(uint32_t together_log2, uint32_t columns, uint64_t token, uint32_t column) {
  const uint64_t blocks = (token >> together_log2) * (columns / 32) + column / 32;
  return ((blocks << together_log2) + (token & ((1u << together_log2) - 1))) * 32 + column % 32;
}

inline constexpr uint32_t kActivationThreads = 256;

// rms_norm_quantize: y = weight * x / sqrt(mean(x^2) + eps), packed. quantize: x, packed. Grid (n, chunks),
// kActivationThreads threads; a block packs chunk_columns columns of one token.
struct QuantizeArguments {
  const float *x;          // (n, columns), or as many as `picked` needs
  const uint32_t *picked;  // (n) which of x's rows, that no kernel of the pass has written; rms_norm_quantize only,
                           // null: the first n
  const float *weight;     // (columns); rms_norm_quantize only
  float *y;                // (n, columns) what is packed, as floats; null: not wanted
  PackedActivations packed;
  uint64_t x_stride;  // floats from token to token
  uint32_t columns;
  uint32_t chunk_columns;  // a multiple of 512
  float eps;
};

// swiglu_quantize: silu(gate) * up, packed; silu(x) = x / (1 + exp(-x)). Grid and threads as above.
struct SwigluQuantizeArguments {
  const float *gate_up;  // (n, 2 * columns): gate, then up
  float *y;              // (n, columns); null: not wanted
  PackedActivations packed;
  uint32_t columns;
  uint32_t chunk_columns;
};

inline constexpr uint32_t kEmbedThreads = 128;

// embed: x[i] = row tokens[i] of a packed matrix, decoded. Grid (n, segments of the matrix), kEmbedThreads threads.
struct EmbedArguments {
  const void *weights;  // packed: layout/packed_matrix.h
  uint64_t tile_bytes;
  const int32_t *tokens;  // (n) ids; -1 - j is selected[j]
  const int32_t *selected;
  float *x;  // (n, columns)
  uint32_t columns;
  uint32_t first_row;   // row of the matrix that token first_token has
  int32_t first_token;  // tokens outside [first_token, first_token + rows) are left alone: a table may have several
  uint32_t rows;        // parts, each of its own format
};

}  // namespace bonsai::cuda
