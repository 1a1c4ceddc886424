// What is looked up in memory of a group's columns, and how vectors are laid side by side for it: a part of
// abreast_matmul.inl.h. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/abreast.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/transpose.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A lane of 16 bits for each vector. Lanes are in the order that interleaving two groups' sums, and adding up the
// pairs, leaves in the order of vectors.
constexpr uint32_t vector_of_lane(uint32_t lane) { return lane / 8 * 4 + lane % 4 + lane / 4 % 2 * 16; }

// The columns of TritRecords' fields: what a field of code_layout.h holds, and a code of another one or one that lies
// by itself.
constexpr uint8_t kTritFieldColumns[8][4] = {{0, 1, 2, 25},    {3, 4, 5, 26},    {6, 7, 8, 27},    {9, 10, 11, 21},
                                             {12, 13, 14, 29}, {15, 16, 17, 30}, {18, 19, 20, 31}, {22, 23, 24, 28}};

// What is looked up of a group's 32 columns: fields, each of some columns, whose codes are the digits of its number,
// the entry. A row's record holds the fields one behind the other, kBits each. It also is bytes, of four codes or
// eight, whose codes can be multiplied.
template <CodeLayout kLayout>
struct AbreastFields {
  static constexpr bool kSigns = kLayout.bits == 1, kStrips = kLayout.strip_tiles > 1;
  static constexpr bool kTernary = !kSigns && kLayout.columns() >= 128;       // of the formats that there are
  static constexpr uint32_t kUnitRows = kStrips ? 2 * kTileRows : kTileRows;  // that are unpacked together

  static constexpr uint32_t kBase = kSigns ? 2 : kTernary ? 3 : 4, kBits = kSigns || kTernary ? 8 : 6;
  static constexpr uint32_t kDigits = kSigns ? 8 : kTernary ? 4 : 3, kEntries = kSigns ? 256 : kTernary ? 81 : 64;
  static constexpr uint32_t kFields = (kActivationGroup + kDigits - 1) / kDigits;
  static constexpr uint32_t digits(uint32_t field) { return std::min(kDigits, kActivationGroup - field * kDigits); }

  static constexpr uint32_t kBytes = kSigns ? 4 : 8, kByteDigits = kActivationGroup / kBytes;
  static constexpr uint32_t kByteEntries = kTernary ? kEntries : 256;
  static constexpr uint32_t kWords = kByteDigits / 4;  // of four codes, in a byte

  // Where the code of a byte's column is among a group's activations, and of a field's.
  static constexpr uint32_t byte_column(uint32_t byte, uint32_t digit) {
    if (kSigns) return 4 * digit + byte;
    return kLayout.base_three ? kTritFieldColumns[byte][digit] : byte / 4 * 16 + 4 * digit + byte % 4;
  }
  static constexpr uint32_t column(uint32_t field, uint32_t digit) {
    const uint32_t code = field * kDigits + digit;
    return byte_column(code / kByteDigits, code % kByteDigits);
  }
};

// What a byte's codes are, a byte each.
template <class Fields>
struct ByteCodes {
  alignas(64) uint8_t codes[Fields::kByteEntries][Fields::kByteDigits];

  constexpr ByteCodes() : codes() {
    for (uint32_t entry = 0; entry < Fields::kByteEntries; ++entry) {
      for (uint32_t digit = 0, rest = entry; digit < Fields::kByteDigits; ++digit, rest /= Fields::kBase) {
        codes[entry][digit] = static_cast<uint8_t>(rest % Fields::kBase);
      }
    }
  }
};

// As canonical_nan.
inline Floats4 canonical(Floats4 v) {
  const Ints4 is_number = v == v, nan = {0x7FC00000, 0x7FC00000, 0x7FC00000, 0x7FC00000};
  Ints4 bits;
  memcpy(&bits, &v, sizeof bits);
  bits = (bits & is_number) | (nan & ~is_number);
  memcpy(&v, &bits, sizeof v);
  return v;
}

// Codes of a group's columns, in 16 bits.
struct alignas(64) AbreastColumns {
  int16_t codes[kActivationGroup][kAbreastVectors];

  // Of vectors in the order of lanes.
  void gather(const int8_t *const (&vectors)[kAbreastVectors]) {
    typedef int16_t Words16 __attribute__((vector_size(32)));
    for (uint32_t column = 0; column < kActivationGroup; column += 16) {
      for (uint32_t lane = 0; lane < kAbreastVectors; lane += 16) {
        Bytes16 bytes[16];
        for (uint32_t i = 0; i < 16; ++i) memcpy(&bytes[i], vectors[lane + i] + column, sizeof bytes[i]);
        transpose_16(bytes);
        for (uint32_t i = 0; i < 16; ++i) {
          const Words16 words = __builtin_convertvector(bytes[i], Words16);
          memcpy(&codes[column + i][lane], &words, sizeof words);
        }
      }
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
