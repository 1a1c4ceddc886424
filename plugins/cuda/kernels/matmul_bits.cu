// y = W x for one to four tokens and 1-bit or 2-bit weights in groups of 128, which go into the tensor cores as single
// bits: mma_b1_k128 counts the ones that a row's bits have in common with each bit plane of the activations' codes, and
// the planes, of which the top one counts -128, add up to the sum of the codes where the row has ones. The same bytes
// as matmul_decode where kHasBitMma; elsewhere these kernels are not launched.
//
// What follows the counting would take most of the time if every lane did it for every tile: four items, that is tiles
// or tokens, are counted one after the other, and then lane t of four finishes item t.
#include "activation_packing.cuh"
#include "matmul_decode.cuh"

namespace bonsai::cuda {

static_assert(kLayout.packing == Packing::kCodesBy128 && kLayout.group == 128 && kLayout.bits <= 2);

constexpr uint32_t kGroups = kSegmentColumns / 128;
constexpr uint32_t kItems = 4;
constexpr uint32_t kQuads = kLayout.code_bytes() / (kWarp * sizeof(Quad));  // of a segment
using Four = uint32_t[kGroups];

// A segment of a tile as a lane has it.
struct SegmentCodes {
  uint32_t of[kQuads][4];
};

// Bits of rows g and g + 8 in one group of a segment, in the order of one-bit weights: the lower or the upper of each
// code.
__device__ inline void take_bits(const SegmentCodes &codes, uint32_t group, uint32_t upper, uint32_t (&bits)[2]) {
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    if constexpr (kLayout.bits == 1) {
      bits[row] = codes.of[group / 2][group % 2 * 2 + row];
    } else {
      const uint32_t first = codes.of[group][row], second = codes.of[group][2 + row];
      bits[row] = upper == 0 ? (first & 0x55555555) | (second & 0x55555555) << 1
                             : (first & 0xAAAAAAAA) >> 1 | (second & 0xAAAAAAAA);
    }
  }
}

// What this lane's planes, 2 t and 2 t + 1, are worth: (first + second * of the second) << shift.
struct PlaneValues {
  uint32_t shift = lane() % 4 * 2;
  uint32_t second = lane() % 4 == 3 ? 0u - 2u : 2u;  // plane 7 is the sign's
};

// This lane's part of a group's sums of codes of rows g and, 16 bits up, g + 8 times a token. The four lanes' parts add
// up to the sums, modulo 2^16 each.
__device__ inline uint32_t count(const SegmentCodes &codes, uint32_t group, uint32_t plane, const PlaneValues &values) {
  uint32_t bits[2];
  take_bits(codes, group, 0, bits);
  int counts[4] = {};
  mma_b1_k128(counts, bits, plane);
  uint32_t first = counts[0] + (counts[2] << 16), second = counts[1] + (counts[3] << 16);
  if constexpr (kLayout.bits == 2) {
    int upper[4] = {};
    take_bits(codes, group, 1, bits);
    mma_b1_k128(upper, bits, plane);
    first += 2 * (upper[0] + (upper[2] << 16));
    second += 2 * (upper[1] + (upper[3] << 16));
  }
  return (first + values.second * second) << values.shift;
}

// Lane t gets the sum of item t's four parts.
__device__ inline uint32_t sum_of_item(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  const bool upper = (lane() & 2) != 0, odd = (lane() & 1) != 0;
  const uint32_t even_item = (upper ? c : a) + shuffle_xor(upper ? a : c, 2);
  const uint32_t odd_item = (upper ? d : b) + shuffle_xor(upper ? b : d, 2);
  return (odd ? odd_item : even_item) + shuffle_xor(odd ? even_item : odd_item, 1);
}

// The sum of one item's four parts, for all four lanes.
__device__ inline uint32_t sum_of_four(uint32_t part) {
  part += shuffle_xor(part, 1);
  return part + shuffle_xor(part, 2);
}

