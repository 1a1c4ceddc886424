#include "plugins/cuda/layout/segment_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/quant/codec.h"
#include "core/quant/fp8_blocks.h"
#include "core/quant/iq4_blocks.h"
#include "core/quant/k_packing.h"
#include "core/quant/packing.h"
#include "core/quant/ternary_blocks.h"

namespace bonsai::cuda {
namespace {

using quant::Format;
using quant::Interleaved;
using quant::load;

// Each reads the block whose first weight is column `at` of the segment.
using ReadBlock = void (*)(const std::byte *block, uint32_t at, SegmentRow &row);

// -------- Codes of 1 and 2 bits, lowest first

// A byte's bits or bit pairs, a byte each, the lowest first.
template <uint32_t kBits, class Word>
constexpr std::array<Word, 256> make_spread() {
  std::array<Word, 256> spread = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (uint32_t i = 0; i < 8 / kBits; ++i) {
      spread[byte] |= static_cast<Word>(byte >> i * kBits & ((1u << kBits) - 1)) << 8 * i;
    }
  }
  return spread;
}

template <uint32_t kBits, class Word>
void spread_bytes(const std::byte *packed, uint32_t bytes, uint8_t *codes) {
  static constexpr std::array<Word, 256> kSpread = make_spread<kBits, Word>();
  for (uint32_t i = 0; i < bytes; ++i, codes += sizeof(Word)) {
    std::memcpy(codes, &kSpread[std::to_integer<uint8_t>(packed[i])], sizeof(Word));
  }
}

void read_one_bit(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.d[at / 128] = load<uint16_t>(block);
  spread_bytes<1, uint64_t>(block + 2, 16, row.codes + at);
}

template <uint32_t kGroup>
void read_two_bits(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.d[at / kGroup] = load<uint16_t>(block);
  spread_bytes<2, uint32_t>(block + 2, kGroup / 4, row.codes + at);
}

// Ternary blocks of other orders, in groups of 128.
template <class Codec>
void read_ternary(const std::byte *block, uint32_t at, SegmentRow &row) {
  for (uint32_t i = at; i < at + Codec::kWeights; i += 128) row.d[i / 128] = load<uint16_t>(block + Codec::kScaleAt);
  Codec::unpack(block, row.codes + at);
}

// -------- Blocks of 32

template <bool kMinimum, bool kFifthBits>
void read_nibbles(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.d[at / 32] = load<uint16_t>(block);
  block += 2;
  if constexpr (kMinimum) {
    row.m[at / 32] = load<uint16_t>(block);
    block += 2;
  }
  if constexpr (kFifthBits) {
    Interleaved<1, 1>::unpack(block, row.codes + at, 32, 4);
    block += 4;
  }
  Interleaved<4, 16>::unpack(block, row.codes + at, 32);
}

void read_q8_0(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.d[at / 32] = load<uint16_t>(block);
  std::memcpy(row.codes + at, block + 2, 32);
}

void read_e5m2(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.d[at / 32] = load<uint16_t>(block + 32);
  std::memcpy(row.codes + at, block, 32);
}

// The kernels' way to halves knows no NaN (formats.cuh): the group's scale says it.
void read_e4m3(const std::byte *block, uint32_t at, SegmentRow &row) {
  read_e5m2(block, at, row);
  bool has_nan = false;
  for (uint32_t i = at; i < at + 32; ++i) has_nan |= (row.codes[i] & 0x7F) == quant::E4M3::kNaN;
  if (has_nan) row.d[at / 32] = 0x7E00;
}

// -------- Super-blocks

template <uint32_t kBits>
void read_affine(const std::byte *block, uint32_t at, SegmentRow &row) {
  using Packing = quant::KPacking<kBits>;
  const quant::AffineBlock numbers = Packing::unpack(block);
  row.d[at / 256] = quant::float_to_half(numbers.d);
  row.m[at / 256] = quant::float_to_half(numbers.dmin);
  for (uint32_t i = 0; i < 256 / Packing::kSubWeights; ++i) {
    const uint32_t group = at / Packing::kSubWeights + i;
    row.integers[group] = numbers.scales[i];
    row.minima[group] = numbers.mins[i];
    if constexpr (kBits == 2) row.integers[group] |= static_cast<uint8_t>(numbers.mins[i] << 4);
  }
  std::memcpy(row.codes + at, numbers.codes, 256);
}

template <uint32_t kBits>
void read_symmetric(const std::byte *block, uint32_t at, SegmentRow &row) {
  using Packing = quant::KPacking<kBits>;
  const quant::SymmetricBlock numbers = Packing::unpack(block);
  row.d[at / 256] = quant::float_to_half(numbers.d);
  for (uint32_t i = 0; i < 16; ++i) row.integers[at / 16 + i] = static_cast<uint8_t>(numbers.scales[i]);
  for (uint32_t i = 0; i < 256; ++i) row.codes[at + i] = static_cast<uint8_t>(numbers.codes[i] + Packing::kCodes);
}

void read_q8_k(const std::byte *block, uint32_t at, SegmentRow &row) {
  row.float_d[at / 256] = load<float>(block);
  std::memcpy(row.codes + at, block + 4, 256);
}

void read_iq4_xs(const std::byte *block, uint32_t at, SegmentRow &row) {
  const quant::IQ4Block numbers = quant::IQ4_XS::unpack(block);
  row.d[at / 256] = quant::float_to_half(numbers.d);
  std::memcpy(row.integers + at / 32, numbers.scales, sizeof numbers.scales);
  std::memcpy(row.codes + at, numbers.codes, sizeof numbers.codes);
}

// -------- Numbers

struct RoundedHalf {
  uint16_t half;
  float rest;  // what rounding took away
};

// For magnitudes up to 2^15, to nearest, ties to even. Without branches, so that compilers make vectors of it: a model
// of such weights has billions.
inline RoundedHalf round_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits & 0x80000000, magnitude = bits ^ sign;
  const uint32_t is_subnormal = 0u - static_cast<uint32_t>(magnitude < 0x38800000);  // all ones below 2^-14
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;                      // the last bit is worth 2^-24
  const uint32_t rounded = (magnitude + 0xFFF + (magnitude >> 13 & 1)) & ~0x1FFFu;   // as a float still
  const uint32_t small = std::bit_cast<uint32_t>(shifted) - 0x3F000000,
                 small_kept = std::bit_cast<uint32_t>(shifted - 0.5f);
  const uint32_t half = (small & is_subnormal) | ((rounded - (112u << 23)) >> 13 & ~is_subnormal);
  const uint32_t kept = (small_kept & is_subnormal) | (rounded & ~is_subnormal);
  return {static_cast<uint16_t>(half | sign >> 16), value - std::bit_cast<float>(kept | sign)};
}

