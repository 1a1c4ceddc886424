// Ternary weights in base 3 (code_layout.h) times int8 activations by table lookup: what lookup_matmul.inl.h calls for
// pairs of tiles. The integers are those that codes_matmul.inl.h gets by multiplying 2-bit codes. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/lookup_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr int kTritGroups = 4;      // of a unit
constexpr int kTritGroupWords = 3;  // of a group's own, before its piece

// A group's tables: of its fields of five bits, 32 entries each; then of the tops of its words and of its piece, 64.
// Entry i is the sum of the activations times code - 1, what a sixth bit stands for of its column included: at most 32
// * 127 for the group, which 16 bits hold.
constexpr size_t kTopTables = 6 * 32;

// Two tiles side by side: where their words and bytes begin.
struct PairOfUnits {
  const uint8_t *words, *rests;
};

// The six bits of a group's piece, the upper bits unspecified.
template <class Lookup, int kGroup>
[[gnu::always_inline]] inline I16x32 piece_of_group(PairOfUnits unit) {
  const auto word = [&] { return Lookup::load(unit.words + kTritGroups * kTritGroupWords * kTritWordStride); };
  if constexpr (kGroup == 0) return word();
  if constexpr (kGroup == 1) return Lookup::template shift_right<6>(word());
  if constexpr (kGroup == 2) return Lookup::load_wide(unit.rests);
  return Lookup::nibble_and_top(word(), Lookup::load_wide(unit.rests));
}

// A unit, for T tokens.
template <int T, class Requests>
struct UnitWork {
  PairOfUnits pair;  // the first one
  Requests requests;
  size_t share;  // what part of these is this unit's
  const LookupWork<T> &work;
  size_t group;  // of the row: the unit's first
};

// Weights that are asked for in time, a part of a unit's with each of 12 words. The compiler would move it all to the
// beginning.
constexpr size_t kBytesOfWord = 5 * 64;
template <int kWord, class Unit>
[[gnu::always_inline]] inline void ask_for_lines(const Unit &unit) {
  asm volatile("" ::: "memory");
  unit.requests.ask(unit.share + kWord * kBytesOfWord, kBytesOfWord);
}

// The sums of a group so far, those of two rows in each lane: the first tile's rows in the even places.
template <int kPairs, int T>
using TritSums = I16x32[T][kPairs];

// Adds what a field of each pair says, which `field_of(pair)` gives. All pairs take turns with a table, so that it is
// loaded once. Everything is held where it is: GCC would load tables for each pair again, and keep what is looked up
// for later sums.
template <class Lookup, class Table, int kPairs, int T, class FieldOf>
[[gnu::always_inline]] inline void add_field(const int16_t *const (&of_tokens)[T], size_t at, const FieldOf &field_of,
                                             TritSums<kPairs, T> &sums) {
  I16x32 fields[kPairs];
#pragma GCC unroll 4
  for (int i = 0; i < kPairs; ++i) {
    fields[i] = field_of(i);
    Lookup::hold(fields[i]);
  }
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    const Table table(of_tokens[t] + at);
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
      sums[t][i] = Lookup::add(sums[t][i], table.look_up(fields[i]));
      Lookup::hold(sums[t][i]);
    }
  }
}

// Adds what a word of a unit says, a field after the other.
template <class Lookup, int kWord, bool asks, int kPairs, int T, class Requests>
requires(!asks) [[gnu::always_inline]] inline void add_trit_word(const UnitWork<T, Requests> &unit, size_t tables,
                                                                 TritSums<kPairs, T> &sums) {
  constexpr size_t kOfGroup = kWord % kTritGroupWords;
  const uint8_t *words = unit.pair.words + kWord * kTritWordStride;
  const auto word = [words](int i) { return Lookup::load(words + i * kPackedAlignment); };
  const auto second = [word](int i) { return Lookup::template shift_right<5>(word(i)); };
  const auto last = [word](int i) { return Lookup::template shift_right<10>(word(i)); };
  const auto &of_tokens = unit.work.tables;
  add_field<Lookup, typename Lookup::Table32>(of_tokens, tables + 64 * kOfGroup, word, sums);
  add_field<Lookup, typename Lookup::Table32>(of_tokens, tables + 64 * kOfGroup + 32, second, sums);
  add_field<Lookup, typename Lookup::Table64>(of_tokens, tables + kTopTables + 64 * kOfGroup, last, sums);
}