// What a warp works through: its segments, of each the block's tiles, as many at a time as make four items.
template <uint32_t kTokens>
struct BitWalk {
  static constexpr uint32_t kTiles = kItems / kTokens;
  uint32_t tiles, end_segment;
  uint32_t segment, tile;

  __device__ bool at_end() const { return segment >= end_segment; }
  __device__ void advance() {
    tile += kTiles;
    if (tile < tiles) return;
    tile = 0;
    segment += block_threads() / kWarp;
  }
};

// The activations of a segment: every token's bit planes, and this lane's token's records.
template <uint32_t kTokens>
struct BitTokens {
  Four planes[kTokens];
  GroupRecord records[kGroups];

  __device__ void load_planes(const MatmulArguments &arguments, uint32_t first, uint32_t segment) {
    const PackedActivations &activations = arguments.activations;
#pragma unroll
    for (uint32_t i = 0; i < kTokens; ++i) {
      const uint32_t token = first + i < arguments.n ? first + i : first;  // what is not there is not written
      const uint64_t at = uint64_t{token} * arguments.segments + segment;
      const Quad quad = *reinterpret_cast<const Quad *>(activations.bit_planes + (at * kWarp + lane()) * kGroups);
      planes[i][0] = quad.x;
      planes[i][1] = quad.y;
      planes[i][2] = quad.z;
      planes[i][3] = quad.w;
    }
  }
  __device__ void load_records(const MatmulArguments &arguments, uint32_t first, uint32_t segment) {
    const PackedActivations &activations = arguments.activations;
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint64_t at = uint64_t{segment * kGroups + group} * activations.stride + first;
      records[group] = activations.groups_128[at + lane() % kTokens];
    }
  }
};

// The weights that a step takes: the codes of its tiles, and this lane's tile's scales.
template <uint32_t kTokens>
struct BitWeights {
  SegmentCodes codes[kItems / kTokens] = {};
  Four scales = {};
};

// Sums of rows g and g + 8 over a segment, as add_group of formats.cuh adds them. Both rows' integers fit into 16 bits:
// a code less the offset is 2 at the most, 128 of the activations' codes are 16,256 together.
struct RowSums {
  float of[2] = {};

  __device__ void add(uint32_t sum, uint32_t scales, const GroupRecord &record) {
    constexpr uint32_t kFactor = kLayout.bits == 1 ? 2 : 1;
    const uint32_t both = kFactor * sum - static_cast<uint32_t>(kLayout.offset * record.sum) * 0x10001u;
    const int first = static_cast<int16_t>(both);
    const int second = static_cast<int16_t>((both - static_cast<uint32_t>(first)) >> 16);
    float d[2];
    two_halves(scales, d);
    of[0] = fmaf(static_cast<float>(first), d[0] * record.scale, of[0]);
    of[1] = fmaf(static_cast<float>(second), d[1] * record.scale, of[1]);
  }
};

// kTokens tokens' products of a block's tiles, segment by segment (DecodeBlock).
template <uint32_t kOf>
struct BitProduct {
  static constexpr uint32_t kTokens = kOf;
};

// Loads what `walk` is at; tiles that the block does not have are left as they are.
template <class Block, class Walk>
__device__ inline void load_codes(const Block &block, const Walk &walk, uint32_t tile, SegmentCodes &codes) {
  if (walk.at_end() || walk.tile + tile >= block.tiles) return;
  const uint8_t *record = block.record(walk.tile + tile, walk.segment);
#pragma unroll
  for (uint32_t i = 0; i < kQuads; ++i) load_quad(record + (i * kWarp + lane()) * sizeof(Quad), codes.of[i]);
}
template <uint32_t kTokens, class Block, class Walk>
__device__ inline void load_own_scales(const Block &block, const Walk &walk, Four &scales) {
  const uint32_t tile = walk.tile + lane() % kItems / kTokens;
  if (walk.at_end() || tile >= block.tiles) return;
  load_quad(block.record(tile, walk.segment) + kLayout.scales_at() + lane() / 4 * kLayout.scale_bytes(), scales);
}
template <uint32_t kTokens, class Block, class Walk>
__device__ inline void load_step(const Block &block, const Walk &walk, BitWeights<kTokens> &weights) {
#pragma unroll
  for (uint32_t tile = 0; tile < kItems / kTokens; ++tile) load_codes(block, walk, tile, weights.codes[tile]);
  load_own_scales<kTokens>(block, walk, weights.scales);
}

