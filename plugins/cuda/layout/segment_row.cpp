#include "plugins/cuda/layout/segment_row.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/quant/codec.h"
#include "core/quant/fp8_blocks.h"
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
  for (uint32_t i = at; i < at + 32; ++i) {
    if ((row.codes[i] & 0x7F) == quant::E4M3::kNaN) row.d[at / 32] = 0x7E00;
  }
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

// -------- Numbers

float number(Format format, const std::byte *from) {
  return format == Format::kBF16 ? quant::bfloat16_to_float(load<uint16_t>(from)) : load<float>(from);
}

// scale * (high + low); NaN's row has scale NaN, and zeros here.
void read_number(const SourceRow &source, uint64_t column, float scale, uint32_t at, SegmentRow &row) {
  if (source.format == Format::kF16) {
    row.high[at] = load<uint16_t>(source.blocks + column * 2);
    return;
  }
  if (std::isnan(scale)) return;
  const size_t bytes = source.format == Format::kBF16 ? 2 : 4;
  const float value = number(source.format, source.blocks + column * bytes) * (1 / scale);  // exact: a power of two
  row.high[at] = quant::float_to_half(value);
  row.low[at] = quant::float_to_half(value - quant::half_to_float(row.high[at]));
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
  const size_t bytes = row.format == Format::kBF16 ? 2 : 4;
  float largest = 0;
  for (uint64_t i = 0; i < row.columns; ++i) {
    const float magnitude = std::fabs(number(row.format, row.blocks + i * bytes));
    if (!std::isfinite(magnitude)) return std::numeric_limits<float>::quiet_NaN();
    largest = std::max(largest, magnitude);
  }
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
    for (uint32_t at = 0; at < columns; ++at) read_number(source, first + at, scale, at, row);
    return row;
  }
  const std::byte *block = source.blocks + first / traits.block_weights * traits.block_bytes;
  for (uint32_t at = 0; at < columns; at += traits.block_weights, block += traits.block_bytes) read(block, at, row);
  return row;
}

}  // namespace bonsai::cuda
