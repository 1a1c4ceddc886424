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

constexpr uint32_t power(uint32_t base, uint32_t exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

// What is looked up of a group's 32 columns: fields, each of some columns, whose codes are the digits of its number,
// the entry. A row's record holds the fields one behind the other, kBits each. It also is bytes, of four codes or
// eight, whose codes can be multiplied.
template <CodeLayout kLayout>
struct AbreastFields {
  static constexpr bool kSigns = kLayout.bits == 1, kStrips = kLayout.strip_tiles > 1;
  static constexpr bool kTernary = !kSigns && kLayout.columns() >= 128;       // of the formats that there are
  static constexpr uint32_t kUnitRows = kStrips ? 2 * kTileRows : kTileRows;  // that are unpacked together

  static constexpr uint32_t kBase = kSigns ? 2 : kTernary ? 3 : 4, kBits = kSigns || kTernary ? 8 : 6;
  static constexpr uint32_t kDigits = kSigns ? 8 : kTernary ? 4 : 3, kEntries = power(kBase, kDigits);
  static constexpr uint32_t kFields = (kActivationGroup + kDigits - 1) / kDigits;
  static constexpr uint32_t first_code(uint32_t field) { return field * kDigits; }
  static constexpr uint32_t digits(uint32_t field) { return std::min(kDigits, kActivationGroup - first_code(field)); }

  static constexpr uint32_t kBytes = kSigns ? 4 : 8, kByteDigits = kActivationGroup / kBytes;
  static constexpr uint32_t kByteEntries = kTernary ? kEntries : 256;
  static constexpr uint32_t kWords = kByteDigits / 4;  // of four codes, in a byte

  // Where the code of a byte's column is among a group's activations, and any code in a record.
  static constexpr uint32_t byte_column(uint32_t byte, uint32_t digit) {
    if (kSigns) return 4 * digit + byte;
    return kLayout.base_three ? kTritFieldColumns[byte][digit] : byte / 4 * 16 + 4 * digit + byte % 4;
  }
  static constexpr uint32_t column(uint32_t code) { return byte_column(code / kByteDigits, code % kByteDigits); }
};

// The same of signs, whose fields are of 7 and 6 columns here, and of ternary codes: all tables of a group fit a
// first-level cache of 48 KiB, with what passes through it.
template <CodeLayout kLayout>
struct NarrowFields {
  using Wide = AbreastFields<kLayout>;
  static constexpr bool kSigns = Wide::kSigns;
  static_assert(kSigns || Wide::kTernary);
  static constexpr uint32_t kBase = Wide::kBase, kBytes = Wide::kBytes, kFields = kSigns ? 5 : Wide::kFields;
  static constexpr uint32_t first_code(uint32_t field) {
    return kSigns ? 6 * field + std::min(field, 2u) : Wide::first_code(field);
  }
  static constexpr uint32_t digits(uint32_t field) { return kSigns ? field < 2 ? 7 : 6 : Wide::digits(field); }
  static constexpr uint32_t column(uint32_t code) { return Wide::column(code); }

  // Where a field is in a record, and how long.
  static constexpr uint32_t first_bit(uint32_t field) { return kSigns ? first_code(field) : field * Wide::kBits; }
  static constexpr uint64_t mask(uint32_t field) { return (uint64_t{1} << (kSigns ? digits(field) : Wide::kBits)) - 1; }

  // The entries of those before a field.
  static constexpr uint32_t first_entry(uint32_t field) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < field; ++i) n += power(kBase, digits(i));
    return n;
  }
  static constexpr uint32_t kAllEntries = first_entry(kFields);
  static_assert(kAllEntries * kAbreastVectors * sizeof(int16_t) <= 44 * 1024);
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

  // Of vectors in the order of lanes, which then are at the next group.
  void gather(const int8_t *(&vectors)[kAbreastVectors]) {
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
    for (const int8_t *&of_vector : vectors) of_vector += kActivationGroup;
  }
};

// How many digits have so few combinations in a base.
constexpr uint32_t digits_of(uint32_t combinations, uint32_t base) {
  return combinations < base ? 0 : 1 + digits_of(combinations / base, base);
}

// The entries of a field's table, by number: one digit more is its column's codes once more (of a sign, twice). Sums of
// the lowest digits stay in registers, and those of the upper ones are added to them all.
template <class Lookup, uint32_t kBase, bool kSigns, uint32_t kDigits>
class FieldTable {
  static constexpr uint32_t kLower = std::min(kDigits, digits_of(Lookup::kHeldEntries, kBase));
  static constexpr uint32_t kLowerEntries = power(kBase, kLower);

 public:
  // column(digit): codes.
  template <class Column>
  [[gnu::always_inline]] explicit FieldTable(const Column &column) {
#pragma GCC unroll 8
    for (uint32_t digit = 0; digit < kDigits; ++digit) {
      const I16x32 codes = column(digit);
      least_ = Lookup::sub(least_, codes);
      steps_[digit] = kSigns ? Lookup::add(codes, codes) : codes;
    }
    uint32_t entries = 1;
#pragma GCC unroll 8
    for (uint32_t digit = 0; digit < kLower; ++digit) {
#pragma GCC unroll 16
      for (uint32_t i = 0; i < entries * (kBase - 1); ++i) lower_[i + entries] = Lookup::add(lower_[i], steps_[digit]);
      entries *= kBase;
    }
  }

  [[gnu::always_inline]] void store(int16_t (*table)[kAbreastVectors]) const { store_from<kDigits>(least_, table); }

 private:
  // All entries of a number of digits, with the upper ones' sum.
  template <uint32_t kLeft>
  [[gnu::always_inline]] void store_from(I16x32 sum, int16_t (*table)[kAbreastVectors]) const {
    if constexpr (kLeft == kLower) {
#pragma GCC unroll 16
      for (uint32_t i = 0; i < kLowerEntries; ++i) Lookup::store(table[i], Lookup::add(lower_[i], sum));
    } else {
#pragma GCC unroll 4
      for (uint32_t code = 0; code < kBase; ++code) {
        if (code > 0) sum = Lookup::add(sum, steps_[kLeft - 1]);
        store_from<kLeft - 1>(sum, table + code * power(kBase, kLeft - 1));
      }
    }
  }

  I16x32 least_ = {}, steps_[kDigits], lower_[kLowerEntries] = {};
};

template <class Fields, class Lookup, uint32_t kDigits>
[[gnu::noinline]] void tabulate_digits(const AbreastColumns &columns, uint32_t first_code,
                                       int16_t (*table)[kAbreastVectors]) {
  const auto column = [&](uint32_t digit) { return Lookup::load(columns.codes[Fields::column(first_code + digit)]); };
  FieldTable<Lookup, Fields::kBase, Fields::kSigns, kDigits>(column).store(table);
}

// A field has as many digits as the first one or as the last.
template <class Fields, class Lookup>
void tabulate_field(const AbreastColumns &columns, uint32_t field, int16_t (*table)[kAbreastVectors]) {
  constexpr uint32_t kMost = Fields::digits(0), kLeast = Fields::digits(Fields::kFields - 1);
  const uint32_t first = Fields::first_code(field);
  if (Fields::digits(field) == kMost) return tabulate_digits<Fields, Lookup, kMost>(columns, first, table);
  tabulate_digits<Fields, Lookup, kLeast>(columns, first, table);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
