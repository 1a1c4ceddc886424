// y = W x for one to four tokens and 1-bit or 2-bit weights in groups of 128, which go into the tensor cores as single
// bits: mma_b1_k128 counts the ones that a row's bits have in common with each bit plane of the activations' codes, and
// the planes, of which the top one counts -128, add up to the sum of the codes where the row has ones. The same bytes
// as matmul_decode, in half of its instructions, where kHasBitMma; elsewhere these kernels are not launched.
#include "matmul_decode.cuh"

namespace bonsai::cuda {

static_assert(kLayout.packing == Packing::kCodesBy128 && kLayout.group == 128 && kLayout.bits <= 2);

constexpr uint32_t kGroups = kSegmentColumns / 128;
static_assert(kStepsInSegment == 1);

// A segment's bits: the lower and the upper of each code, of rows g and g + 8, in the order of one-bit weights.
struct BitFragments {
  uint32_t of[kGroups][kLayout.bits][2];

  __device__ explicit BitFragments(const StepWeights<kLayout> &weights) {
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
#pragma unroll
      for (uint32_t row = 0; row < 2; ++row) {
        if constexpr (kLayout.bits == 1) {
          of[group][0][row] = weights.codes[group / 2][group % 2 * 2 + row];
        } else {
          const uint32_t first = weights.codes[group][row], second = weights.codes[group][2 + row];
          of[group][0][row] = (first & 0x55555555) | (second & 0x55555555) << 1;
          of[group][1][row] = (first & 0xAAAAAAAA) >> 1 | (second & 0xAAAAAAAA);
        }
      }
    }
  }
};

// What a lane multiplies its counts with: it has planes 2 t and 2 t + 1, for rows g and, 16 bits up, g + 8.
struct PlaneValues {
  uint32_t of[4];

  __device__ PlaneValues() {
    const uint32_t t = lane() % 4;
    of[0] = 1u << 2 * t;
    of[1] = t == 3 ? 0u - 128u : 2u << 2 * t;
    of[2] = of[0] << 16;
    of[3] = of[1] << 16;
  }
};

// A group's sums of codes of rows g and, 16 bits up, g + 8 times a token, all modulo 2^16 of their own, in each lane.
__device__ inline uint32_t count(const uint32_t (&bits)[kLayout.bits][2], uint32_t plane, const PlaneValues &values) {
  int counts[4] = {};
  mma_b1_k128(counts, bits[0], plane);
  if constexpr (kLayout.bits == 2) {
    int upper[4] = {};
    mma_b1_k128(upper, bits[1], plane);
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) counts[i] += 2 * upper[i];
  }
  uint32_t sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) sum += static_cast<uint32_t>(counts[i]) * values.of[i];
  sum += shuffle_xor(sum, 1);
  return sum + shuffle_xor(sum, 2);
}

// Up to four tokens' products of one segment with 16 rows: lane t keeps token t's, of rows g and g + 8.
struct FourTokens {
  static constexpr uint32_t kTokens = kBitTokens;
  float segment[2] = {};

  __device__ void add(const DecodePlace &place, const StepWeights<kLayout> &weights) {
    const PackedActivations &activations = place.arguments.activations;
    const uint32_t left = place.arguments.n - place.first_token, n = left < kTokens ? left : kTokens;
    const BitFragments bits(weights);
    const PlaneValues values;
    uint32_t sums[kGroups] = {};  // of token t
#pragma unroll 1
    for (uint32_t token = 0; token < n; ++token) {
      const uint64_t at = uint64_t{place.first_token + token} * place.arguments.segments + place.segment;
      const Quad planes = *reinterpret_cast<const Quad *>(activations.bit_planes + (at * kWarp + lane()) * kGroups);
      const uint32_t of[kGroups] = {planes.x, planes.y, planes.z, planes.w};
#pragma unroll
      for (uint32_t group = 0; group < kGroups; ++group) {
        const uint32_t sum = count(bits.of[group], of[group], values);
        if (token == lane() % 4) sums[group] = sum;
      }
    }
#pragma unroll
    for (uint32_t group = 0; group < kGroups; ++group) {
      const uint64_t at = uint64_t{place.segment * kGroups + group} * activations.stride + place.first_token;
      add_group(sums[group], weights.scales[group], activations.groups_128[at + lane() % 4]);
    }
  }

  // As add_group of formats.cuh does it. The integers of both rows fit into 16 bits: a code less the offset is 2 at the
  // most, 128 of the activations' codes are 16,256 together.
  __device__ void add_group(uint32_t sum, uint32_t scales, const GroupRecord &record) {
    constexpr uint32_t kFactor = kLayout.bits == 1 ? 2 : 1;
    const uint32_t both = kFactor * sum - static_cast<uint32_t>(kLayout.offset * record.sum) * 0x10001u;
    const int first = static_cast<int16_t>(both);
    const int second = static_cast<int16_t>((both - static_cast<uint32_t>(first)) >> 16);
    float d[2];
    two_halves(scales, d);
    segment[0] = fmaf(static_cast<float>(first), d[0] * record.scale, segment[0]);
    segment[1] = fmaf(static_cast<float>(second), d[1] * record.scale, segment[1]);
  }

  __device__ void write(float *to) const {
    to += lane() % 4 * kTileRows + lane() / 4;
    to[0] = segment[0];
    to[8] = segment[1];
  }
};

// y for four tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, tokens 4 y to 4 y + 3; a warp has
// every segment that is its number, modulo the number of warps. Moves each weight of its tiles once.
BONSAI_KERNEL(matmul_bits, MatmulArguments, kDecodeMaxThreads, 3) {
  if constexpr (kHasBitMma) decode<FourTokens>(arguments);
}

}  // namespace bonsai::cuda
