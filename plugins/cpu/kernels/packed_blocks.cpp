#include "plugins/cpu/kernels/packed_blocks.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "core/quant/codec.h"
#include "core/quant/fp8_blocks.h"
#include "core/quant/iq4_blocks.h"
#include "core/quant/k_packing.h"
#include "core/quant/ternary_blocks.h"
#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu {
namespace {

using quant::Format;
using quant::load;
using quant::store;

constexpr size_t kHalfBytes = 2;

// The same bits in each of a word's four bytes.
constexpr uint32_t in_each_byte(uint32_t bits) { return bits * 0x01010101u; }

// kBits of each code, from bit `shift` on, to words: four codes to the lowest bits of four bytes, the next four to the
// next bits, until the word is full.
template <uint32_t kBits>
void pack_words(const uint8_t *codes, uint32_t n, uint32_t shift, std::byte *words) {
  constexpr uint32_t kMask = in_each_byte((1u << kBits) - 1);
  for (uint32_t i = 0; i < n; words += 4) {
    uint32_t word = 0;
    for (uint32_t at = 0; at < 8; at += kBits, i += 4) {
      uint32_t four;
      std::memcpy(&four, codes + i, sizeof four);
      word |= (four >> shift & kMask) << at;
    }
    store(words, word);
  }
}

// The inverse: ors the bits into the codes.
template <uint32_t kBits>
void unpack_words(const std::byte *words, uint32_t n, uint32_t shift, uint8_t *codes) {
  constexpr uint32_t kMask = in_each_byte((1u << kBits) - 1);
  for (uint32_t i = 0; i < n; words += 4) {
    const auto word = load<uint32_t>(words);
    for (uint32_t at = 0; at < 8; at += kBits, i += 4) {
      uint32_t four;
      std::memcpy(&four, codes + i, sizeof four);
      four |= (word >> at & kMask) << shift;
      std::memcpy(codes + i, &four, sizeof four);
    }
  }
}

// -------- Formats whose blocks stay as they are

template <Format kFormat>
void decode_as_file(const std::byte *packed, float *weights) {
  const quant::FormatTraits &traits = quant::traits(kFormat);
  traits.decode(packed, weights, traits.block_weights);
}

template <Format kFormat>
constexpr BlockForm as_in_file() {
  return {.from_file = nullptr, .decode = decode_as_file<kFormat>};
}

// -------- Ternary formats: 2-bit codes behind d

// In base 3 in the file: becomes TQ2_0_G128's block.
void unpack_trits_128(const std::byte *file, std::byte *packed) {
  uint8_t codes[128] = {};
  quant::TQ1_0_G128::unpack(file, codes);
  quant::TQ2_0_G128::pack(codes, packed);
  std::memcpy(packed, file + quant::TQ1_0_G128::kScaleAt, kHalfBytes);
}

template <class Codec>
void pack_ternary_256(const std::byte *file, std::byte *packed) {
  uint8_t codes[256] = {};
  Codec::unpack(file, codes);
  std::memcpy(packed, file + Codec::kScaleAt, kHalfBytes);
  pack_words<2>(codes, 256, 0, packed + kHalfBytes);
}

void decode_ternary_256(const std::byte *packed, float *weights) {
  uint8_t codes[256] = {};
  unpack_words<2>(packed + kHalfBytes, 256, 0, codes);
  std::byte file[quant::TQ2_0::kBytes];
  quant::TQ2_0::pack(codes, file);
  std::memcpy(file + quant::TQ2_0::kScaleAt, packed, kHalfBytes);
  quant::TQ2_0::decode(file, weights);
}

// -------- Ternary formats in base 3: units of 13 words and a byte behind d (code_layout.h)

// Three codes of two bits as a field.
constexpr auto kTritFields = [] {
  std::array<uint8_t, 64> fields{};
  for (uint32_t codes = 0; codes < 64; ++codes) {
    fields[codes] = static_cast<uint8_t>((codes & 3) + 3 * (codes >> 2 & 3) + 9 * (codes >> 4));
  }
  return fields;
}();

// Of a group's codes, two bits each, the field that begins with a column.
uint32_t trit_field(uint64_t codes, uint32_t column) { return kTritFields[codes >> 2 * column & 63]; }

void unpack_trit_field(uint32_t field, uint8_t *codes) {
  codes[0] = static_cast<uint8_t>(field % 3);
  codes[1] = static_cast<uint8_t>(field / 3 % 3);
  codes[2] = static_cast<uint8_t>(field / 9);
}

constexpr uint32_t kGroupColumns = 32, kUnitGroups = 4, kGroupWords = 3;

// The six bits at the top of word i of a group, or its piece, which is the fourth.
uint32_t trit_top(uint64_t codes, uint32_t i) {
  return trit_field(codes, kTritTops[i]) | static_cast<uint32_t>(codes >> (2 * kTritExtras[i] + i % 2) & 1) << 5;
}

void unpack_trit_top(uint32_t top, uint32_t i, uint8_t *codes) {
  unpack_trit_field(top & 31, codes + kTritTops[i]);
  codes[kTritExtras[i]] |= static_cast<uint8_t>((top >> 5) << i % 2);
}

// From TQ2_0_G128's codes.
void pack_trit_unit(const std::byte *file, std::byte *packed) {
  uint32_t pieces[kUnitGroups];
  for (uint32_t group = 0; group < kUnitGroups; ++group) {
    const auto codes = load<uint64_t>(file + group * sizeof(uint64_t));
    for (uint32_t i = 0; i < kGroupWords; ++i, packed += kHalfBytes) {
      const uint32_t fields = trit_field(codes, 6 * i) | trit_field(codes, 6 * i + 3) << 5;
      store(packed, static_cast<uint16_t>(fields | trit_top(codes, i) << 10));
    }
    pieces[group] = trit_top(codes, kGroupWords);
  }
  store(packed, static_cast<uint16_t>(pieces[0] | pieces[1] << 6 | pieces[3] << 12));
  store(packed + kHalfBytes, static_cast<uint8_t>(pieces[2] | pieces[3] >> 4 << 6));
}

// Over zeros.
void unpack_trit_unit(const std::byte *packed, uint8_t *codes) {
  const std::byte *last = packed + kUnitGroups * kGroupWords * kHalfBytes;
  const uint32_t word = load<uint16_t>(last), rest = load<uint8_t>(last + kHalfBytes);
  const uint32_t pieces[] = {word & 63, word >> 6 & 63, rest & 63, word >> 12 | (rest >> 6) << 4};
  for (const uint32_t piece : pieces) {
    for (uint32_t i = 0; i < kGroupWords; ++i, packed += kHalfBytes) {
      const uint32_t fields = load<uint16_t>(packed);
      unpack_trit_field(fields & 31, codes + 6 * i);
      unpack_trit_field(fields >> 5 & 31, codes + 6 * i + 3);
      unpack_trit_top(fields >> 10, i, codes);
    }
    unpack_trit_top(piece, kGroupWords, codes);
    codes += kGroupColumns;
  }
}

template <class Codec>
void pack_trits(const std::byte *file, std::byte *packed) {
  using Unit = quant::TQ2_0_G128;
  std::memcpy(packed, file + Codec::kScaleAt, kHalfBytes);
  packed += kHalfBytes;
  if constexpr (std::is_same_v<Codec, Unit>) {
    pack_trit_unit(file + Unit::kCodesAt, packed);
  } else {
    uint8_t codes[Codec::kWeights] = {};
    Codec::unpack(file, codes);
    for (uint32_t i = 0; i < Codec::kWeights; i += kTritUnitColumns, packed += kTritUnitBytes) {
      std::byte unit[Unit::kBytes];
      Unit::pack(codes + i, unit);
      pack_trit_unit(unit + Unit::kCodesAt, packed);
    }
  }
}

template <class Codec>
void decode_trits(const std::byte *packed, float *weights) {
  uint8_t codes[Codec::kWeights] = {};
  for (uint32_t i = 0; i < Codec::kWeights / kTritUnitColumns; ++i) {
    unpack_trit_unit(packed + kHalfBytes + i * kTritUnitBytes, codes + i * kTritUnitColumns);
  }
  std::byte file[Codec::kBytes];
  Codec::pack(codes, file);
  std::memcpy(file + Codec::kScaleAt, packed, kHalfBytes);
  Codec::decode(file, weights);
}

template <class Codec>
constexpr BlockForm base_three() {
  return {.from_file = pack_trits<Codec>, .decode = decode_trits<Codec>};
}

// -------- Q5_0 and Q5_1: the fifth bits go behind the nibbles, in the order in which the kernel takes the nibbles

// Moves each bit of a word to the place whose number has the bits kHigh and kLow of its own exchanged.
template <uint32_t kHigh, uint32_t kLow>
uint32_t exchange(uint32_t word) {
  constexpr uint32_t kDistance = (1u << kHigh) - (1u << kLow);
  constexpr uint32_t kLower = [] {  // places with kLow set and kHigh not: the lower ones of each pair
    uint32_t places = 0;
    for (uint32_t i = 0; i < 32; ++i) places |= (i >> kLow & ~(i >> kHigh) & 1) << i;
    return places;
  }();
  const uint32_t differ = (word >> kDistance ^ word) & kLower;
  return word ^ differ ^ differ << kDistance;
}

// Column 16 k + 4 v + j has its nibble in byte j of word v, and the kernel takes it in step 2 v + k: its fifth bit goes
// to place 8 j + 2 v + k. In bits of these numbers: k v v j j becomes j j v v k.
uint32_t to_step_order(uint32_t bits) { return exchange<2, 1>(exchange<3, 1>(exchange<4, 1>(exchange<4, 0>(bits)))); }
uint32_t to_column_order(uint32_t bits) { return exchange<4, 0>(exchange<4, 1>(exchange<3, 1>(exchange<2, 1>(bits)))); }

constexpr uint32_t kFifthBitsBytes = 4, kNibblesBytes = 16;

template <uint32_t kScalesBytes>
void pack_five_bits(const std::byte *file, std::byte *packed) {
  std::memcpy(packed, file, kScalesBytes);
  std::memcpy(packed + kScalesBytes, file + kScalesBytes + kFifthBitsBytes, kNibblesBytes);
  store(packed + kScalesBytes + kNibblesBytes, to_step_order(load<uint32_t>(file + kScalesBytes)));
}

template <Format kFormat, uint32_t kScalesBytes>
void decode_five_bits(const std::byte *packed, float *weights) {
  std::byte file[kScalesBytes + kFifthBitsBytes + kNibblesBytes];
  std::memcpy(file, packed, kScalesBytes);
  store(file + kScalesBytes, to_column_order(load<uint32_t>(packed + kScalesBytes + kNibblesBytes)));
  std::memcpy(file + kScalesBytes + kFifthBitsBytes, packed + kScalesBytes, kNibblesBytes);
  decode_as_file<kFormat>(file, weights);
}

// -------- Super-blocks: the integers of sub-blocks a byte each, codes in order

// The packed block's parts as bytes; unlike AffineBlock and SymmetricBlock, codes count from 0.
template <CodeLayout kLayout>
struct SuperBlock {
  static constexpr uint32_t kIntegersAt = kLayout.scales() * kHalfBytes;
  static constexpr uint32_t kCodesAt = kIntegersAt + kLayout.integers();
  static constexpr uint32_t kHighAt = kCodesAt + kLayout.low_words() * 4;

