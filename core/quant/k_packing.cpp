#include "core/quant/k_packing.h"

#include "core/quant/codec.h"
#include "core/quant/packing.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kSixBitScaleBytes = 12;

void add_to_all(const uint8_t *from, int offset, int8_t *to, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) to[i] = static_cast<int8_t>(from[i] + offset);
}

void add_to_all(const int8_t *from, int offset, uint8_t *to, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(from[i] + offset);
}

// Q4_K and Q5_K: eight 6-bit scales s and minima m. Bytes 0 to 3 hold s[0..3] and, in their top bits, the top two bits
// of s[4..7]; bytes 4 to 7 likewise m; bytes 8 to 11 the low nibbles of s[4..7] and, above them, of m[4..7].
void unpack_scales_and_mins(const std::byte *bytes, AffineBlock &block) {
  for (uint32_t i = 0; i < 4; ++i) {
    const auto s = std::to_integer<uint32_t>(bytes[i]);
    const auto m = std::to_integer<uint32_t>(bytes[4 + i]);
    const auto low = std::to_integer<uint32_t>(bytes[8 + i]);
    block.scales[i] = static_cast<uint8_t>(s & 63);
    block.mins[i] = static_cast<uint8_t>(m & 63);
    block.scales[4 + i] = static_cast<uint8_t>((low & 15) | (s >> 6) << 4);
    block.mins[4 + i] = static_cast<uint8_t>(low >> 4 | (m >> 6) << 4);
  }
}

void pack_scales_and_mins(const AffineBlock &block, std::byte *bytes) {
  for (uint32_t i = 0; i < 4; ++i) {
    bytes[i] = static_cast<std::byte>(block.scales[i] | (block.scales[4 + i] >> 4) << 6);
    bytes[4 + i] = static_cast<std::byte>(block.mins[i] | (block.mins[4 + i] >> 4) << 6);
    bytes[8 + i] = static_cast<std::byte>((block.scales[4 + i] & 15) | (block.mins[4 + i] & 15) << 4);
  }
}

}  // namespace

// 16 bytes of scale (low nibble) and min, 64 bytes of codes, d, dmin.
AffineBlock KPacking<2>::unpack(const std::byte *bytes) {
  AffineBlock block;
  for (uint32_t i = 0; i < kMostSubBlocks; ++i) {
    block.scales[i] = std::to_integer<uint8_t>(bytes[i] & std::byte{15});
    block.mins[i] = std::to_integer<uint8_t>(bytes[i] >> 4);
  }
  Interleaved<2, 32>::unpack(bytes + 16, block.codes, kSuperBlock);
  block.d = load_half(bytes + 80);
  block.dmin = load_half(bytes + 82);
  return block;
}

void KPacking<2>::pack(const AffineBlock &block, std::byte *bytes) {
  for (uint32_t i = 0; i < kMostSubBlocks; ++i) {
    bytes[i] = static_cast<std::byte>(block.scales[i] | block.mins[i] << 4);
  }
  Interleaved<2, 32>::pack(block.codes, bytes + 16, kSuperBlock);
  store_half(bytes + 80, block.d);
  store_half(bytes + 82, block.dmin);
}

// 32 bytes of the codes' third bits, 64 of their low two; of the scales 8 bytes of low nibbles and 4 of the top two
// bits; d.
SymmetricBlock KPacking<3>::unpack(const std::byte *bytes) {
  SymmetricBlock block;
  uint8_t codes[kSuperBlock] = {}, scales[kMostSubBlocks] = {};
  Interleaved<1, 32>::unpack(bytes, codes, kSuperBlock, 2);
  Interleaved<2, 32>::unpack(bytes + 32, codes, kSuperBlock);
  Interleaved<4, 8>::unpack(bytes + 96, scales, kMostSubBlocks);
  Interleaved<2, 4>::unpack(bytes + 104, scales, kMostSubBlocks, 4);
  add_to_all(codes, -kCodes, block.codes, kSuperBlock);
  add_to_all(scales, -kScales, block.scales, kMostSubBlocks);
  block.d = load_half(bytes + 108);
  return block;
}