// Columns of a row of single numbers, scale * (high + low). A row that is not finite has scale NaN, and zeros here.
void read_numbers(const SourceRow &source, uint64_t first, uint32_t columns, float scale, SegmentRow &row) {
  if (source.format == Format::kF16) {
    std::memcpy(row.high, source.blocks + first * sizeof(uint16_t), columns * sizeof(uint16_t));
    return;
  }
  if (std::isnan(scale)) return;
  const quant::FormatTraits &traits = quant::traits(source.format);
  float values[kSegmentColumns];
  traits.decode(source.blocks + first * traits.block_bytes, values, columns);
  const float inverse = 1 / scale;
  for (uint32_t i = 0; i < columns; ++i) {
    const RoundedHalf high = round_to_half(values[i] * inverse);  // exact: a power of two
    row.high[i] = high.half;
    row.low[i] = round_to_half(high.rest).half;
  }
}

// The bits of a row's largest magnitude, as a float's: finite numbers, then infinity, then NaN.
template <class Bits>
uint32_t largest_magnitude(const std::byte *numbers, uint64_t n) {
  constexpr Bits kMagnitude = static_cast<Bits>(~Bits{0}) >> 1;
  Bits largest = 0;
  for (uint64_t i = 0; i < n; ++i) {
    largest = std::max(largest, static_cast<Bits>(load<Bits>(numbers + i * sizeof(Bits)) & kMagnitude));
  }
  return static_cast<uint32_t>(largest) << (32 - 8 * sizeof(Bits));
}

ReadBlock block_reader(Format format) {
  switch (format) {
    case Format::kQ1_0_G128:
      return read_one_bit;
    case Format::kTQ2_0_G128:
      return read_two_bits<128>;
    case Format::kQ2_0_G64:
      return read_two_bits<64>;
    case Format::kTQ1_0_G128:
      return read_ternary<quant::TQ1_0_G128>;
    case Format::kTQ2_0:
      return read_ternary<quant::TQ2_0>;
    case Format::kTQ1_0:
      return read_ternary<quant::TQ1_0>;
    case Format::kQ4_0:
    case Format::kIQ4_NL:
      return read_nibbles<false, false>;
    case Format::kQ4_1:
      return read_nibbles<true, false>;
    case Format::kQ5_0:
      return read_nibbles<false, true>;
    case Format::kQ5_1:
      return read_nibbles<true, true>;
    case Format::kQ8_0:
      return read_q8_0;
    case Format::kF8_E4M3:
      return read_e4m3;
    case Format::kF8_E5M2:
      return read_e5m2;
    case Format::kQ2_K:
      return read_affine<2>;
    case Format::kQ4_K:
      return read_affine<4>;
    case Format::kQ5_K:
      return read_affine<5>;
    case Format::kQ3_K:
      return read_symmetric<3>;
    case Format::kQ6_K:
      return read_symmetric<6>;
    case Format::kQ8_K:
      return read_q8_k;
    case Format::kIQ4_XS:
      return read_iq4_xs;
    case Format::kF16:
    case Format::kBF16:
    case Format::kF32:
      break;
  }
  return nullptr;  // single numbers
}

}  // namespace

float row_scale(const SourceRow &row) {
  if (row.format != Format::kBF16 && row.format != Format::kF32) return 1;
  const float largest =
      std::bit_cast<float>(row.format == Format::kBF16 ? largest_magnitude<uint16_t>(row.blocks, row.columns)
                                                       : largest_magnitude<uint32_t>(row.blocks, row.columns));
  if (!std::isfinite(largest)) return std::numeric_limits<float>::quiet_NaN();
  if (largest == 0) return 1;
  constexpr int kLeast = -126;  // the inverse is finite, too
  return std::ldexp(1.0f, std::max(std::ilogb(largest) - 14, kLeast));
}

SegmentRow read_segment(const SourceRow &source, uint64_t segment, float scale) {
  SegmentRow row;
  const uint64_t first = segment * kSegmentColumns;
  const auto columns = static_cast<uint32_t>(std::min<uint64_t>(kSegmentColumns, source.columns - first));
  const quant::FormatTraits &traits = quant::traits(source.format);
  const ReadBlock read = block_reader(source.format);
  if (read == nullptr) {
    read_numbers(source, first, columns, scale, row);
    return row;
  }
  const std::byte *block = source.blocks + first / traits.block_weights * traits.block_bytes;
  for (uint32_t at = 0; at < columns; at += traits.block_weights, block += traits.block_bytes) read(block, at, row);
  return row;
}

}  // namespace bonsai::cuda
