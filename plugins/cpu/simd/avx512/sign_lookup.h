// Sums of signed activations by table lookup in AVX-512: the end of vector.h. no_sign_lookup.h says what each function
// does.
#pragma once

#include "plugins/cpu/kernels/bounds.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Keeps a value in a register from here on, and what it was computed from out of it.
inline void hold_in_register([[maybe_unused]] __m512i &a) {
#ifdef __AVX512F__  // and not emulated
  asm("" : "+v"(a));
#endif
}

// Calls place(group, its bytes) and then build(group, its bytes) for all groups, some of them at a time: what is built
// from bytes that have just been stored waits for them. They are loaded where they were stored; GCC would shuffle them
// out of registers, which takes the units that build the tables.
template <class Place, class Build>
[[gnu::always_inline]] inline void place_and_build(size_t groups, const Place &place, const Build &build) {
  constexpr size_t kAtOnce = 8;
  alignas(64) uint8_t bytes[kAtOnce][64];
  for (size_t first = 0; first < groups; first += kAtOnce) {
    const size_t n = groups - first < kAtOnce ? groups - first : kAtOnce;
    for (size_t i = 0; i < n; ++i) place(first + i, bytes[i]);
    asm("" : "+m"(bytes));
    for (size_t i = 0; i < n; ++i) build(first + i, bytes[i]);
  }
}

// What four codes are multiplied with in each of 32 entries of a table. vpdpbusd takes one side unsigned: codes go in
// with 128 added, and sums begin with what that makes of them. It makes 16 sums of 32 bits, and those of two vectors
// become 32 of 16 bits in the places that vpackssdw gives them.
struct EntryFactors {
  alignas(64) int8_t factors[2][64] = {};
  alignas(64) int32_t of_bias[2][16] = {};

  constexpr void set(int entry, const int (&of_entry)[4]) {
    const int half = entry / 4 % 2, lane = entry / 8 * 4 + entry % 4;
    for (int i = 0; i < 4; ++i) {
      factors[half][4 * lane + i] = static_cast<int8_t>(of_entry[i]);
      of_bias[half][lane] -= 128 * of_entry[i];
    }
  }
};

inline __m512i join_entries(__m512i first, __m512i second) { return _mm512_packs_epi32(first, second); }

// These in registers.
class HeldFactors {
 public:
  explicit HeldFactors(const EntryFactors &from) {
    for (int i = 0; i < 2; ++i) {
      factors_[i] = _mm512_load_si512(from.factors[i]);
      of_bias_[i] = _mm512_load_si512(from.of_bias[i]);
      hold_in_register(factors_[i]);
      hold_in_register(of_bias_[i]);
    }
  }

  // The table of four codes with 128 added.
  [[gnu::always_inline]] __m512i entries(const uint8_t *biased) const {
    const __m512i codes = splat_4_bytes(biased).v;
    return join_entries(_mm512_dpbusd_epi32(of_bias_[0], codes, factors_[0]),
                        _mm512_dpbusd_epi32(of_bias_[1], codes, factors_[1]));
  }

 private:
  __m512i factors_[2], of_bias_[2];
};

// What tables of any kind have in common.
struct LookupLanes {
  static constexpr bool kResultsInMemory = true;

  static void hold(I16x32 &a) { hold_in_register(a.v); }

  struct Table32 {
    __m512i entries;

    explicit Table32(const int16_t *from) : entries(_mm512_loadu_si512(from)) { hold_in_register(entries); }
    I16x32 look_up(I16x32 index) const { return {_mm512_permutexvar_epi16(index.v, entries)}; }
  };
  struct Table64 {
    __m512i lower, upper;

    explicit Table64(const int16_t *from) : lower(_mm512_loadu_si512(from)), upper(_mm512_loadu_si512(from + 32)) {
      hold_in_register(lower);
      hold_in_register(upper);
    }
    I16x32 look_up(I16x32 index) const { return {_mm512_permutex2var_epi16(lower, index.v, upper)}; }
  };

