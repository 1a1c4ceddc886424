// Products for few tokens: how a block shares a few tiles between its warps, segment by segment, and how the segments'
// sums come together. What a warp does with its weights is the Product's:
//   static constexpr uint32_t kTokens
//   void add(const DecodePlace &, const StepWeights<kLayout> &)   adds a step's products to the segment's sums
//   void write(float *to)                                         the segment's sums, (kTokens, 16)
// or else an overload of sum_segments.
#pragma once

#include "matmul.cuh"

namespace bonsai::cuda {

// Where a step is.
struct DecodePlace {
  const MatmulArguments &arguments;
  uint32_t first_token;
  uint32_t segment, step;
};

// The steps that a warp works through: its segments, of each the block's tiles, of each the steps. So a warp's part of
// the activations stays in the first-level cache.
struct Walk {
  uint32_t tiles, end_segment, segment_stride;
  uint32_t segment, tile, step;

  __device__ bool at_end() const { return segment >= end_segment; }
  __device__ Walk next() const {
    Walk walk = *this;
    if (++walk.step < kStepsInSegment) return walk;
    walk.step = 0;
    if (++walk.tile < tiles) return walk;
    walk.tile = 0;
    walk.segment += segment_stride;
    return walk;
  }
};

// A block's sums of segments, in shared memory: (kRoundSegments, tiles, kTokens, 16), behind (tiles, kTokens, 16)
// totals.
template <class Product>
struct DecodeBlock {
  const MatmulArguments &arguments;
  float *shared;
  uint32_t first, tiles;  // tiles of the matrix
  uint32_t first_token;

  static constexpr uint32_t kTileOutputs = Product::kTokens * kTileRows;
  static constexpr uint32_t kRoundSegments = round_segments(Product::kTokens);
  __device__ uint32_t outputs() const { return tiles * kTileOutputs; }
  __device__ float *sums(uint32_t segment) const { return shared + (1 + segment % kRoundSegments) * outputs(); }
  // Of the block's i-th output, of (tiles, kTokens, 16).
  __device__ uint32_t row(uint32_t i) const { return (first + i / kTileOutputs) * kTileRows + i % kTileRows; }
  __device__ uint32_t token(uint32_t i) const { return first_token + i / kTileRows % Product::kTokens; }
  __device__ float *result(uint32_t i) const { return find_result(arguments, row(i), token(i)); }
  // Of one of the block's tiles.
  __device__ const uint8_t *record(uint32_t tile, uint32_t segment) const {
    return tile_at(arguments, first + tile) + segment * kLayout.record_bytes();
  }
};

// Computes this warp's share of the segments in [begin, end). While a step is worked on, the next one's weights come,
// to registers or, where it is with so many tokens that these are short and the time is long, to the second-level
// cache. The first ones come before `wait`, which all threads call: while the kernels ahead end.
template <class Product, class Wait>
__device__ inline void sum_segments(const DecodeBlock<Product> &block, uint32_t begin, uint32_t end, Wait wait) {
  constexpr bool kComesLater = Product::kTokens > kDecodeTokens;
  Walk walk = {block.tiles, end, block_threads() / kWarp, begin + warp(), 0, 0};
  if (walk.at_end()) return wait();
  StepWeights<kLayout> weights = load_step<kLayout>(block.record(walk.tile, walk.segment), walk.step);
  wait();
  Product product;
  while (!walk.at_end()) {
    const Walk next = walk.next();
    const DecodePlace place = {block.arguments, block.first_token, walk.segment, walk.step};
    const auto load_next = [&](StepWeights<kLayout> &to) {
      if (!next.at_end()) to = load_step<kLayout>(block.record(next.tile, next.segment), next.step);
    };
    if constexpr (kComesLater) {
      if (next.step == 0 && !next.at_end()) {
        prefetch_together(block.record(next.tile, next.segment), kLayout.record_bytes());
      }
      product.add(place, weights);
      load_next(weights);
    } else {
      StepWeights<kLayout> next_weights = weights;
      load_next(next_weights);
      product.add(place, weights);
      weights = next_weights;
    }
    if (next.step == 0) {
      product.write(block.sums(walk.segment) + walk.tile * block.kTileOutputs);
      product = Product();
    }
    walk = next;
  }
}

// Adds the sums of segments [begin, end) to the totals, in order, and writes these after the last. `before`: what a
// thread's first result is added to, if it is one token's.
template <class Product>
__device__ inline void add_segments(const DecodeBlock<Product> &block, uint32_t begin, uint32_t end, float before) {
  for (uint32_t i = thread(); i < block.outputs(); i += block_threads()) {
    float total = begin == 0 ? 0.0f : block.shared[i];
#pragma unroll 8
    for (uint32_t segment = begin; segment < end; ++segment) total += block.sums(segment)[i];
    if (end < block.arguments.segments) {
      block.shared[i] = total;
      continue;
    }
    float *const y = block.result(i);
    if (!y) continue;
    const float added_to = Product::kTokens == 1 && i == thread() ? before : block.arguments.add ? *y : 0;
    write_result(block.arguments, block.row(i), block.token(i), total, y, added_to);
  }
}

// What block (x, y) does: tiles_per_block tiles from x * tiles_per_block on, kTokens tokens from y * kTokens on. For
// kernels that start early: waits for those ahead of them. What one token's results are added to comes while products
// are computed.
template <class Product>
__device__ inline void decode(const MatmulArguments &arguments) {
  const uint32_t begin = first_tile(arguments) + block_x() * arguments.tiles_per_block;
  const uint32_t left = end_tile(arguments) - begin;
  const DecodeBlock<Product> block = {arguments, dynamic_shared<float>(), begin,
                                      left < arguments.tiles_per_block ? left : arguments.tiles_per_block,
                                      block_y() * Product::kTokens};
  constexpr uint32_t kRound = DecodeBlock<Product>::kRoundSegments;
  // Loaded without a branch, for which matmul_bits has no registers: something that nobody asks for, where there is no
  // result, or it is added to nothing.
  const float *const source = arguments.add ? arguments.y : static_cast<const float *>(arguments.weights);
  float before = 0;
  for (uint32_t segment = 0; segment < arguments.segments; segment += kRound) {
    const uint32_t end = arguments.segments - segment < kRound ? arguments.segments : segment + kRound;
    if (segment > 0) sync_block();
    sum_segments(block, segment, end, [&] {
      wait_for_kernels_ahead();  // in later rounds over at once
      if constexpr (Product::kTokens == 1) {
        const uint32_t index = begin * kTileRows + thread() - arguments.first_row;
        before = source[index < arguments.rows ? index : 0];
      }
    });
    sync_block();
    add_segments(block, segment, end, before);
  }
}

}  // namespace bonsai::cuda