  static void pack_codes(const uint8_t *codes, std::byte *packed) {
    pack_words<kLayout.bits>(codes, quant::kSuperBlock, 0, packed + kCodesAt);
    if constexpr (kLayout.high_bits > 0) {
      pack_words<kLayout.high_bits>(codes, quant::kSuperBlock, kLayout.bits, packed + kHighAt);
    }
  }

  static void unpack_codes(const std::byte *packed, uint8_t *codes) {
    unpack_words<kLayout.bits>(packed + kCodesAt, quant::kSuperBlock, 0, codes);
    if constexpr (kLayout.high_bits > 0) {
      unpack_words<kLayout.high_bits>(packed + kHighAt, quant::kSuperBlock, kLayout.bits, codes);
    }
  }
};

template <uint32_t kBits, CodeLayout kLayout>
void pack_affine(const std::byte *file, std::byte *packed) {
  using Parts = SuperBlock<kLayout>;
  const quant::AffineBlock block = quant::KPacking<kBits>::unpack(file);
  quant::store_half(packed, block.d);
  quant::store_half(packed + kHalfBytes, block.dmin);
  for (uint32_t i = 0; i < kLayout.sub_blocks; ++i) {
    if constexpr (kLayout.minimum == Minimum::kSharingBytes) {
      store(packed + Parts::kIntegersAt + i, static_cast<uint8_t>(block.scales[i] | block.mins[i] << 4));
    } else {
      store(packed + Parts::kIntegersAt + i, block.scales[i]);
      store(packed + Parts::kIntegersAt + kLayout.sub_blocks + i, block.mins[i]);
    }
  }
  Parts::pack_codes(block.codes, packed);
}

template <Format kFormat, uint32_t kBits, CodeLayout kLayout>
void decode_affine(const std::byte *packed, float *weights) {
  using Parts = SuperBlock<kLayout>;
  quant::AffineBlock block;
  block.d = quant::load_half(packed);
  block.dmin = quant::load_half(packed + kHalfBytes);
  for (uint32_t i = 0; i < kLayout.sub_blocks; ++i) {
    const auto scale = load<uint8_t>(packed + Parts::kIntegersAt + i);
    if constexpr (kLayout.minimum == Minimum::kSharingBytes) {
      block.scales[i] = scale & 15;
      block.mins[i] = scale >> 4;
    } else {
      block.scales[i] = scale;
      block.mins[i] = load<uint8_t>(packed + Parts::kIntegersAt + kLayout.sub_blocks + i);
    }
  }
  Parts::unpack_codes(packed, block.codes);
  std::byte file[kMaxBlockBytes];
  quant::KPacking<kBits>::pack(block, file);
  decode_as_file<kFormat>(file, weights);
}

template <uint32_t kBits, CodeLayout kLayout>
void pack_symmetric(const std::byte *file, std::byte *packed) {
  using Parts = SuperBlock<kLayout>;
  const quant::SymmetricBlock block = quant::KPacking<kBits>::unpack(file);
  quant::store_half(packed, block.d);
  std::memcpy(packed + Parts::kIntegersAt, block.scales, kLayout.sub_blocks);
  uint8_t codes[quant::kSuperBlock];
  for (uint32_t i = 0; i < quant::kSuperBlock; ++i) codes[i] = static_cast<uint8_t>(block.codes[i] + kLayout.offset);
  Parts::pack_codes(codes, packed);
}

template <Format kFormat, uint32_t kBits, CodeLayout kLayout>
void decode_symmetric(const std::byte *packed, float *weights) {
  using Parts = SuperBlock<kLayout>;
  quant::SymmetricBlock block;
  block.d = quant::load_half(packed);
  std::memcpy(block.scales, packed + Parts::kIntegersAt, kLayout.sub_blocks);
  uint8_t codes[quant::kSuperBlock] = {};
  Parts::unpack_codes(packed, codes);
  for (uint32_t i = 0; i < quant::kSuperBlock; ++i) block.codes[i] = static_cast<int8_t>(codes[i] - kLayout.offset);
  std::byte file[kMaxBlockBytes];
  quant::KPacking<kBits>::pack(block, file);
  decode_as_file<kFormat>(file, weights);
}

template <Format kFormat, uint32_t kBits, CodeLayout kLayout>
constexpr BlockForm super_block() {
  if constexpr (std::is_same_v<typename quant::KPacking<kBits>::Block, quant::AffineBlock>) {
    return {.from_file = pack_affine<kBits, kLayout>, .decode = decode_affine<kFormat, kBits, kLayout>};
  } else {
    return {.from_file = pack_symmetric<kBits, kLayout>, .decode = decode_symmetric<kFormat, kBits, kLayout>};
  }
}

void pack_iq4_xs(const std::byte *file, std::byte *packed) {
  using Parts = SuperBlock<kIQ4_XSLayout>;
  const quant::IQ4Block block = quant::IQ4_XS::unpack(file);
  quant::store_half(packed, block.d);
  std::memcpy(packed + Parts::kIntegersAt, block.scales, kIQ4_XSLayout.sub_blocks);
  Parts::pack_codes(block.codes, packed);
}

void decode_iq4_xs(const std::byte *packed, float *weights) {
  using Parts = SuperBlock<kIQ4_XSLayout>;
  quant::IQ4Block block;
  block.d = quant::load_half(packed);
  std::memcpy(block.scales, packed + Parts::kIntegersAt, kIQ4_XSLayout.sub_blocks);
  Parts::unpack_codes(packed, block.codes);
  std::byte file[quant::IQ4_XS::kBytes];
  quant::IQ4_XS::pack(block, file);
  quant::IQ4_XS::decode(file, weights);
}

// Q8_K's block is packed but for the sums at its end, which no value depends on.
void pack_eight_bits(const std::byte *file, std::byte *packed) { std::memcpy(packed, file, kQ8_KLayout.block_bytes()); }

// FP8's scale goes to the front: NaN if a code is NaN or infinite, which the kernels do not look for.
template <class Kind>
void pack_f8(const std::byte *file, std::byte *packed) {
  constexpr size_t kColumns = kF8Layout.columns();
  const auto is_number = [](std::byte code) { return (code & std::byte{0x7F}) <= std::byte{Kind::kLargest}; };
  const bool numbers = std::all_of(file, file + kColumns, is_number);
  std::memcpy(packed + kHalfBytes, file, kColumns);
  std::memcpy(packed, file + kColumns, kHalfBytes);
  if (!numbers) store(packed, uint16_t{0x7E00});
}

template <Format kFormat>
void decode_f8(const std::byte *packed, float *weights) {
  constexpr size_t kColumns = kF8Layout.columns();
  std::byte file[kF8Layout.block_bytes()];
  std::memcpy(file, packed + kHalfBytes, kColumns);
  std::memcpy(file + kColumns, packed, kHalfBytes);
  decode_as_file<kFormat>(file, weights);
}

BlockForm trits_form(Format format) {
  switch (format) {
    case Format::kTQ1_0_G128:
      return base_three<quant::TQ1_0_G128>();
    case Format::kTQ2_0_G128:
      return base_three<quant::TQ2_0_G128>();
    case Format::kTQ1_0:
      return base_three<quant::TQ1_0>();
    case Format::kTQ2_0:
      return base_three<quant::TQ2_0>();
    default:
      assert(false && "the format is not ternary");
      return {};
  }
}

}  // namespace

