// 32 vectors abreast, one group of a part after the other: its tables are in the first-level cache, and what was found
// of the groups before waits in memory. For processors that load 64 bytes twice a cycle (Zen 5). A part of
// abreast_matmul.inl.h. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/abreast_part.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

template <CodeLayout kLayout, class Lookup>
class AbreastInTurn {
  using Fields = NarrowFields<kLayout>;
  using Parts = AbreastParts<kLayout>;
  static constexpr uint32_t kGroups = Parts::kGroups, kPairs = Parts::kPairs, kRecordBytes = Fields::kBytes;

 public:
  static constexpr uint32_t kRows = Lookup::kRows;
  using Weights = AbreastWeights<kLayout, kRows>;

  struct Scratch {
    alignas(64) int16_t table[Fields::kAllEntries][kAbreastVectors];
    AbreastColumns columns;
    alignas(64) int16_t found[kGroups - 1][kRows][kAbreastVectors];
  };

  // Adds a part's products with the first records.
  template <uint32_t kPart>
  static void add_part(Scratch &scratch, VectorsOfPart<kLayout> &vectors, const Weights &weights, uint32_t records,
                       const AbreastResults &results) {
    for (uint32_t group = 0; group < kGroups; ++group) {
      scratch.columns.gather(vectors.codes);
      for (uint32_t field = 0; field < Fields::kFields; ++field) {
        tabulate_field<Fields, Lookup>(scratch.columns, field, scratch.table + Fields::first_entry(field));
      }
      const uint8_t *of_group = weights.records[kPart][group];
      if (group + 1 < kGroups) {
        find(scratch.table[0], of_group, records, scratch.found[group]);
      } else {
        add_records<kPart>(scratch, vectors, of_group, weights.scales, records, results);
      }
    }
  }

 private:
  // What a record's fields stand for, those from a bit of the word on that it lies in.
  template <uint32_t kBit>
  [[gnu::always_inline]] static I16x32 find_record(const int16_t *table, uint64_t word) {
    I16x32 sum = {};
#pragma GCC unroll 16
    for (uint32_t field = 0; field < Fields::kFields; ++field) {
      const uint64_t place = entry_place(word, kBit + Fields::first_bit(field), Fields::mask(field));
      const int16_t *of_field = table + size_t{Fields::first_entry(field)} * kAbreastVectors;
      const I16x32 entry = Lookup::load(of_field + place / sizeof *table);
      sum = field == 0 ? entry : Lookup::add(sum, entry);
      Lookup::hold(sum, word);
    }
    return sum;
  }

  // use(i, what was found) for each of the records. The words that say where entries lie are in registers two to four
  // records before they are needed: loads wait for their addresses in a queue, and where many do, none get through.
  template <class Use>
  [[gnu::always_inline]] static void each_record(const int16_t *table, const uint8_t *from, size_t records,
                                                 const Use &use) {
    constexpr size_t kOfLine = 64 / kRecordBytes, kOfWord = 8 / kRecordBytes;
    static_assert(AbreastFields<kLayout>::kUnitRows % kOfLine == 0);  // so that records are whole lines
    typename Lookup::WordsAhead ahead(from);
    for (size_t i = 0; i < records; i += kOfLine) {
      if (i + kOfLine < records) from += 64;  // the last line is loaded twice
#pragma GCC unroll 4
      for (uint32_t quarter = 0; quarter < 4; ++quarter) {
        uint64_t words[2] = {ahead.words[0], ahead.words[1]};
        if (quarter == 0) ahead.load(from);
        if (quarter == 3) ahead.split();
        ahead.take((quarter + 1) % 4);
        asm("" : "+r"(words[0]), "+r"(ahead.words[0]), "+r"(ahead.words[1]));  // not later
#pragma GCC unroll 2
        for (uint32_t j = 0; j < 2; ++j) {
          const size_t record = i + (2 * quarter + j) * kOfWord;
          asm("" : "+r"(table), "+r"(words[j]));
          use(record, find_record<0>(table, words[j]));
          if constexpr (kOfWord == 2) {
            asm("" : "+r"(table));
            use(record + 1, find_record<32>(table, words[j]));
          }
        }
      }
    }
  }

  [[gnu::noinline]] static void find(const int16_t *table, const uint8_t *from, uint32_t records,
                                     int16_t (*found)[kAbreastVectors]) {
    each_record(
        table, from,
        records, [&](size_t i, I16x32 sum) __attribute__((always_inline)) { Lookup::store(found[i], sum); });
  }

  template <uint32_t kPart>
  [[gnu::noinline]] static void add_records(const Scratch &scratch, const VectorsOfPart<kLayout> &vectors,
                                            const uint8_t *from, const float *weight_scales, uint32_t records,
                                            AbreastResults results) {
    const PartFactors<kLayout, Lookup> factors(vectors);
    each_record(
        scratch.table[0], from, records, [&](size_t i, I16x32 of_last) __attribute__((always_inline)) {
          I32x16 sums[2] = {splat_i32(0), splat_i32(0)};
#pragma GCC unroll 2
          for (uint32_t pair = 0; pair < kPairs; ++pair) {
            const bool is_last = pair + 1 == kPairs;
            const I16x32 first = Lookup::load_once(scratch.found[2 * pair][i]);
            factors.add_pair(pair, first, is_last ? of_last : Lookup::load_once(scratch.found[2 * pair + 1][i]), sums);
          }
          factors.template add_row<kPart>(sums, weight_scales[i], results, i);
        });
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