// Computes the segments' sums from `walk` to its end; `weights` are those of its first step. As soon as a tile's
// weights are counted, those of the next step come in their place. kPacking: the token is in shared memory, whence it
// is read again for each step rather than kept, and tiles that there are not are not counted.
template <bool kPacking, uint32_t kTokens, class Block, class Walk>
__device__ inline void sum_steps(const Block &block, Walk walk, BitWeights<kTokens> &weights) {
  constexpr uint32_t kTiles = kItems / kTokens;
  const PlaneValues values;
  BitTokens<kTokens> tokens;
  while (!walk.at_end()) {
    if (kPacking || walk.tile == 0) tokens.load_planes(block.arguments, block.first_token, walk.segment);
    if (!kPacking && walk.tile == 0) tokens.load_records(block.arguments, block.first_token, walk.segment);
    Walk next = walk;
    next.advance();
    Four parts[kItems];
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      if (kPacking && walk.tile + tile >= block.tiles) continue;  // nor has any step that follows
#pragma unroll
      for (uint32_t token = 0; token < kTokens; ++token) {
#pragma unroll
        for (uint32_t group = 0; group < kGroups; ++group) {
          parts[tile * kTokens + token][group] = count(weights.codes[tile], group, tokens.planes[token][group], values);
        }
      }
      load_codes(block, next, tile, weights.codes[tile]);
    }
    if (kPacking) tokens.load_records(block.arguments, block.first_token, walk.segment);
    Four &sums = parts[0];
    if (kPacking && walk.tile + 1 >= block.tiles) {
#pragma unroll
      for (uint32_t group = 0; group < kGroups; ++group) sums[group] = sum_of_four(parts[0][group]);
    } else {
#pragma unroll
      for (uint32_t group = 0; group < kGroups; ++group) {
        sums[group] = sum_of_item(parts[0][group], parts[1][group], parts[2][group], parts[3][group]);
      }
    }
    RowSums rows;
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      rows.add(sums[group], weights.scales[group], tokens.records[group]);
    }
    load_own_scales<kTokens>(block, next, weights.scales);
    const uint32_t tile = walk.tile + lane() % kItems / kTokens, token = lane() % kTokens;
    if (tile < block.tiles) {
      float *to = block.sums(walk.segment) + (tile * kTokens + token) * kTileRows + lane() / 4;
      to[0] = rows.of[0];
      to[8] = rows.of[1];
    }
    walk = next;
  }
}

// Computes this warp's part of the segments in [begin, end).
template <uint32_t kTokens>
__device__ inline void sum_segments(const DecodeBlock<BitProduct<kTokens>> &block, uint32_t begin, uint32_t end) {
  const BitWalk<kTokens> walk = {block.tiles, end, begin + warp(), 0};
  if (walk.at_end()) return wait_for_kernels_ahead();
  BitWeights<kTokens> weights;
  load_step<kTokens>(block, walk, weights);
  wait_for_kernels_ahead();
  sum_steps<false, kTokens>(block, walk, weights);
}

