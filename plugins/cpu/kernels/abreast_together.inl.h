// 32 vectors abreast, all groups of a part at once: their tables are in the second-level cache. What bounds that is
// loading, so that there is time to multiply some of the columns meanwhile (abreast_multiplied.inl.h). A part of
// abreast_matmul.inl.h. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "plugins/cpu/kernels/abreast_multiplied.inl.h"
#include "plugins/cpu/kernels/abreast_part.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

template <CodeLayout kLayout, class Lookup>
class AbreastTogether {
  using Fields = AbreastFields<kLayout>;
  using Parts = AbreastParts<kLayout>;
  static constexpr uint32_t kGroups = Parts::kGroups, kPairs = Parts::kPairs;
  static constexpr bool kMultiplied = Lookup::kMultipliesLast;  // the last group's columns, rather than looked up
  static constexpr uint32_t kTabulated = kMultiplied ? kGroups - 1 : kGroups;
  using Multiplied = std::conditional_t<kMultiplied, MultipliedWords<Fields, Lookup>, NothingMultiplied>;
  static constexpr uint32_t kFields = Fields::kFields, kRecordBytes = Fields::kBytes;

 public:
  static constexpr uint32_t kRows = 2048;
  using Weights = AbreastWeights<kLayout, kRows>;

  struct Scratch {
    alignas(64) int16_t sums[kTabulated][kFields][Fields::kEntries][kAbreastVectors];
    AbreastColumns columns;
    MultipliedGroup<Fields, Lookup> last;
  };

  // Adds a part's products with the first records.
  template <uint32_t kPart>
  static void add_part(Scratch &scratch, VectorsOfPart<kLayout> &vectors, const Weights &weights, uint32_t records,
                       const AbreastResults &results) {
    tabulate(scratch, vectors);
    add_records<kPart>(&scratch, vectors, weights, records, results);
  }

 private:
  static void tabulate(Scratch &scratch, VectorsOfPart<kLayout> &vectors) {
    for (uint32_t group = 0; group < kGroups; ++group) {
      scratch.columns.gather(vectors.codes);
      if constexpr (kMultiplied) {
        if (group == kTabulated) return scratch.last.prepare(scratch.columns, vectors.multipliers[kPairs - 1]);
      }
      for (uint32_t field = 0; field < kFields; ++field) {
        tabulate_field<Fields, Lookup>(scratch.columns, field, scratch.sums[group][field]);
      }
    }
  }

  // The record of a row: its fields from the lowest bits on.
  [[gnu::always_inline]] static uint64_t load_record(const uint8_t *from) {
    std::conditional_t<kRecordBytes == 4, uint32_t, uint64_t> record;
    memcpy(&record, from, sizeof record);
    return record;
  }

  using PartRecords = uint8_t[kGroups][kRows * kRecordBytes];

  // Rows' records, one of each group.
  class RecordsOfRows {
   public:
    [[gnu::always_inline]] RecordsOfRows(const PartRecords &from, uint32_t) : from_(from) {}

    [[gnu::always_inline]] void take(uint32_t row, uint64_t (&records)[kGroups]) const {
      for (uint32_t group = 0; group < kGroups; ++group) {
        records[group] = load_record(from_[group] + row * kRecordBytes);
      }
    }

   private:
    const PartRecords &from_;
  };

  // The same of some rows, one at least, row by row. The next one's are on their way while a row is looked up: loads
  // wait for their addresses in a queue, and where many do for a word that has just been asked for itself, none get
  // through.
  class RecordsAhead {
   public:
    [[gnu::always_inline]] RecordsAhead(const PartRecords &from, uint32_t rows)
        : from_(from[0]), last_(from_ + (rows - 1) * kRecordBytes) {
      load(std::make_index_sequence<kGroups>());
    }

    [[gnu::always_inline]] void take(uint32_t, uint64_t (&records)[kGroups]) {
      take(records, std::make_index_sequence<kGroups>());
      if (from_ != last_) from_ += kRecordBytes;  // the last row's are loaded twice
      asm("" : "+r"(from_));
      load(std::make_index_sequence<kGroups>());
    }

   private:
    // Not in loops, for which GCC 12 would keep them in memory.
    template <size_t... kGroup>
    [[gnu::always_inline]] void load(std::index_sequence<kGroup...>) {
      ((records_[kGroup] = load_record(from_ + kGroup * sizeof(PartRecords) / kGroups)), ...);
      (hold(records_[kGroup]), ...);
    }
    template <size_t... kGroup>
    [[gnu::always_inline]] void take(uint64_t (&records)[kGroups], std::index_sequence<kGroup...>) const {
      ((records[kGroup] = records_[kGroup]), ...);
    }
    [[gnu::always_inline]] static void hold(uint64_t &record) { asm("" : "+r"(record)); }  // not later

    const uint8_t *from_, *last_;
    uint64_t records_[kGroups];
  };

  // Adds what a field of a record stands for.
  [[gnu::always_inline]] static I16x32 add_field(I16x32 sum,
                                                 const int16_t (&tables)[kFields][Fields::kEntries][kAbreastVectors],
                                                 uint64_t record, uint32_t field) {
    const I16x32 of_field = Lookup::load(find_entry(tables[field], record, Fields::kBits * field));
    return field == 0 ? of_field : Lookup::add(sum, of_field);
  }

  // Of the field from a bit on: by its place, which both loads can add to the table's, if vectors are two registers.
  [[gnu::always_inline]] static const int16_t *find_entry(const int16_t (&table)[Fields::kEntries][kAbreastVectors],
                                                          uint64_t record, uint32_t bit) {
    const uint64_t mask = (uint64_t{1} << std::min(Fields::kBits, 8 * kRecordBytes - bit)) - 1;
    if constexpr (Lookup::kHalves) {
      return table[0] + entry_place(record, bit, mask) / sizeof(int16_t);
    } else {
      return table[record >> bit & mask];
    }
  }

  // One field after the other: GCC would work out where all entries lie before it adds any, or have the place of each
  // table in a register, and there are not so many.
  template <uint32_t kPart>
  [[gnu::noinline]] static void add_records(const Scratch *scratch, const VectorsOfPart<kLayout> &vectors,
                                            const Weights &weights, uint32_t records, AbreastResults results) {
    const PartFactors<kLayout, Lookup> factors(vectors);
    const Multiplied last(scratch->last);
    std::conditional_t<Lookup::kHalves, RecordsAhead, RecordsOfRows> rows(weights.records[kPart], records);
    for (uint32_t i = 0; i < records; ++i) {
      asm("" : "+r"(scratch));
      uint64_t of_groups[kGroups];
      rows.take(i, of_groups);
      I16x32 found[kTabulated] = {};
      typename Multiplied::Sums products;
#pragma GCC unroll 16
      for (uint32_t field = 0; field < kFields; ++field) {
#pragma GCC unroll 4
        for (uint32_t group = 0; group < kTabulated; ++group) {
          found[group] = add_field(found[group], scratch->sums[group], of_groups[group], field);
          Lookup::hold(found[group], of_groups[group]);
        }
        last.add_byte(of_groups[kGroups - 1], field, products);
      }
      I32x16 sums[2];
      last.finish(products, sums);
#pragma GCC unroll 4
      for (uint32_t pair = 0; pair < kPairs; ++pair) {
        const I16x32 second = found[std::min(2 * pair + 1, kTabulated - 1)];  // or any, times 0
        factors.add_pair(pair, found[2 * pair], second, sums);
      }
      factors.template add_row<kPart>(sums, weights.scales[i], results, i);
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
