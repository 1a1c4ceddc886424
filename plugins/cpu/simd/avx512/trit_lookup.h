// Sums of activations times ternary codes by table lookup in AVX-512: the end of vector.h. no_trit_lookup.h says what
// each function does.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A field's entries, of the first three codes from it on.
struct TritFactors : EntryFactors {
  constexpr TritFactors() {
    for (int entry = 0; entry < 32; ++entry) set(entry, {entry % 3 - 1, entry / 3 % 3 - 1, entry / 9 - 1, 0});
  }
};

struct TritLookup : LookupLanes {
  static constexpr bool kExists = true;
  static constexpr size_t kElements = 448;
  static constexpr int kTokens = 2;
  static constexpr uint32_t kTokensOfStrips = 2;

  static I16x32 load(const void *from) { return {_mm512_loadu_si512(from)}; }
  static I16x32 load_wide(const void *from) { return {_mm512_cvtepu8_epi16(load_256(from))}; }

  template <int kBits>
  static I16x32 shift_right(I16x32 a) {
    return {_mm512_srli_epi16(a.v, kBits)};
  }

  static I16x32 nibble_and_top(I16x32 a, I16x32 b) {
    const __m512i top = _mm512_and_si512(_mm512_srli_epi16(b.v, 2), _mm512_set1_epi16(0x30));
    return {_mm512_or_si512(_mm512_srli_epi16(a.v, 12), top)};
  }

  static I16x32 lookup32(const int16_t *table, I16x32 index) {
    return {_mm512_permutexvar_epi16(index.v, _mm512_loadu_si512(table))};
  }
  static I16x32 lookup64(const int16_t *table, I16x32 index) {
    return {_mm512_permutex2var_epi16(_mm512_loadu_si512(table), index.v, _mm512_loadu_si512(table + 32))};
  }

  static void build_groups(const int8_t *codes, size_t groups, int16_t *tables) {
    static constexpr TritFactors kFactors;
    const HeldFactors field(kFactors);
    const auto place = [&](size_t group, uint8_t *biased) {
      const __m256i bias = _mm256_set1_epi8(static_cast<char>(0x80));
      const __m256i of_group = load_256(codes + kActivationGroup * group);
      _mm256_store_si256(reinterpret_cast<__m256i *>(biased), _mm256_xor_si256(of_group, bias));
      biased[kActivationGroup] = 0;
    };
    place_and_build(groups, place, [&](size_t group, const uint8_t *biased) {
      build_group(field, codes + kActivationGroup * group, biased, tables + kElements * group);
    });
  }

 private:
  // The sixth bit of a top is the lower bit of a column's code, 0 or 1 times its activation, or the upper one, 0 or 2
  // times that, and one of the two has the code's offset. `biased`: codes with 128 added, and one more byte.
  [[gnu::always_inline]] static void build_group(const HeldFactors &field, const int8_t *codes, const uint8_t *biased,
                                                 int16_t *tables) {
    for (int i = 0; i < 6; ++i, tables += 32) _mm512_storeu_si512(tables, field.entries(biased + 3 * i));
    for (int i = 0; i < 4; ++i, tables += 64) {
      const __m512i three = field.entries(biased + kTritTops[i]);
      const __m512i extra = _mm512_set1_epi16(codes[kTritExtras[i]]);
      const bool is_upper = i % 2 != 0;
      _mm512_storeu_si512(tables, is_upper ? three : _mm512_sub_epi16(three, extra));
      _mm512_storeu_si512(tables + 32, is_upper ? _mm512_add_epi16(three, _mm512_add_epi16(extra, extra)) : three);
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
