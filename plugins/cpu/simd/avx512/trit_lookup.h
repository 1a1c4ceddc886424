// Sums of activations times ternary codes by table lookup in AVX-512: the end of vector.h. no_trit_lookup.h says what
// each function does.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Tables of base 3: what the two pairs of bytes that a field's activations begin at are multiplied with in each of 32
// entries. The sixth bit's column lies behind the field's or before.
enum class TritTop { kNone, kBehind, kBefore };

struct TritFactors {
  alignas(64) int8_t first[64] = {}, second[64] = {};
  alignas(64) int16_t of_bias[32] = {};

  constexpr TritFactors(TritTop top, bool bit) {
    for (int entry = 0; entry < 32; ++entry) {
      const int codes[3] = {entry % 3 - 1, entry / 3 % 3 - 1, entry / 9 - 1};
      const int before[4] = {bit ? 2 : 0, codes[0], codes[1], codes[2]};
      const int behind[4] = {codes[0], codes[1], codes[2], top == TritTop::kNone ? 0 : bit ? 0 : -1};
      int sum = 0;
      for (int i = 0; i < 4; ++i) {
        const int factor = top == TritTop::kBefore ? before[i] : behind[i];
        (i < 2 ? first : second)[2 * entry + i % 2] = static_cast<int8_t>(factor);
        sum += factor;
      }
      of_bias[entry] = static_cast<int16_t>(-128 * sum);
    }
  }
};

struct TritLookup : LookupLanes {
  static constexpr bool kExists = true;
  static constexpr size_t kElements = 448;
  static constexpr int kTokens = 2;

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

  static void build_group(const int8_t *codes, int16_t *tables) {
    static constexpr TritFactors kField(TritTop::kNone, false);
    static constexpr TritFactors kTops[2][2] = {{{TritTop::kBehind, false}, {TritTop::kBehind, true}},
                                                {{TritTop::kBefore, false}, {TritTop::kBefore, true}}};
    alignas(32) uint8_t bytes[32];
    const __m256i biased = _mm256_xor_si256(load_256(codes), _mm256_set1_epi8(static_cast<char>(0x80)));
    _mm256_store_si256(reinterpret_cast<__m256i *>(bytes), biased);
    for (int i = 0; i < 6; ++i, tables += 32) store_sums(tables, bytes + 3 * i, kField);
    constexpr int kBegins[] = {18, 21, 25, 28};
    for (int i = 0; i < 4; ++i) {
      for (const TritFactors &factors : kTops[i % 2]) {
        store_sums(tables, bytes + kBegins[i], factors);
        tables += 32;
      }
    }
  }

 private:
  static __m512i splat_pair(const uint8_t *from) {
    int16_t pair;
    memcpy(&pair, from, sizeof pair);
    return _mm512_set1_epi16(pair);
  }

  [[gnu::always_inline]] static void store_sums(int16_t *to, const uint8_t *codes, const TritFactors &factors) {
    const __m512i first = _mm512_maddubs_epi16(splat_pair(codes), _mm512_load_si512(factors.first));
    const __m512i second = _mm512_maddubs_epi16(splat_pair(codes + 2), _mm512_load_si512(factors.second));
    const __m512i biased = _mm512_add_epi16(first, _mm512_load_si512(factors.of_bias));
    _mm512_storeu_si512(to, _mm512_add_epi16(biased, second));
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