  // By multiplication: shifts go through the ports that lookups need.
  static I32x16 even_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1))}; }
  static I32x16 odd_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1 << 16))}; }
  static I16x32 upper_bytes(I16x32 a) { return {_mm512_mulhi_epu16(a.v, _mm512_set1_epi16(1 << 8))}; }

  static I16x32 splat_lanes(int32_t value) { return {_mm512_set1_epi16(static_cast<int16_t>(value))}; }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm512_add_epi16(a.v, b.v)}; }
  static I16x32 take_upper(I16x32 a, I16x32 b) { return {_mm512_sub_epi16(a.v, _mm512_slli_epi16(b.v, 8))}; }

  static float load_half(const void *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
  }

  static void store_codes(int8_t *to, I32x16 codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(codes.v));
  }

  static TableRange range_of_table(const int16_t *table, size_t elements) {
    __m512i least = _mm512_loadu_si512(table), greatest = least;
    for (size_t i = 32; i < elements; i += 32) {
      least = _mm512_min_epi16(least, _mm512_loadu_si512(table + i));
      greatest = _mm512_max_epi16(greatest, _mm512_loadu_si512(table + i));
    }
    return {reduce_min(least), -1 - reduce_min(_mm512_xor_si512(greatest, _mm512_set1_epi16(-1)))};
  }

  static void narrow_table(const int16_t *first, TableNarrowing of_first, const int16_t *second,
                           TableNarrowing of_second, size_t elements, int16_t *to) {
    for (size_t i = 0; i < elements; i += 32) {
      const __m512i upper = _mm512_slli_epi16(narrow(second + i, of_second), 8);
      _mm512_storeu_si512(to + i, _mm512_or_si512(narrow(first + i, of_first), upper));
    }
  }

 private:
  // Instructions find the least of 8 unsigned lanes.
  static int32_t reduce_min(__m512i a) {
    const __m256i half = _mm256_min_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i quarter = _mm_min_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i biased = _mm_xor_si128(quarter, _mm_set1_epi16(INT16_MIN));
    return _mm_extract_epi16(_mm_minpos_epu16(biased), 0) + INT16_MIN;
  }

  static __m512i narrow(const int16_t *from, TableNarrowing by) {
    const __m512i above = _mm512_sub_epi16(_mm512_loadu_si512(from), _mm512_set1_epi16(static_cast<int16_t>(by.least)));
    return _mm512_mulhi_epu16(above, _mm512_set1_epi16(static_cast<int16_t>(by.factor)));
  }
};

// First columns of a half's fields.
inline constexpr int kSignFields[] = {0, 6, 11};

// Of each half's three fields two words of four bytes, which tables are made of: the codes of bits 0, 1, 3 and 4, with
// 128 added; those of bit 2 and of the field's sixth bit, or 0, with 128 added and without.
struct SignPlaces {
  static constexpr uint8_t kZero = 0x80;  // to vpshufb
  alignas(64) uint8_t from[64] = {}, bias[64] = {};

  constexpr SignPlaces() {
    for (int half = 0; half < 2; ++half) {
      for (int field = 0; field < 3; ++field) {
        const int begin = kSignFields[field], sixth = field == 0 ? begin + 5 : kZero;
        const int places[8] = {begin, begin + 1, begin + 3, begin + 4, begin + 2, sixth, begin + 2, sixth};
        for (int i = 0; i < 8; ++i) {
          from[32 * half + 8 * field + i] = static_cast<uint8_t>(places[i]);
          bias[32 * half + 8 * field + i] = i < 6 ? 0x80 : 0;
        }
      }
    }
  }
};

// The first word's codes are added or taken away, as bits 0, 1, 3 and 4 of an entry's number say: that is what 16
// entries differ in. The second word's are taken away.
struct SignFactors {
  alignas(64) int8_t factors[64] = {};
  alignas(64) int32_t of_bias[16] = {};

