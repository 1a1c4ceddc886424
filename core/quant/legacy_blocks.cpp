#include "core/quant/legacy_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/quant/packing.h"
#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kBlock = 32;
constexpr uint32_t kHalfBytes = 2;  // d, and m where there is one
constexpr uint32_t kFifthBitsBytes = 4;

using LowFour = Interleaved<4, 16>;
using FifthBits = Interleaved<1, 1>;

struct Codes {
  uint8_t of[kBlock] = {};
};

Codes unpack_four(const std::byte *packed) {
  Codes codes;
  LowFour::unpack(packed, codes.of, kBlock);
  return codes;
}

Codes unpack_five(const std::byte *packed) {
  Codes codes;
  FifthBits::unpack(packed, codes.of, kBlock, 4);
  LowFour::unpack(packed + kFifthBitsBytes, codes.of, kBlock);
  return codes;
}

void pack_four(const Codes &codes, std::byte *packed) { LowFour::pack(codes.of, packed, kBlock); }

void pack_five(const Codes &codes, std::byte *packed) {
  FifthBits::pack(codes.of, packed, kBlock, 4);
  LowFour::pack(codes.of, packed + kFifthBitsBytes, kBlock);
}

void decode_symmetric(const Codes &codes, int middle, float d, float *weights) {
  for (uint32_t j = 0; j < kBlock; ++j) weights[j] = static_cast<float>(codes.of[j] - middle) * d;
}

void decode_affine(const Codes &codes, const std::byte *block, float *weights) {
  const float d = load_half(block);
  const float m = load_half(block + kHalfBytes);
  for (uint32_t j = 0; j < kBlock; ++j) weights[j] = static_cast<float>(codes.of[j]) * d + m;
}

// Codes 0 to 2 middle - 1 around `middle`. The x of largest magnitude, the first of equals, gets code 0, the one that
// reaches farthest from the middle.
Codes encode_symmetric(const float *weights, int middle, std::byte *block) {
  float extreme = 0;
  for (uint32_t j = 0; j < kBlock; ++j) {
    if (std::fabs(weights[j]) > std::fabs(extreme)) extreme = weights[j];
  }
  const float d = extreme / static_cast<float>(-middle);
  const float inverse = inverse_or_zero(d);
  const float offset = static_cast<float>(middle) + 0.5f;
  store_half(block, d);
  Codes codes;
  for (uint32_t j = 0; j < kBlock; ++j) {
    codes.of[j] = static_cast<uint8_t>(round_to_code(std::floor(weights[j] * inverse + offset), 0, 2 * middle - 1));
  }
  return codes;
}

// Codes 0 to `most` from the smallest weight to the largest.
Codes encode_affine(const float *weights, int most, std::byte *block) {
  float low = weights[0], high = weights[0];
  for (uint32_t j = 1; j < kBlock; ++j) {
    low = std::min(low, weights[j]);
    high = std::max(high, weights[j]);
  }
  const float d = (high - low) / static_cast<float>(most);
  const float inverse = inverse_or_zero(d);
  store_half(block, d);
  store_half(block + kHalfBytes, low);
  Codes codes;
  for (uint32_t j = 0; j < kBlock; ++j) {
    codes.of[j] = static_cast<uint8_t>(round_to_code(std::floor((weights[j] - low) * inverse + 0.5f), 0, most));
  }
  return codes;
}

}  // namespace

void Q8_0::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  for (uint32_t j = 0; j < kWeights; ++j) {
    weights[j] = static_cast<float>(load<int8_t>(block + kHalfBytes + j)) * d;
  }
}

void Q8_0::encode(const float *weights, std::byte *block) {
  float largest = 0;
  bool has_nan = false;
  for (uint32_t j = 0; j < kWeights; ++j) {
    largest = std::max(largest, std::fabs(weights[j]));
    has_nan |= std::isnan(weights[j]);
  }
  const float d = has_nan ? std::numeric_limits<float>::quiet_NaN() : largest / 127;
  const float inverse = inverse_or_zero(d);
  store_half(block, d);
  for (uint32_t j = 0; j < kWeights; ++j) {
    store(block + kHalfBytes + j, static_cast<int8_t>(round_to_code(weights[j] * inverse, -127, 127)));
  }
}

void Q4_0::decode(const std::byte *block, float *weights) {
  decode_symmetric(unpack_four(block + kHalfBytes), 8, load_half(block), weights);
}

void Q4_0::encode(const float *weights, std::byte *block) {
  pack_four(encode_symmetric(weights, 8, block), block + kHalfBytes);
}

void Q4_1::decode(const std::byte *block, float *weights) {
  decode_affine(unpack_four(block + 2 * kHalfBytes), block, weights);
}

void Q4_1::encode(const float *weights, std::byte *block) {
  pack_four(encode_affine(weights, 15, block), block + 2 * kHalfBytes);
}

void Q5_0::decode(const std::byte *block, float *weights) {
  decode_symmetric(unpack_five(block + kHalfBytes), 16, load_half(block), weights);
}

void Q5_0::encode(const float *weights, std::byte *block) {
  pack_five(encode_symmetric(weights, 16, block), block + kHalfBytes);
}

void Q5_1::decode(const std::byte *block, float *weights) {
  decode_affine(unpack_five(block + 2 * kHalfBytes), block, weights);
}

void Q5_1::encode(const float *weights, std::byte *block) {
  pack_five(encode_affine(weights, 31, block), block + 2 * kHalfBytes);
}

}  // namespace bonsai::quant