BlockForm block_form(Format format, Packing packing) {
  if (packing == Packing::kTrits) return trits_form(format);
  switch (format) {
    case Format::kQ8_0:
      return as_in_file<Format::kQ8_0>();
    case Format::kQ4_0:
      return as_in_file<Format::kQ4_0>();
    case Format::kQ4_1:
      return as_in_file<Format::kQ4_1>();
    case Format::kQ5_0:
      return {.from_file = pack_five_bits<2>, .decode = decode_five_bits<Format::kQ5_0, 2>};
    case Format::kQ5_1:
      return {.from_file = pack_five_bits<4>, .decode = decode_five_bits<Format::kQ5_1, 4>};
    case Format::kQ1_0_G128:
      return as_in_file<Format::kQ1_0_G128>();
    case Format::kTQ2_0_G128:
      return as_in_file<Format::kTQ2_0_G128>();
    case Format::kQ2_0_G64:
      return as_in_file<Format::kQ2_0_G64>();
    case Format::kTQ1_0_G128:
      return {.from_file = unpack_trits_128, .decode = decode_as_file<Format::kTQ2_0_G128>};
    case Format::kTQ2_0:
      return {.from_file = pack_ternary_256<quant::TQ2_0>, .decode = decode_ternary_256};
    case Format::kTQ1_0:
      return {.from_file = pack_ternary_256<quant::TQ1_0>, .decode = decode_ternary_256};
    case Format::kQ2_K:
      return super_block<Format::kQ2_K, 2, kQ2_KLayout>();
    case Format::kQ3_K:
      return super_block<Format::kQ3_K, 3, kQ3_KLayout>();
    case Format::kQ4_K:
      return super_block<Format::kQ4_K, 4, kQ4_KLayout>();
    case Format::kQ5_K:
      return super_block<Format::kQ5_K, 5, kQ5_KLayout>();
    case Format::kQ6_K:
      return super_block<Format::kQ6_K, 6, kQ6_KLayout>();
    case Format::kQ8_K:
      return {.from_file = pack_eight_bits, .decode = decode_as_file<Format::kQ8_K>};
    case Format::kIQ4_NL:
      return as_in_file<Format::kIQ4_NL>();
    case Format::kIQ4_XS:
      return {.from_file = pack_iq4_xs, .decode = decode_iq4_xs};
    case Format::kF8_E4M3:
      return {.from_file = pack_f8<quant::E4M3>, .decode = decode_f8<Format::kF8_E4M3>};
    case Format::kF8_E5M2:
      return {.from_file = pack_f8<quant::E5M2>, .decode = decode_f8<Format::kF8_E5M2>};
    default:
      assert(false && "the format is not repacked");
      return {};
  }
}

}  // namespace bonsai::cpu
