// What the kernel of token_layers.cu is given. Host and device both include this file.
#pragma once

#include "attention_arguments.h"
#include "matmul_arguments.h"

namespace bonsai::cuda {

// A layer's products, in the order of data.
enum LayerProduct : uint32_t { kQkvProduct, kOProduct, kGateUpProduct, kDownProduct, kLayerProducts };

// What differs from layer to layer. Device memory; null where the model has no such vector.
struct LayerPointers {
  const void *weights[kLayerProducts];  // packed: layout/packed_matrix.h
  const float *norms[kLayerProducts];   // (hidden) in front of Q, K and V, and of gate and up
  const float *biases[kLayerProducts];  // (rows) of O; that of Q, K and V is added by attention
  const float *qkv_bias;                // (qkv rows)
  const float *q_norm, *k_norm;         // (head_dim)
};

// How the blocks share a product. Gate and up are two halves: a block has the same rows of both, half of its warps
// each.
struct LayerProductShape {
  uint64_t tile_bytes;
  uint32_t rows;             // of a half
  uint32_t columns;          // a multiple of 4
  uint32_t segments;         // of 512 columns in a row
  uint32_t tiles_per_block;  // of a half
  uint32_t groups;           // of warps, of a half
  uint32_t share_tiles;      // of the block's tiles, that such a group has
  uint32_t share_warps;      // in a group
  uint32_t token_at;         // bytes of shared memory in front of the packed token
};

// No array: GCC 12's __builtin_clear_padding clears other bytes than padding in a struct that has one of structs.
struct LayerProductShapes {
  LayerProductShape qkv, o, gate_up, down;

  const LayerProductShape &operator[](uint32_t product) const { return (&qkv)[product]; }
};
static_assert(sizeof(LayerProductShapes) == kLayerProducts * sizeof(LayerProductShape));

// What a layer does between barriers, in this order; kCombineStep only where sections are split. Steps in which the
// first block notes when it begins, which is when the grid has come, and when it arrives at the next barrier.
enum TokenStep : uint32_t { kQkvStep, kAttendStep, kCombineStep, kOStep, kGateUpStep, kDownStep, kTokenSteps };
constexpr TokenStep step_of(uint32_t product) {
  return static_cast<TokenStep>(product == kQkvProduct ? kQkvStep : kOStep + product - kOProduct);
}
struct TokenTimes {
  uint64_t began, arrived;  // of device_time()
};

inline constexpr uint32_t kTokenThreads = 512;
// Of the residual stream, that a block has for itself; of the sequence's blocks, that it has at hand.
inline constexpr uint32_t kMostResidualRows = 512, kMostBlocksAtHand = 512;
static_assert(kTokenThreads == kNarrowThreads && kTokenThreads >= kCombineThreads);

// token_layers: layers [first_layer, first_layer + n_layers) of a forward pass over a single token, in one launch whose
// blocks run at once, one on each multiprocessor. Compiled for -DBONSAI_FORMAT=Q1_0_G128 or TQ2_0_G128, of all weights,
// and -DBONSAI_KV=F16_128 and the like. Grid, shared memory and shapes: layout/token_plan.h.
struct TokenLayersArguments {
  NarrowAttendArguments attention;  // but for what differs from layer to layer
  CombineArguments combine;
  const LayerPointers *layers;
  float *x;           // (hidden) the residual stream
  float *gated;       // (ffn) SwiGLU of gate and up
  unsigned *barrier;  // a GridBarrier's
  TokenTimes *times;  // (n_layers, kTokenSteps); only with -DBONSAI_TIMED
  LayerProductShapes products;
  uint32_t first_layer, n_layers;
  uint32_t n_items;   // (piece, kv_head) of attention
  uint32_t n_splits;  // of combine
  float eps;
};

// Dynamic shared memory for the bit planes and group records of a token.
constexpr uint32_t packed_token_bytes(uint32_t segments) {
  return segments * kSegmentColumns + segments * (kSegmentColumns / 128) * static_cast<uint32_t>(sizeof(GroupRecord));
}

}  // namespace bonsai::cuda
