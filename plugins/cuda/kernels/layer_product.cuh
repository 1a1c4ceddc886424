// A product of one token within token_layers: y = W x, or the residual stream += W x, or SwiGLU of it, of a vector
// that nobody has packed. Every block norms and packs the token for all its rows, in shared memory, by the functions
// that the kernels of activations.cu use.
#pragma once

#include "activation_packing.cuh"
#include "bit_products.cuh"
#include "token_arguments.h"

namespace bonsai::cuda {

// A block's tiles as one of its warps has them: its group's share of them, of which it has every share_warps-th
// segment. In shared memory: (segments, tiles of the block, 16) sums.
struct ShareBlock {
  const MatmulArguments &arguments;
  float *shared;          // of the share
  uint32_t first, tiles;  // of the matrix, the share; no tiles: the warp has nothing
  static constexpr uint32_t first_token = 0;

  __device__ float *sums(uint32_t segment) const { return shared + segment * arguments.tiles_per_block * kTileRows; }
  __device__ const uint8_t *record(uint32_t tile, uint32_t segment) const {
    return tile_at(arguments, first + tile) + segment * kLayout.record_bytes();
  }
};

// What such a warp works through: four tiles at a time, of these its segments. So the last tiles are fewer than four in
// all steps that are left, and no load for them is missed.
struct ShareWalk {
  uint32_t tiles, segments, first_segment, segment_stride;
  uint32_t segment, tile;

  __device__ bool at_end() const { return tile >= tiles; }
  __device__ void advance() {
    segment += segment_stride;
    if (segment < segments) return;
    segment = first_segment;
    tile += kItems;
  }
};

// Where a product's vector comes from, and where its results go.
struct Operands {
  const float *x;
  float *residual;  // null: they are added to nothing
  float *y;
};

// A product of a layer, as one block has it.
class LayerStep {
 public:
  __device__ LayerStep(const TokenLayersArguments &arguments, const LayerPointers &layer, uint32_t product)
      : shape_(arguments.products[product]), norm_(layer.norms[product]), is_gated_(product == kGateUpProduct) {
    const uint32_t tiles = tiles_of_half(), begin = block_x() * shape_.tiles_per_block;
    tiles_ = begin >= tiles ? 0 : tiles - begin < shape_.tiles_per_block ? tiles - begin : shape_.tiles_per_block;
    product_.weights = layer.weights[product];
    product_.tile_bytes = shape_.tile_bytes;
    product_.bias = layer.biases[product];
    product_.rows = shape_.rows;
    product_.segments = shape_.segments;
    product_.n = 1;
    product_.tiles_per_block = halves() * shape_.tiles_per_block;
  }
  LayerStep(const LayerStep &) = delete;

  // The block's tiles, of each half: none, where there are more blocks than it takes.
  __device__ uint32_t tiles() const { return tiles_; }

  // Asks the second-level cache for the block's weights: a warp for a part of them, but for the first, which asks
  // whether the grid has come.
  __device__ void prefetch_weights() const {
    if (warp() == 0) return;
    const uint32_t warps = block_threads() / kWarp - 1, bytes = tiles_ * static_cast<uint32_t>(shape_.tile_bytes);
    const uint32_t part = ((bytes + warps - 1) / warps + kCacheLine - 1) / kCacheLine * kCacheLine;
    const uint32_t at = (warp_number() - 1) * part;
    if (at >= bytes) return;
    for (uint32_t half = 0; half < halves(); ++half) {
      prefetch_together(tile_at(product_, first_tile_of(half)) + at, bytes - at < part ? bytes - at : part);
    }
  }

  // y = this of x, for the block's rows; where `residual` is not null, residual += this of x, of the block's rows
  // alone, and y = residual. What does not depend on other blocks is done first, then `wait` called. Precondition:
  // tiles() > 0, and dynamic shared memory is free.
  template <class Early, class Wait>
  __device__ void run(const Operands &operands, float eps, Early early, Wait wait) {
    float *const shared = dynamic_shared<float>();
    const uint32_t columns = shape_.columns;
    if (norm_) copy_row(shared + columns, norm_, columns);
    copy_async_commit();
    const ShareBlock block = share();
    const uint32_t first_segment = warp_number() % shape_.share_warps;
    const ShareWalk walk = {block.tiles, product_.segments, first_segment, shape_.share_warps, first_segment, 0};
    BitWeights<1> weights;
    load_first(block, walk, weights);
    early();
    wait();

    copy_row(shared, operands.x, columns);
    copy_async_commit();
    copy_async_wait<0>();
    sync_block();
    pack_token(eps);
    sync_block();
    sum_steps<true, 1>(block, walk, weights);
    sync_block();
    if (is_gated_) {
      write_gated(operands.y);
    } else {
      write_sums(operands.residual, operands.y);
    }
  }

