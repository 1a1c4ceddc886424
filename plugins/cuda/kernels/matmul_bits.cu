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

  __device__ void load(const MatmulArguments &arguments, uint32_t first, uint32_t segment) {
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
template <uint32_t kTokens>
__device__ inline void load_codes(const DecodeBlock<BitProduct<kTokens>> &block, const BitWalk<kTokens> &walk,
                                  uint32_t tile, SegmentCodes &codes) {
  if (walk.at_end() || walk.tile + tile >= block.tiles) return;
  const uint8_t *record = block.record(walk.tile + tile, walk.segment);
#pragma unroll
  for (uint32_t i = 0; i < kQuads; ++i) load_quad(record + (i * kWarp + lane()) * sizeof(Quad), codes.of[i]);
}
template <uint32_t kTokens>
__device__ inline void load_own_scales(const DecodeBlock<BitProduct<kTokens>> &block, const BitWalk<kTokens> &walk,
                                       Four &scales) {
  const uint32_t tile = walk.tile + lane() % kItems / kTokens;
  if (walk.at_end() || tile >= block.tiles) return;
  load_quad(block.record(tile, walk.segment) + kLayout.scales_at() + lane() / 4 * kLayout.scale_bytes(), scales);
}

// Computes this warp's share of the segments in [begin, end). As soon as a tile's weights are counted, those of the
// next step come in their place.
template <uint32_t kTokens>
__device__ inline void sum_segments(const DecodeBlock<BitProduct<kTokens>> &block, uint32_t begin, uint32_t end) {
  constexpr uint32_t kTiles = BitWalk<kTokens>::kTiles;
  BitWalk<kTokens> walk = {block.tiles, end, begin + warp(), 0};
  if (walk.at_end()) return;
  BitWeights<kTokens> weights;
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile) load_codes(block, walk, tile, weights.codes[tile]);
  load_own_scales(block, walk, weights.scales);
  const PlaneValues values;
  BitTokens<kTokens> tokens;
  while (!walk.at_end()) {
    if (walk.tile == 0) tokens.load(block.arguments, block.first_token, walk.segment);
    BitWalk<kTokens> next = walk;
    next.advance();
    Four parts[kItems];
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (uint32_t token = 0; token < kTokens; ++token) {
#pragma unroll
        for (uint32_t group = 0; group < kGroups; ++group) {
          parts[tile * kTokens + token][group] = count(weights.codes[tile], group, tokens.planes[token][group], values);
        }
      }
      load_codes(block, next, tile, weights.codes[tile]);
    }
    RowSums rows;
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint32_t sum = sum_of_item(parts[0][group], parts[1][group], parts[2][group], parts[3][group]);
      rows.add(sum, weights.scales[group], tokens.records[group]);
    }
    load_own_scales(block, next, weights.scales);
    const uint32_t tile = walk.tile + lane() % kItems / kTokens, token = lane() % kTokens;
    if (tile < block.tiles) {
      float *to = block.sums(walk.segment) + (tile * kTokens + token) * kTileRows + lane() / 4;
      to[0] = rows.of[0];
      to[8] = rows.of[1];
    }
    walk = next;
  }
}

// y for 1, 2 or 4 tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, as many tokens from the y-th
// on; a warp has every segment that is its number, modulo the number of warps. Moves each weight of its tiles once.
BONSAI_KERNEL(matmul_bits_1, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 1)) {
  if constexpr (kHasBitMma) decode<BitProduct<1>>(arguments);
}
BONSAI_KERNEL(matmul_bits_2, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 2)) {
  if constexpr (kHasBitMma) decode<BitProduct<2>>(arguments);
}
BONSAI_KERNEL(matmul_bits_4, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 4)) {
  if constexpr (kHasBitMma) decode<BitProduct<4>>(arguments);
}

// Asks the second-level cache for the block's weights, so that they are under way while the token is packed. Not for
// more than this: with the head's, all blocks together would ask for more than the cache holds.
constexpr uint64_t kMostPrefetched = 48 << 10;
__device__ inline void prefetch_tiles(const MatmulArguments &arguments) {
  const uint32_t begin = first_tile(arguments) + block_x() * arguments.tiles_per_block;
  const uint32_t left = end_tile(arguments) - begin;
  const uint32_t tiles = left < arguments.tiles_per_block ? left : arguments.tiles_per_block;
  const uint8_t *from = tile_at(arguments, begin);
  const uint64_t all = tiles * arguments.tile_bytes, bytes = all < kMostPrefetched ? all : kMostPrefetched;
  for (uint64_t i = thread() * kCacheLine; i < bytes; i += block_threads() * kCacheLine) prefetch(from + i);
}

// Packs the token into shared memory at `to`.
__device__ inline PackedActivations pack_token(const PackingMatmulArguments &arguments, uint8_t *to) {
  const uint32_t padded = arguments.product.segments * kSegmentColumns;
  PackedActivations packed = {};
  packed.bit_planes = reinterpret_cast<uint32_t *>(to);
  packed.groups_128 = reinterpret_cast<GroupRecord *>(to + padded);
  packed.stride = 1;
  const Destination destination = {packed, nullptr, 0, arguments.columns, padded};
  const float *x = arguments.x;
  const uint32_t n = arguments.columns;
  if (arguments.source == PackedSource::kNormed) {
    pack(Normed{x, arguments.weight, n, norm_scale(x, n, arguments.eps)}, destination, 0, padded);
  } else if (arguments.source == PackedSource::kGated) {
    pack(Gated{x, x + n, n}, destination, 0, padded);
  } else {
    pack(Plain{x, n}, destination, 0, padded);
  }
  return packed;
}

// y for 1 token that nobody has packed: norm or SwiGLU, packing and product in one launch, the same bytes as in two.
// Block x: tiles_per_block tiles from x * tiles_per_block on. Moves each weight of its tiles once, and for each block
// the token's floats, from the second-level cache.
BONSAI_EARLY_KERNEL(matmul_bits_1_packing, PackingMatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 1)) {
  if constexpr (kHasBitMma) {
    prefetch_tiles(arguments.product);
    wait_for_kernels_ahead();
    MatmulArguments product = arguments.product;
    product.activations = pack_token(arguments, dynamic_shared<uint8_t>() + arguments.shared_bytes);
    sync_block();
    decode<BitProduct<1>>(product);
  }
}

}  // namespace bonsai::cuda