void KPacking<3>::pack(const SymmetricBlock &block, std::byte *bytes) {
  uint8_t codes[kSuperBlock], scales[kMostSubBlocks];
  add_to_all(block.codes, kCodes, codes, kSuperBlock);
  add_to_all(block.scales, kScales, scales, kMostSubBlocks);
  Interleaved<1, 32>::pack(codes, bytes, kSuperBlock, 2);
  Interleaved<2, 32>::pack(codes, bytes + 32, kSuperBlock);
  Interleaved<4, 8>::pack(scales, bytes + 96, kMostSubBlocks);
  Interleaved<2, 4>::pack(scales, bytes + 104, kMostSubBlocks, 4);
  store_half(bytes + 108, block.d);
}

// d, dmin, 12 bytes of scales and minima, 128 bytes of codes.
AffineBlock KPacking<4>::unpack(const std::byte *bytes) {
  AffineBlock block;
  block.d = load_half(bytes);
  block.dmin = load_half(bytes + 2);
  unpack_scales_and_mins(bytes + 4, block);
  Interleaved<4, 32>::unpack(bytes + 4 + kSixBitScaleBytes, block.codes, kSuperBlock);
  return block;
}

void KPacking<4>::pack(const AffineBlock &block, std::byte *bytes) {
  store_half(bytes, block.d);
  store_half(bytes + 2, block.dmin);
  pack_scales_and_mins(block, bytes + 4);
  Interleaved<4, 32>::pack(block.codes, bytes + 4 + kSixBitScaleBytes, kSuperBlock);
}

// As Q4_K with 32 bytes of the codes' fifth bits before the low four.
AffineBlock KPacking<5>::unpack(const std::byte *bytes) {
  AffineBlock block;
  block.d = load_half(bytes);
  block.dmin = load_half(bytes + 2);
  unpack_scales_and_mins(bytes + 4, block);
  Interleaved<1, 32>::unpack(bytes + 4 + kSixBitScaleBytes, block.codes, kSuperBlock, 4);
  Interleaved<4, 32>::unpack(bytes + 36 + kSixBitScaleBytes, block.codes, kSuperBlock);
  return block;
}

void KPacking<5>::pack(const AffineBlock &block, std::byte *bytes) {
  store_half(bytes, block.d);
  store_half(bytes + 2, block.dmin);
  pack_scales_and_mins(block, bytes + 4);
  Interleaved<1, 32>::pack(block.codes, bytes + 4 + kSixBitScaleBytes, kSuperBlock, 4);
  Interleaved<4, 32>::pack(block.codes, bytes + 36 + kSixBitScaleBytes, kSuperBlock);
}

// 128 bytes of the codes' low nibbles, 64 of their top two bits, 16 of scales, d.
SymmetricBlock KPacking<6>::unpack(const std::byte *bytes) {
  SymmetricBlock block;
  uint8_t codes[kSuperBlock] = {};
  Interleaved<4, 64>::unpack(bytes, codes, kSuperBlock);
  Interleaved<2, 32>::unpack(bytes + 128, codes, kSuperBlock, 4);
  add_to_all(codes, -kCodes, block.codes, kSuperBlock);
  std::memcpy(block.scales, bytes + 192, kMostSubBlocks);
  block.d = load_half(bytes + 208);
  return block;
}

void KPacking<6>::pack(const SymmetricBlock &block, std::byte *bytes) {
  uint8_t codes[kSuperBlock];
  add_to_all(block.codes, kCodes, codes, kSuperBlock);
  Interleaved<4, 64>::pack(codes, bytes, kSuperBlock);
  Interleaved<2, 32>::pack(codes, bytes + 128, kSuperBlock, 4);
  std::memcpy(bytes + 192, block.scales, kMostSubBlocks);
  store_half(bytes + 208, block.d);
}

}  // namespace bonsai::quant