// y for 1, 2 or 4 tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, as many tokens from the y-th
// on; a warp has every segment that is its number, modulo the number of warps. Moves each weight of its tiles once.
BONSAI_EARLY_KERNEL(matmul_bits_1, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 1)) {
  if constexpr (kHasBitMma) decode<BitProduct<1>>(arguments);
}
// The same for long rows: of a block of up to 24 warps, 16 with two bits, each has a segment or few, whose weights are
// on their way all at once.
BONSAI_EARLY_KERNEL(matmul_bits_1_long, MatmulArguments, long_max_threads(kLayout), 1) {
  if constexpr (kHasBitMma) decode<BitProduct<1>>(arguments);
}
BONSAI_EARLY_KERNEL(matmul_bits_2, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 2)) {
  if constexpr (kHasBitMma) decode<BitProduct<2>>(arguments);
}
BONSAI_EARLY_KERNEL(matmul_bits_4, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 4)) {
  if constexpr (kHasBitMma) decode<BitProduct<4>>(arguments);
}

// -------- The product that packs its token itself

// A block's tiles as one of its warps has them: its group's share of them, of which it has every share_warps-th
// segment. In shared memory: (1 + segments, tiles of the block, 16), what results are added to and the sums of
// segments.
struct PackingBlock {
  const MatmulArguments &arguments;
  float *shared;          // of the share
  uint32_t first, tiles;  // of the matrix, the share; no tiles: the warp has nothing
  static constexpr uint32_t first_token = 0;