  constexpr SignFactors() {
    for (int lane = 0; lane < 16; ++lane) {
      int sum = -2;
      for (int i = 0; i < 4; ++i) {
        const int factor = (lane >> i & 1) != 0 ? 1 : -1;
        factors[4 * lane + i] = static_cast<int8_t>(factor);
        sum += factor;
      }
      of_bias[lane] = -128 * sum;
    }
  }
};

// A group of 32 columns: of each row's word the lower 16 bits and the upper ones, in fields of 6, 5 and 5 bits. Entry i
// of a field's table is the sum of its activations a, +a where i has a 1 and -a where it has a 0: at most 6 * 127, and
// 32 * 127 for the group, which 16 bits hold.
struct SignLookup : LookupLanes {
  static constexpr bool kExists = true, kSignBytes = false;
  static constexpr size_t kElements = 256;
  static constexpr bool kSumsInRegisters = false;
  static constexpr int kTokens = 2, kBoundPairs = 1, kByteParts = 2;
  static constexpr uint32_t kTokensOfStrips = 3;
  static constexpr int kPairsAtOnce[] = {1, 4};
  static constexpr uint32_t kTableElements[] = {64, 32, 32, 64, 32, 32};

  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[1], size_t group,
                                               I16x32 (&sums)[1][1][1]) {
    const int16_t *lower = tables[0] + group;
    sums[0][0][0].v = _mm512_add_epi16(sum_half(_mm512_loadu_si512(words), lower),
                                       sum_half(_mm512_loadu_si512(words + 64), lower + kHalf));
  }

  // Of two tokens and several pairs a field after the other.
  template <int N>
  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[2], size_t group,
                                               I16x32 (&sums)[N][1][2]) {
    add_field<Table64, 0, true>(words, tables, group, sums);
    add_field<Table32, kSignFields[1], false>(words, tables, group + kSecondTable, sums);
    add_field<Table32, kSignFields[2], false>(words, tables, group + kThirdTable, sums);
    add_field<Table64, 0, false>(words + 64, tables, group + kHalf, sums);
    add_field<Table32, kSignFields[1], false>(words + 64, tables, group + kHalf + kSecondTable, sums);
    add_field<Table32, kSignFields[2], false>(words + 64, tables, group + kHalf + kThirdTable, sums);
  }

  template <int T>
  [[gnu::always_inline]] static void sum_bytes(const uint8_t *words, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[1][kByteParts][T]) {
    for (int t = 0; t < T; ++t) {
      sums[0][0][t].v = sum_half(_mm512_loadu_si512(words), tables[t] + group);
      sums[0][1][t].v = sum_half(_mm512_loadu_si512(words + 64), tables[t] + group + kHalf);
    }
  }

  static void sum_row(const uint32_t (&signs)[4], const int8_t *codes, int32_t (&sums)[4]) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(1);
    __m256i parts[4];
    for (int i = 0; i < 4; ++i) {
      const __m256i group = load_256(codes + 32 * i);
      const __m256i signed_group = _mm256_mask_sub_epi8(group, static_cast<__mmask32>(~signs[i]), zero, group);
      parts[i] = _mm256_dpbusd_epi32(zero, ones, signed_group);
    }
    const __m256i halves =
        _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]), _mm256_hadd_epi32(parts[2], parts[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(sums),
                     _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
  }

  static void build_groups(const int8_t *codes, size_t groups, int16_t *tables) {
    static constexpr SignPlaces kPlaces;
    const Tabulator tabulator;
    const auto place = [&](size_t group, uint8_t *words) {
      const __m256i of_group = load_256(codes + kActivationGroup * group);
      const __m512i halves =
          _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 1, 0, 1, 2, 3, 2, 3), _mm512_castsi256_si512(of_group));
      const __m512i placed = _mm512_shuffle_epi8(halves, _mm512_load_si512(kPlaces.from));
      _mm512_store_si512(words, _mm512_xor_si512(placed, _mm512_load_si512(kPlaces.bias)));
    };
    place_and_build(groups, place, [&](size_t group, const uint8_t *words) {
      for (int half = 0; half < 2; ++half) {
        const uint8_t *of_half = words + 32 * half;
        int16_t *to = tables + kElements * group + kHalf * half;
        tabulator.store_entries<true>(of_half, to);
        tabulator.store_entries<false>(of_half + 8, to + kSecondTable);
        tabulator.store_entries<false>(of_half + 16, to + kThirdTable);
      }
    });
  }

 private:
  static constexpr size_t kSecondTable = 64, kThirdTable = 96;  // where they begin
  static constexpr size_t kHalf = 128;                          // elements for 16 columns

  [[gnu::always_inline]] static __m512i sum_half(__m512i half, const int16_t *tables) {
    const __m512i first = _mm512_permutex2var_epi16(_mm512_loadu_si512(tables), half, _mm512_loadu_si512(tables + 32));
    const __m512i second =
        _mm512_permutexvar_epi16(_mm512_srli_epi16(half, kSignFields[1]), _mm512_loadu_si512(tables + kSecondTable));
    const __m512i third =
        _mm512_permutexvar_epi16(_mm512_srli_epi16(half, kSignFields[2]), _mm512_loadu_si512(tables + kThirdTable));
    return _mm512_add_epi16(_mm512_add_epi16(first, second), third);
  }

  template <class Table, int kShift, bool kBegins, int N>
  [[gnu::always_inline]] static void add_field(const uint8_t *words, const int16_t *const (&tables)[2], size_t at,
                                               I16x32 (&sums)[N][1][2]) {
    const Table of_token[2] = {Table(tables[0] + at), Table(tables[1] + at)};
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      const I16x32 field = {_mm512_srli_epi16(_mm512_loadu_si512(words + 128 * i), kShift)};
      for (int t = 0; t < 2; ++t) {
        const I16x32 found = of_token[t].look_up(field);
        sums[i][0][t] = kBegins ? found : add(sums[i][0][t], found);
        hold(sums[i][0][t]);
      }
    }
  }

  // Makes tables of a field's two words, with constants in registers.
  class Tabulator {
   public:
    Tabulator() {
      static constexpr SignFactors kFactors;
      factors_ = _mm512_load_si512(kFactors.factors);
      of_bias_ = _mm512_load_si512(kFactors.of_bias);
      hold_in_register(factors_);  // one by one: by their addresses GCC would keep them in memory
      hold_in_register(of_bias_);
      hold_in_register(taken_);
      hold_in_register(third_);
      hold_in_register(sixth_);
      hold_in_register(both_);
    }

    // 32 entries, or with a sixth bit 64.
    template <bool kSixth>
    [[gnu::always_inline]] void store_entries(const uint8_t *words, int16_t *to) const {
      const __m512i four = _mm512_dpbusd_epi32(of_bias_, splat_4_bytes(words).v, factors_);
      const __m512i second = splat_4_bytes(words + 4).v;
      const __m512i none = _mm512_dpbusd_epi32(four, second, taken_);
      _mm512_storeu_si512(to, join_entries(none, _mm512_dpbusd_epi32(none, third_, second)));
      if constexpr (kSixth) {
        const __m512i sixth = _mm512_dpbusd_epi32(none, sixth_, second);
        _mm512_storeu_si512(to + 32, join_entries(sixth, _mm512_dpbusd_epi32(none, both_, second)));
      }
    }

   private:
    __m512i factors_, of_bias_;
    __m512i taken_ = _mm512_set1_epi32(0xFFFF);                                        // the codes with 128 added
    __m512i third_ = _mm512_set1_epi32(2 << 16), sixth_ = _mm512_set1_epi32(2 << 24);  // twice those without
    __m512i both_ = _mm512_set1_epi32(2 << 16 | 2 << 24);
  };
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
