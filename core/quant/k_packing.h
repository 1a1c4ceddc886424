// A super-block as numbers, and where its bits stand in the file (ggml's layout).
#pragma once

#include <cstddef>
#include <cstdint>

namespace bonsai::quant {

constexpr uint32_t kSuperBlock = 256;
constexpr uint32_t kMostSubBlocks = 16;

// Q2_K, Q4_K, Q5_K: value = d scale code - dmin min, per sub-block.
struct AffineBlock {
  float d = 0, dmin = 0;  // halves' values
  uint8_t scales[kMostSubBlocks] = {};
  uint8_t mins[kMostSubBlocks] = {};
  uint8_t codes[kSuperBlock] = {};
};

// Q3_K, Q6_K: value = d scale code, per sub-block of 16.
struct SymmetricBlock {
  float d = 0;  // a half's value
  int8_t scales[kMostSubBlocks] = {};
  int8_t codes[kSuperBlock] = {};
};

// Specialised per bit width: Block, the ranges, and the two directions. unpack() reads any bytes; pack() expects
// numbers within the ranges and writes the whole block.
template <uint32_t kBits>
struct KPacking;

template <>
struct KPacking<2> {
  using Block = AffineBlock;
  static constexpr uint32_t kSubWeights = 16;
  static constexpr int kMostCode = 3, kMostScale = 15;  // from 0; minima as scales
  static Block unpack(const std::byte *bytes);
  static void pack(const Block &block, std::byte *bytes);
};

template <>
struct KPacking<3> {
  using Block = SymmetricBlock;
  static constexpr uint32_t kSubWeights = 16;
  static constexpr int kCodes = 4, kScales = 32;  // from -this to this - 1
  static Block unpack(const std::byte *bytes);
  static void pack(const Block &block, std::byte *bytes);
};

template <>
struct KPacking<4> {
  using Block = AffineBlock;
  static constexpr uint32_t kSubWeights = 32;
  static constexpr int kMostCode = 15, kMostScale = 63;
  static Block unpack(const std::byte *bytes);
  static void pack(const Block &block, std::byte *bytes);
};

template <>
struct KPacking<5> {
  using Block = AffineBlock;
  static constexpr uint32_t kSubWeights = 32;
  static constexpr int kMostCode = 31, kMostScale = 63;
  static Block unpack(const std::byte *bytes);
  static void pack(const Block &block, std::byte *bytes);
};

template <>
struct KPacking<6> {
  using Block = SymmetricBlock;
  static constexpr uint32_t kSubWeights = 16;
  static constexpr int kCodes = 32, kScales = 128;
  static Block unpack(const std::byte *bytes);
  static void pack(const Block &block, std::byte *bytes);
};

}  // namespace bonsai::quant