// The same where weights come from memory, which likes them in their order.
template <class Lookup, int kWord, bool asks, int kPairs, int T, class Requests>
requires(asks) [[gnu::always_inline]] inline void add_trit_word(const UnitWork<T, Requests> &unit, size_t tables,
                                                                TritSums<kPairs, T> &sums) {
  ask_for_lines<kWord>(unit);
  const size_t fields = tables + 64 * (kWord % kTritGroupWords);
  for (int i = 0; i < kPairs; ++i) {
    const I16x32 bits = Lookup::load(unit.pair.words + kWord * kTritWordStride + i * kPackedAlignment);
    const I16x32 second = Lookup::template shift_right<5>(bits), last = Lookup::template shift_right<10>(bits);
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const int16_t *of_token = unit.work.tables[t] + fields;
      const I16x32 two = Lookup::add(Lookup::lookup32(of_token, bits), Lookup::lookup32(of_token + 32, second));
      sums[t][i] = Lookup::add(Lookup::add(sums[t][i], two), Lookup::lookup64(of_token + kTopTables, last));
    }
  }
}

template <class Lookup, int kGroup, bool asks, int kPairs, int T, class Requests, class Rows>
[[gnu::always_inline]] inline void multiply_trit_groups(const UnitWork<T, Requests> &unit, const Rows &rows,
                                                        typename Rows::Sums (&of_block)[kPairs][T]) {
  if constexpr (kGroup < kTritGroups) {
    const size_t tables = (unit.group + kGroup) * Lookup::kElements;
    const size_t table_of_piece = tables + kTopTables + 64 * kTritGroupWords;
    const auto piece = [&](int i) {
      return piece_of_group<Lookup, kGroup>(
          {unit.pair.words + i * kPackedAlignment, unit.pair.rests + i * kPackedAlignment / 2});
    };
    TritSums<kPairs, T> sums;
    if constexpr (asks) {
      for (int i = 0; i < kPairs; ++i) {
        const I16x32 bits = piece(i);
        for (int t = 0; t < T; ++t) sums[t][i] = Lookup::lookup64(unit.work.tables[t] + table_of_piece, bits);
      }
    } else {
      for (int t = 0; t < T; ++t) {
        for (int i = 0; i < kPairs; ++i) sums[t][i] = Lookup::splat_lanes(0);
      }
      add_field<Lookup, typename Lookup::Table64>(unit.work.tables, table_of_piece, piece, sums);
    }
    add_trit_word<Lookup, 3 * kGroup, asks>(unit, tables, sums);
    add_trit_word<Lookup, 3 * kGroup + 1, asks>(unit, tables, sums);
    add_trit_word<Lookup, 3 * kGroup + 2, asks>(unit, tables, sums);
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < kPairs; ++i) rows.add_group(t, unit.group + kGroup, sums[t][i], of_block[i][t]);
    }
    multiply_trit_groups<Lookup, kGroup + 1, asks>(unit, rows, of_block);
  }
}

template <CodeLayout kLayout, class Lookup, int kPairs, bool asks, int T, class Requests, class Rows>
requires(kLayout.base_three)
    [[gnu::always_inline]] inline void multiply_block(const LookupWork<T> &work, const BlockOfStrip<Requests> &block,
                                                      Rows &rows) {
  constexpr size_t kShare = TilePlace::block_stride(kLayout) / kLayout.trit_units();  // of whole strips, always
  typename Rows::Sums of_block[kPairs][T];
  for (int i = 0; i < kPairs; ++i) {
    for (int t = 0; t < T; ++t) of_block[i][t] = rows.begin_block(t);
  }
  size_t group = block.group;
  for (uint32_t unit = 0; unit < kLayout.trit_units(); ++unit, group += kTritGroups) {
    const size_t begin = block.at + unit * kTritUnitStride;
    const UnitWork<T, Requests> of_unit = {
        {work.words + begin, work.rests + begin}, block.requests, unit * kShare, work, group};
    multiply_trit_groups<Lookup, 0, asks>(of_unit, rows, of_block);
  }
  if constexpr (!asks && T > 1 && Lookup::kResultsInMemory) keep_in_memory(rows);
  end_block(rows, 0, work.scales + block.at, of_block);
}

template <CodeLayout kLayout>
void multiply_trits(const MatmulArgs &args) {
  if constexpr (TritLookup::kExists) multiply_by_lookup<kLayout, TritLookup>(args);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
