// Sums of signed activations by table lookup in AVX2: the end of vector.h. portable/vector.h says what each function
// does.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What the four activations of each of 16 entries are multiplied with: +1 where the entry's number has the bit, -1
// where it has not. Entries 0 to 3 and 8 to 11 first, so that packing brings them all into order.
struct alignas(32) EntrySigns {
  int8_t factors[64];

  constexpr EntrySigns() : factors() {
    for (int i = 0; i < 64; ++i) {
      const int place = i / 4, entry = (place & 3) | (place & 4) << 1 | (place & 8) >> 1;
      factors[i] = (entry >> i % 4 & 1) != 0 ? 1 : -1;
    }
  }
};

// A group of 32 columns is 8 fields of 4 bits. A field's two tables, 16 bytes each, hold the sums of its activations,
// which are 4 * 127 at most, as 32 * upper + lower: lower in 0..31, upper in -16..15. Over the group these add up to
// 0..248 and -128..120. Less 128, and 4 more, both fit a signed byte: the first field's tables begin there.
struct SignLookup {
  static constexpr bool kExists = true;
  static constexpr size_t kElements = 128;
  static constexpr int kTokens = 4;  // that share the unpacking of fields

  template <int T>
  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[T]) {
    Parts parts[T];
    const int16_t *of_group[T];
    for (int t = 0; t < T; ++t) {
      parts[t] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
      of_group[t] = tables[t] + group;
      // GCC otherwise copies the tables, which are the same for all pairs of tiles, to the stack.
      asm("" : "+r"(of_group[t]));
    }
    const __m256i low_byte = _mm256_set1_epi16(0xFF);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const __m256i low = load_256(words + 64 * half), high = load_256(words + 64 * half + 32);
      const size_t table = half * kElements / 2;
      add_byte(_mm256_packus_epi16(_mm256_and_si256(low, low_byte), _mm256_and_si256(high, low_byte)), of_group, table,
               parts);
      add_byte(_mm256_packus_epi16(_mm256_srli_epi16(low, 8), _mm256_srli_epi16(high, 8)), of_group,
               table + kElements / 4, parts);
    }
    const __m256i factors = _mm256_set1_epi16(32 << 8 | 1);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const Parts &of = parts[t];
      sums[t] = {_mm256_maddubs_epi16(factors, _mm256_unpacklo_epi8(of.lower, of.upper)),
                 _mm256_maddubs_epi16(factors, _mm256_unpackhi_epi8(of.lower, of.upper))};
    }
  }

  static I32x16 even_lanes(I16x32 a) {
    const __m256i even = _mm256_set1_epi32(1);
    return {_mm256_madd_epi16(a.low, even), _mm256_madd_epi16(a.high, even)};
  }
  static I32x16 odd_lanes(I16x32 a) {
    const __m256i odd = _mm256_set1_epi32(1 << 16);
    return {_mm256_madd_epi16(a.low, odd), _mm256_madd_epi16(a.high, odd)};
  }

  static void store_codes(int8_t *to, I32x16 codes) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(codes.low, codes.high), kInOrder);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to),
                     _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }

  static void build_group(const int8_t *codes, int16_t *tables) {
    for (int field = 0; field < kFields; ++field) {
      const __m256i sums = sums_of(codes + 4 * field);
      __m256i lower = _mm256_and_si256(sums, _mm256_set1_epi16(31)), upper = _mm256_srai_epi16(sums, 5);
      if (field == 0) {
        lower = _mm256_sub_epi16(lower, _mm256_set1_epi16(128));
        upper = _mm256_add_epi16(upper, _mm256_set1_epi16(4));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(tables + field * (kElements / kFields)),
                          _mm256_permute4x64_epi64(_mm256_packs_epi16(lower, upper), kInOrder));
    }
  }

 private:
  static constexpr int kFields = 8;
  static constexpr int kInOrder = 0xD8;  // what packing has interleaved

  // Sums of 32 rows' parts.
  struct Parts {
    __m256i lower, upper;
  };

  // The two fields of a byte of each row.
  template <int T>
  [[gnu::always_inline]] static void add_byte(__m256i bytes, const int16_t *const (&tables)[T], size_t table,
                                              Parts (&parts)[T]) {
    const __m256i mask = _mm256_set1_epi8(15);
    add_field(_mm256_and_si256(bytes, mask), tables, table, parts);
    add_field(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask), tables, table + kElements / kFields, parts);
  }

  template <int T>
  [[gnu::always_inline]] static void add_field(__m256i field, const int16_t *const (&tables)[T], size_t table,
                                               Parts (&parts)[T]) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const int16_t *from = tables[t] + table;
      parts[t].lower = _mm256_add_epi8(parts[t].lower, look_up(from, field));
      parts[t].upper = _mm256_add_epi8(parts[t].upper, look_up(from + 8, field));
    }
  }

  static __m256i look_up(const int16_t *table, __m256i index) {
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_128(table)), index);
  }

  // The sums of 4 activations, in 16 bits.
  static __m256i sums_of(const int8_t *codes) {
    static constexpr EntrySigns kSigns;
    const __m256i four = splat_4_bytes(codes).low;
    return _mm256_packs_epi32(add_four(_mm256_sign_epi8(four, load_256(kSigns.factors))),
                              add_four(_mm256_sign_epi8(four, load_256(kSigns.factors + 32))));
  }

  static __m256i add_four(__m256i bytes) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