  // The block's rows of what the residual stream is at first.
  __device__ void take_residual(const float *x, float *residual) const {
    const uint32_t first_row = first_tile_of(0) * kTileRows;
    for (uint32_t i = thread(); i < tiles_ * kTileRows; i += block_threads()) {
      if (first_row + i < shape_.rows) residual[i] = x[first_row + i];
    }
  }

 private:
  __device__ uint32_t halves() const { return is_gated_ ? 2 : 1; }
  __device__ uint32_t tiles_of_half() const { return (shape_.rows + kTileRows - 1) / kTileRows; }
  // Of the matrix, the block's first in a half.
  __device__ uint32_t first_tile_of(uint32_t half) const {
    return half * tiles_of_half() + block_x() * shape_.tiles_per_block;
  }
  // So that the compiler sees that it is the same in all lanes.
  __device__ static uint32_t warp_number() { return shuffle(warp(), 0); }

  // The warp's.
  __device__ ShareBlock share() const {
    const uint32_t group = warp_number() / shape_.share_warps, half = group / shape_.groups;
    const uint32_t first = group % shape_.groups * shape_.share_tiles;
    const bool has_any = half < halves() && first < tiles_;
    const uint32_t left = has_any ? tiles_ - first : 0;
    return {product_, dynamic_shared<float>() + (half * shape_.tiles_per_block + first) * kTileRows,
            first_tile_of(half) + first, left < shape_.share_tiles ? left : shape_.share_tiles};
  }

  // The weights of a walk's first step. The last tile comes first: else registers that become zeros, for tiles that
  // there are not, do so between the loads, and wait for those before them.
  __device__ static void load_first(const ShareBlock &block, const ShareWalk &walk, BitWeights<1> &weights) {
#pragma unroll
    for (uint32_t tile = kItems; tile-- > 0;) load_codes(block, walk, tile, weights.codes[tile]);
    load_own_scales<1>(block, walk, weights.scales);
  }

  // Starts bringing a row to shared memory, all of it at once.
  __device__ static void copy_row(float *to, const float *from, uint32_t columns) {
    for (uint32_t column = thread_anew() * kLaneColumns; column < columns; column += block_threads() * kLaneColumns) {
      copy_async(to + column, from + column, true);
    }
  }

  // Packs what lies in shared memory, into shared memory.
  __device__ void pack_token(float eps) {
    const float *const row = dynamic_shared<float>();
    uint8_t *const to = dynamic_shared<uint8_t>() + shape_.token_at;
    const uint32_t columns = shape_.columns, padded = padded_columns(product_);
    PackedActivations packed = {};
    packed.bit_planes = reinterpret_cast<uint32_t *>(to);
    packed.groups_128 = reinterpret_cast<GroupRecord *>(to + padded);
    packed.stride = 1;
    product_.activations = packed;
    const Destination destination = {packed, nullptr, 0, columns, padded};
    if (norm_) {
      pack(Normed{row, row + columns, columns, norm_scale(row, columns, eps)}, destination, 0, padded);
    } else {
      pack<kLayout.bits == 1 ? 2 : 1>(Plain{row, columns}, destination, 0, padded);
    }
  }

  // An output's sums of segments, added in order.
  __device__ float sum_of_segments(uint32_t output) const {
    const float *const sums = dynamic_shared<float>() + output;
    const uint32_t stride = product_.tiles_per_block * kTileRows;
    float sum = 0;
#pragma unroll 8
    for (uint32_t segment = 0; segment < product_.segments; ++segment) sum += sums[segment * stride];
    return sum;
  }

  __device__ void write_sums(float *residual, float *y) const {
    const uint32_t first_row = first_tile_of(0) * kTileRows;
    for (uint32_t i = thread(); i < tiles_ * kTileRows; i += block_threads()) {
      float sum = sum_of_segments(i);
      const uint32_t row = first_row + i;
      if (row >= shape_.rows) continue;
      if (product_.bias) sum += product_.bias[row];
      if (residual) sum = residual[i] = residual[i] + sum;
      y[row] = sum;
    }
  }

  __device__ void write_gated(float *y) const {
    const uint32_t first_row = first_tile_of(0) * kTileRows;
    for (uint32_t i = thread(); i < tiles_ * kTileRows; i += block_threads()) {
      const float gate = sum_of_segments(i), up = sum_of_segments(shape_.tiles_per_block * kTileRows + i);
      if (first_row + i < shape_.rows) y[first_row + i] = gated(gate, up);
    }
  }

  const LayerProductShape &shape_;
  MatmulArguments product_ = {};
  const float *norm_;  // null: none
  bool is_gated_;
  uint32_t tiles_;
};

}  // namespace bonsai::cuda
