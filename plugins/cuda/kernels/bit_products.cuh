// Products with 1-bit or 2-bit weights in groups of 128, which go into the tensor cores as single bits: mma_b1_k128
// counts the ones that a row's bits have in common with each bit plane of the activations' codes, and the planes, of
// which the top one counts -128, add up to the sum of the codes where the row has ones. The same bytes as matmul_decode
// where kHasBitMma.
//
// What follows the counting would take most of the time if every lane did it for every tile: four items, that is tiles
// or tokens, are counted one after the other, and then lane t of four finishes item t.
#pragma once

#include "matmul.cuh"

namespace bonsai::cuda {

static_assert(kLayout.packing == Packing::kCodesBy128 && kLayout.group == 128 && kLayout.bits <= 2);

constexpr uint32_t kGroups = kSegmentColumns / 128;
constexpr uint32_t kItems = kBitStepTiles;
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

// The activations of a segment: every token's bit planes, and this lane's token's records.
template <uint32_t kTokens>
struct BitTokens {
  Four planes[kTokens];
  GroupRecord records[kGroups];

  __device__ void load(const MatmulArguments &arguments, uint32_t first, uint32_t segment) {
    load_planes(arguments, first, segment);
    load_records(arguments, first, segment);
  }

 private:
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

// Asks for a tile's codes where `walk` is; tiles that the block does not have are left as they are. `after` is 0, of
// zero_after: what the loads are to wait for.
template <class Block, class Walk>
__device__ inline void load_codes(const Block &block, const Walk &walk, uint32_t tile, SegmentCodes &codes,
                                  uint32_t after = 0) {
  if (walk.at_end() || walk.tile + tile >= block.tiles) return;
  const uint8_t *record = block.record(walk.tile + tile, walk.segment) + after;
#pragma unroll
  for (uint32_t i = 0; i < kQuads; ++i) load_quad(record + (i * kWarp + lane()) * sizeof(Quad), codes.of[i]);
}
template <uint32_t kTokens, class Block, class Walk>
__device__ inline void load_own_scales(const Block &block, const Walk &walk, Four &scales) {
  const uint32_t tile = walk.tile + lane() % kItems / kTokens;
  if (walk.at_end() || tile >= block.tiles) return;
  load_quad(block.record(tile, walk.segment) + kLayout.scales_at() + lane() / 4 * kLayout.scale_bytes(), scales);
}

// Asks for the weights of a step. kInTurn, for what is asked for before the wait for the kernels ahead: of each tile
// when those of the one before are there. All at once they would stand in line, some of them for microseconds, and with
// them what the kernels ahead ask for, which is what they wait for. Where no kernel starts early, all at once. `after`,
// and what is returned for the next step: 0, when the tile before is there.
template <uint32_t kTokens, bool kInTurn = false, class Block, class Walk>
__device__ inline uint32_t load_step(const Block &block, const Walk &walk, BitWeights<kTokens> &weights,
                                     uint32_t after = 0) {
#pragma unroll
  for (uint32_t tile = 0; tile < kItems / kTokens; ++tile) {
    load_codes(block, walk, tile, weights.codes[tile], after);
    if constexpr (kInTurn && kStartsEarly) after = zero_after(weights.codes[tile].of[kQuads - 1][3]);
  }
  load_own_scales<kTokens>(block, walk, weights.scales);
  return after;
}

// A segment's sums of the tiles that `walk` is at. As soon as a tile's weights are counted, those of `next`, if it is
// not at the end, come in their place.
template <uint32_t kTokens, class Block, class Walk>
__device__ inline void sum_step(const Block &block, const Walk &walk, const PlaneValues &values,
                                const BitTokens<kTokens> &tokens, BitWeights<kTokens> &weights, const Walk &next) {
  constexpr uint32_t kTiles = kItems / kTokens;
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
  Four &sums = parts[0];
#pragma unroll
  for (uint32_t group = 0; group < kGroups; ++group) {
    sums[group] = sum_of_item(parts[0][group], parts[1][group], parts[2][group], parts[3][group]);
  }
  RowSums rows;
#pragma unroll
  for (uint32_t group = 0; group < kGroups; ++group) {
    rows.add(sums[group], weights.scales[group], tokens.records[group]);
  }
  load_own_scales<kTokens>(block, next, weights.scales);
  const uint32_t tile = walk.tile + lane() % kItems / kTokens, token = lane() % kTokens;
  if (tile >= block.tiles) return;
  float *to = block.sums(walk.segment) + (tile * kTokens + token) * kTileRows + lane() / 4;
  to[0] = rows.of[0];
  to[8] = rows.of[1];
}

// Computes the segments' sums from `walk` to its end; `weights` are those of its first step.
template <uint32_t kTokens, class Block, class Walk>
__device__ inline void sum_steps(const Block &block, Walk walk, BitWeights<kTokens> &weights) {
  const PlaneValues values;
  BitTokens<kTokens> tokens;
  while (!walk.at_end()) {
    if (walk.tile == 0) tokens.load(block.arguments, block.first_token, walk.segment);
    Walk next = walk;
    next.advance();
    sum_step<kTokens>(block, walk, values, tokens, weights, next);
    walk = next;
  }
}

}  // namespace bonsai::cuda