  __device__ float *sums(uint32_t segment) const {
    return shared + (1 + segment) * arguments.tiles_per_block * kTileRows;
  }
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

// Asks the second-level cache for the weights of a step, a tile a lane.
__device__ inline void prefetch_step(const PackingBlock &block, const ShareWalk &walk) {
  const uint32_t tile = walk.tile + lane();
  if (lane() < kItems && tile < block.tiles) prefetch_bytes(block.record(tile, walk.segment), kLayout.record_bytes());
}

// Starts bringing a row to shared memory, all of it at once.
__device__ inline void copy_row(float *to, const float *from, uint32_t columns) {
  for (uint32_t column = thread() * kLaneColumns; column < columns; column += block_threads() * kLaneColumns) {
    copy_async(to + column, from + column, true);
  }
}

// Whether the row to be packed, and the norm's weights, are brought to shared memory first, where the segments' sums
// will be: read from there, they are waited for once, and not by turns.
__device__ inline bool stages_row(const PackingMatmulArguments &arguments) {
  const size_t addresses = reinterpret_cast<size_t>(arguments.x) | reinterpret_cast<size_t>(arguments.weight);
  return arguments.source != PackedSource::kGated && arguments.columns % kLaneColumns == 0 &&
         addresses % sizeof(Quad) == 0 && 2 * arguments.columns * sizeof(float) <= arguments.token_at;
}

// Packs the token into shared memory at `to`. `row` is null or what stages_row has brought.
__device__ inline PackedActivations pack_token(const PackingMatmulArguments &arguments, const float *row, uint8_t *to) {
  constexpr uint32_t kAtOnce = kLayout.bits == 1 ? 2 : 1;  // two would spill registers, beside two bits' first weights
  const uint32_t padded = padded_columns(arguments.product);
  PackedActivations packed = {};
  packed.bit_planes = reinterpret_cast<uint32_t *>(to);
  packed.groups_128 = reinterpret_cast<GroupRecord *>(to + padded);
  packed.stride = 1;
  const Destination destination = {packed, nullptr, 0, arguments.columns, padded};
  const uint32_t n = arguments.columns;
  if (arguments.source == PackedSource::kNormed) {
    const float *x = row ? row : arguments.x, *weight = row ? row + n : arguments.weight;
    pack(Normed{x, weight, n, norm_scale(x, n, arguments.eps)}, destination, 0, padded);
  } else if (arguments.source == PackedSource::kGated) {
    pack<kAtOnce>(Gated{arguments.x, arguments.x + n, n}, destination, 0, padded);
  } else {
    pack<kAtOnce>(Plain{row ? row : arguments.x, n}, destination, 0, padded);
  }
  return packed;
}

// What is in y at an output of the block, if anything is to be added to it. Rows before the first that was asked for
// have indices larger than any.
__device__ inline float load_old(const MatmulArguments &arguments, uint32_t index) {
  return arguments.add && index < arguments.rows ? arguments.y[index] : 0.0f;
}

// Adds each output's sums of segments, in order, and writes the results: the block's outputs from `index` of y on.
// What the first block_threads() of them are added to lies in front of the sums.
__device__ inline void write_outputs(const MatmulArguments &arguments, const float *shared, uint32_t outputs,
                                     uint32_t index) {
  const uint32_t stride = arguments.tiles_per_block * kTileRows;
  for (uint32_t i = thread(); i < outputs; i += block_threads()) {
    float sum = 0;
#pragma unroll 8
    for (uint32_t segment = 1; segment <= arguments.segments; ++segment) sum += shared[segment * stride + i];
    if (index + i >= arguments.rows) continue;
    if (arguments.bias) sum += arguments.bias[index + i];
    const float old = i < block_threads() ? shared[i] : load_old(arguments, index + i);
    arguments.y[index + i] = arguments.add ? old + sum : sum;
  }
}

// y for 1 token that nobody has packed: norm or SwiGLU, packing and product in one launch, the same bytes as in two.
// Block x: tiles_per_block tiles from x * tiles_per_block on, for all of which it packs the token once; each group of
// share_warps warps has share_tiles of them. Moves each weight of its tiles once, those of its warps' first two steps
// to the second-level cache before the kernels ahead have ended, and for each block the token's floats, from there.
BONSAI_EARLY_KERNEL(matmul_bits_1_packing, PackingMatmulArguments, long_max_threads(kLayout), 1) {
  if constexpr (kHasBitMma) {
    MatmulArguments product = arguments.product;
    float *const shared = dynamic_shared<float>();
    const uint32_t begin = first_tile(product) + block_x() * product.tiles_per_block;
    const uint32_t left = end_tile(product) - begin;
    const uint32_t tiles = left < product.tiles_per_block ? left : product.tiles_per_block;
    const uint32_t number = shuffle(warp(), 0);  // so that the compiler sees that it is the same in all lanes
    const uint32_t share = number / arguments.share_warps * arguments.share_tiles;
    const uint32_t first_segment = number % arguments.share_warps;
    const uint32_t share_left = share < tiles && first_segment < product.segments ? tiles - share : 0;
    const PackingBlock block = {product, shared + share * kTileRows, begin + share,
                                share_left < arguments.share_tiles ? share_left : arguments.share_tiles};
    const ShareWalk walk = {block.tiles, product.segments, first_segment, arguments.share_warps, first_segment, 0};

    float *const row = stages_row(arguments) ? shared : nullptr;
    if (row && arguments.weight) copy_row(row + arguments.columns, arguments.weight, arguments.columns);
    prefetch_step(block, walk);
    ShareWalk next = walk;
    next.advance();
    prefetch_step(block, next);
    wait_for_kernels_ahead();

    // The token goes first: behind all the weights it would come when they have come.
    const uint32_t outputs = tiles * kTileRows, first_index = begin * kTileRows - product.first_row;
    const float old = thread() < outputs ? load_old(product, first_index + thread()) : 0.0f;
    if (row) copy_row(row, arguments.x, arguments.columns);
    copy_async_commit();
    BitWeights<1> weights;
    load_step<1>(block, walk, weights);
    if (row) {
      copy_async_wait<0>();
      sync_block();
    }
    product.activations = pack_token(arguments, row, dynamic_shared<uint8_t>() + arguments.token_at);
    sync_block();
    if (thread() < outputs) shared[thread()] = old;
    sum_steps<true, 1>(block, walk, weights);
    sync_block();
    write_outputs(product, shared, outputs, first_index);
  }
}

}  // namespace bonsai::cuda
