// Matrices of signs and of 2-bit codes times 32 vectors at a time, by lookup in memory (as in BiQGEMM,
// arXiv:2005.09904): a table holds the sums of a field's columns under every combination of codes, of all vectors side
// by side, and what a row's field says is where its entry lies. What bounds that is loading, so that there is time to
// multiply some of the columns meanwhile (abreast_multiplied.inl.h). The integers are those of lookup_matmul.inl.h and
// codes_matmul.inl.h, and so are the bytes. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "plugins/cpu/kernels/abreast_fields.inl.h"
#include "plugins/cpu/kernels/abreast_multiplied.inl.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/trits_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How a layout's rows are unpacked.
template <CodeLayout kLayout, class Lookup>
struct AbreastRecordsOf {
  static auto choose() {
    if constexpr (kLayout.bits == 1) {
      return std::conditional_t<kLayout.sign_bytes == Lookup::kSignBytes, typename Lookup::SignRecords,
                                typename Lookup::NoRecords>();
    } else if constexpr (kLayout.base_three) {
      return typename Lookup::TritRecords();
    } else if constexpr (AbreastFields<kLayout>::kTernary) {
      return typename Lookup::TernaryRecords();
    } else {
      return typename Lookup::CodeRecords();
    }
  }
};
template <CodeLayout kLayout, class Lookup>
using AbreastRecords = decltype(AbreastRecordsOf<kLayout, Lookup>::choose());

// Columns of a block that are multiplied together: the tables of so many stay in a second-level cache.
constexpr uint32_t kPartColumns = 128;

template <CodeLayout kLayout, class Lookup, class Trits>
class AbreastProduct {
  using Fields = AbreastFields<kLayout>;
  using Records = AbreastRecords<kLayout, Lookup>;
  static constexpr uint32_t kParts = kLayout.columns() > kPartColumns ? kLayout.columns() / kPartColumns : 1;
  static constexpr uint32_t kGroups = kLayout.activations.groups() / kParts, kPairs = kGroups / 2;  // of a part
  static constexpr bool kMultiplied = Lookup::kMultipliesLast;  // the last group's columns, rather than looked up
  static constexpr uint32_t kTabulated = kMultiplied ? kGroups - 1 : kGroups;
  using Multiplied = std::conditional_t<kMultiplied, MultipliedWords<Fields, Lookup>, NothingMultiplied>;
  static_assert(kGroups % 2 == 0);
  static constexpr uint32_t kFields = Fields::kFields, kRecordBytes = Fields::kBytes;
  static constexpr uint32_t kUnits = kAbreastRows / Fields::kUnitRows;
  static constexpr size_t kTableElements = size_t{Fields::kEntries} * kAbreastVectors;

  // Rows that are unpacked together: where their first block lies, and which of them are asked for.
  struct Unit {
    const uint8_t *scales, *codes, *rests;
    uint32_t first, last;
    float *y;  // of the first of these
  };

  // What was unpacked of a block, record by record.
  struct Weights {
    alignas(64) uint8_t records[kParts][kGroups][kAbreastRows * kRecordBytes];
    alignas(64) float scales[kAbreastRows];
  };

  // What the columns of a part of a block are multiplied by, of 32 vectors.
  struct Tables {
    alignas(64) int16_t sums[kTabulated][kFields][kTableElements];
    alignas(64) int16_t multipliers[kPairs][2][kAbreastVectors];
    alignas(64) float scales[kAbreastVectors];
    AbreastColumns columns;
    MultipliedGroup<Fields, Lookup> last;
  };

  using Results = float[kAbreastRows][kAbreastVectors];

 public:
  struct Scratch {
    alignas(64) Results y[kMostAbreast / kAbreastVectors];
    alignas(64) int32_t sums[kParts > 1 ? kAbreastRows : 1][kAbreastVectors];  // of a block's first part
    Tables tables;
    Weights weights;
    Unit units[kUnits];
  };
  static_assert(sizeof(Scratch) <= kAbreastScratchBytes);

  explicit AbreastProduct(const AbreastArgs &args)
      : args_(args),
        scratch_(*reinterpret_cast<Scratch *>(args.scratch)),
        columns_(args.rows[0].matrix->columns),
        row_bytes_(quantized_row_bytes(kLayout.activations, columns_)) {}

  void multiply() {
    uint32_t units = 0;
    for (const AbreastRows &rows : args_.rows) {
      const uint64_t begin = rows.first_row / Fields::kUnitRows * Fields::kUnitRows;
      for (uint64_t row = begin; row < rows.last_row; row += Fields::kUnitRows) {
        scratch_.units[units++] = unit_of(rows, row);
        if (units == kUnits) multiply_units(std::exchange(units, 0));
      }
    }
    if (units > 0) multiply_units(units);
  }

 private:
  Unit unit_of(const AbreastRows &rows, uint64_t row) const {
    const TilePlace place = TilePlace::find(kLayout, blocks(), row / kTileRows);
    const auto *data = reinterpret_cast<const uint8_t *>(rows.matrix->data);
    const uint64_t first = std::max(row, rows.first_row);
    return {.scales = data + place.scales,
            .codes = data + place.codes,
            .rests = data + place.rests,
            .first = static_cast<uint32_t>(first - row),
            .last = static_cast<uint32_t>(std::min<uint64_t>(rows.last_row - row, Fields::kUnitRows)),
            .y = rows.y + (first - rows.first_row)};
  }

  uint64_t blocks() const { return columns_ / kLayout.columns(); }

  // The first units times all vectors.
  void multiply_units(uint32_t units) {
    for (uint32_t vector = 0; vector < args_.n; vector += kMostAbreast) {
      const uint32_t n = std::min(kMostAbreast, args_.n - vector);
      for (uint64_t block = 0; block < blocks(); ++block) {
        for (uint32_t i = 0; i < units; ++i) unpack(scratch_.units[i], block, i * Fields::kUnitRows);
        for (uint32_t i = 0; i < n; i += kAbreastVectors) {
          Results &y = scratch_.y[i / kAbreastVectors];
          if (block == 0) memset(y, 0, units * Fields::kUnitRows * sizeof y[0]);
          add_block(vector + i, block, units * Fields::kUnitRows, y);
        }
      }
      for (uint32_t i = 0; i < n; i += kAbreastVectors) {
        const uint32_t some = std::min(kAbreastVectors, n - i);
        for (uint32_t unit = 0; unit < units; ++unit) {
          if (unit + 1 < units) ask_for_results(scratch_.units[unit + 1], vector + i, some);
          store_unit(scratch_.units[unit], scratch_.y[i / kAbreastVectors] + unit * Fields::kUnitRows, vector + i,
                     some);
        }
      }
    }
  }

  // -------- Activations

  // Beyond the last vector, the first one again: its results go nowhere.
  ConstQuantizedRow block_of_vector(uint32_t vector, uint64_t block) const {
    const uint32_t i = vector < args_.n ? vector : 0;
    return ConstQuantizedRow(args_.quantized_rows + i * row_bytes_, columns_, kLayout.activations)
        .from(block, kLayout.activations);
  }

  void tabulate(uint32_t vector, uint64_t block, uint32_t part) {
    Tables &tables = scratch_.tables;
    const int8_t *codes[kAbreastVectors];
    for (uint32_t lane = 0; lane < kAbreastVectors; ++lane) {
      const uint32_t i = vector_of_lane(lane);
      const ConstQuantizedRow of_vector = block_of_vector(vector + i, block);
      codes[lane] = of_vector.codes + part * kPartColumns;
      tables.scales[i] = *of_vector.scales;
      for (uint32_t group = 0; group < kGroups; ++group) {
        const int16_t multiplier = *of_vector.multipliers[part * kGroups + group].even();
        tables.multipliers[group / 2][i / 16][i % 16 * 2 + group % 2] = multiplier;
      }
    }
    for (uint32_t group = 0; group < kGroups; ++group) {
      tables.columns.gather(codes);
      for (const int8_t *&of_vector : codes) of_vector += kActivationGroup;
      if constexpr (kMultiplied) {
        if (group == kTabulated) return tables.last.prepare(tables.columns, tables.multipliers[kPairs - 1]);
      }
      for (uint32_t field = 0; field < kFields; ++field) tabulate_field(field, tables.sums[group][field]);
    }
  }

  // Entry by entry: one digit more is the column's codes once more (of a sign, twice).
  void tabulate_field(uint32_t field, int16_t *table) const {
    I16x32 least = {};
    for (uint32_t i = 0; i < Fields::digits(field); ++i) {
      least = Lookup::sub(least, column(field, i));
    }
    Lookup::store(table, least);
    uint32_t entries = 1;
    for (uint32_t digit = 0; digit < Fields::digits(field); ++digit) {
      I16x32 step = column(field, digit);
      if constexpr (Fields::kSigns) step = Lookup::add(step, step);
      const uint32_t last = entries * (Fields::kBase - 1);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < last; ++i) {
        const I16x32 entry = Lookup::load(table + size_t{i} * kAbreastVectors);
        Lookup::store(table + size_t{i + entries} * kAbreastVectors, Lookup::add(entry, step));
      }
      entries *= Fields::kBase;
    }
  }

  I16x32 column(uint32_t field, uint32_t digit) const {
    return Lookup::load(scratch_.tables.columns.codes[Fields::column(field, digit)]);
  }

  // -------- Weights

  static constexpr size_t kBlockStride = TilePlace::block_stride(kLayout);

  // A block of a unit, to the records from `at` on; and asks for the next one.
  void unpack(const Unit &unit, uint64_t block, uint32_t at) {
    const uint8_t *scales = unit.scales + block * kBlockStride;
    const uint8_t *codes = unit.codes + block * kBlockStride;
    unpack_scales(scales, scratch_.weights.scales + at);
    ask_for(scales + kBlockStride, Fields::kUnitRows * sizeof(uint16_t));
    if constexpr (kLayout.base_three) {
      PairOfUnits pair = {codes, unit.rests + block * kBlockStride};
      for (uint32_t part = 0; part < kParts; ++part) {
        unpack_trits<0>(pair, part, at);
        for (uint32_t word = 0; word < kTritUnitWords; ++word) {
          ask_for(pair.words + kBlockStride + word * kTritWordStride, kPackedAlignment);
        }
        ask_for(pair.rests + kBlockStride, kPackedAlignment / 2);
        pair = {pair.words + kTritUnitStride, pair.rests + kTritUnitStride};
      }
    } else {
      constexpr size_t kStride = Fields::kStrips ? kPairBytes / 2 * kLayout.strip_tiles : size_t{2} * kPackedAlignment;
      for (uint32_t group = 0; group < kParts * kGroups; ++group, codes += kStride) {
        Records::store_records(codes, records_of(group / kGroups, group % kGroups, at));
        ask_for(codes + kBlockStride, 2 * kPackedAlignment);
      }
    }
  }

  template <int kGroup>
  void unpack_trits(PairOfUnits pair, uint32_t part, uint32_t at) {
    if constexpr (kGroup < kTritGroups) {
      const auto word = [&](int i) {
        return Trits::load(pair.words + (kTritGroupWords * kGroup + i) * kTritWordStride);
      };
      Records::store_records(word(0), word(1), word(2), piece_of_group<Trits, kGroup>(pair),
                             records_of(part, kGroup, at));
      unpack_trits<kGroup + 1>(pair, part, at);
    }
  }

  uint8_t *records_of(uint32_t part, uint32_t group, uint32_t at) const {
    return scratch_.weights.records[part][group] + at * kRecordBytes;
  }

  static void unpack_scales(const uint8_t *from, float *to) {
    float of_rows[Fields::kUnitRows];
    for (uint32_t i = 0; i < Fields::kUnitRows; i += kTileRows) {
      store(of_rows + i, load_f16(reinterpret_cast<const uint16_t *>(from) + i));
    }
    for (uint32_t i = 0; i < Fields::kUnitRows; ++i) to[i] = of_rows[Records::row_of(i)];
  }

  [[gnu::always_inline]] static void ask_for(const uint8_t *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 1);
  }

  // -------- Products

  // The record of a row: its fields from the lowest bits on.
  [[gnu::always_inline]] static uint64_t load_record(const uint8_t *from) {
    std::conditional_t<kRecordBytes == 4, uint32_t, uint64_t> record;
    memcpy(&record, from, sizeof record);
    return record;
  }

  // Adds what a field of a record stands for.
  [[gnu::always_inline]] static I16x32 add_field(I16x32 sum, const int16_t (&tables)[kFields][kTableElements],
                                                 uint64_t record, uint32_t field) {
    const size_t entry = record >> (Fields::kBits * field) & ((1 << Fields::kBits) - 1);
    const I16x32 of_field = Lookup::load(tables[field] + entry * kAbreastVectors);
    return field == 0 ? of_field : Lookup::add(sum, of_field);
  }

  // Adds a block's products with 32 vectors to the results of the first records.
  void add_block(uint32_t vector, uint64_t block, uint32_t records, Results &y) {
    tabulate(vector, block, 0);
    if constexpr (kParts == 1) {
      add_part<0>(records, y);
    } else {
      static_assert(kParts == 2);
      add_part<0>(records, y);
      tabulate(vector, block, 1);
      add_part<1>(records, y);
    }
  }

  // The same of a part of it; the first of several leaves its sums to the next. One field after the other: GCC would
  // work out where all entries lie before it adds any, or have the place of each table in a register, and there are not
  // so many.
  template <uint32_t kPart>
  [[gnu::noinline]] void add_part(uint32_t records, Results &y) const {
    const Weights &weights = scratch_.weights;
    const Tables *tables = &scratch_.tables;
    I16x32 multipliers[kPairs][2];
    for (uint32_t pair = 0; pair < kPairs; ++pair) {
      for (int half = 0; half < 2; ++half) multipliers[pair][half] = Lookup::load(tables->multipliers[pair][half]);
    }
    const F32x16 scales[] = {load(tables->scales), load(tables->scales + 16)};
    const Multiplied last(tables->last);
    for (uint32_t i = 0; i < records; ++i) {
      asm("" : "+r"(tables));
      uint64_t of_groups[kGroups];
      for (uint32_t group = 0; group < kGroups; ++group) {
        of_groups[group] = load_record(weights.records[kPart][group] + i * kRecordBytes);
      }
      I16x32 found[kTabulated] = {};
      typename Multiplied::Sums products;
#pragma GCC unroll 16
      for (uint32_t field = 0; field < kFields; ++field) {
#pragma GCC unroll 4
        for (uint32_t group = 0; group < kTabulated; ++group) {
          found[group] = add_field(found[group], tables->sums[group], of_groups[group], field);
          Lookup::hold(found[group], of_groups[group]);
        }
        last.add_byte(of_groups[kGroups - 1], field, products);
      }
      I32x16 sums[2];
      last.finish(products, sums);
#pragma GCC unroll 4
      for (uint32_t pair = 0; pair < kPairs; ++pair) {
        I16x32 halves[2];
        const I16x32 second = found[std::min(2 * pair + 1, kTabulated - 1)];  // or any, times 0
        Lookup::interleave(found[2 * pair], second, halves[0], halves[1]);
        for (int half = 0; half < 2; ++half) sums[half] = dot2(sums[half], halves[half], multipliers[pair][half]);
      }
      if constexpr (kParts > 1) {
        int32_t *of_first = scratch_.sums[i];
        for (int half = 0; half < 2; ++half) {
          if (kPart == 0) {
            store_i32(of_first + 16 * half, sums[half]);
          } else {
            sums[half] = add(sums[half], load_i32(of_first + 16 * half));
          }
        }
        if (kPart + 1 < kParts) continue;
      }
      const F32x16 weight_scale = splat(weights.scales[i]);
      for (int half = 0; half < 2; ++half) {
        float *result = y[i] + 16 * half;
        store(result, fma(to_f32(sums[half]), mul(weight_scale, scales[half]), load(result)));
      }
    }
  }

  // -------- Results

  // Where a unit's rows are among its records.
  struct Places {
    uint8_t of_row[Fields::kUnitRows];
    constexpr Places() : of_row() {
      for (uint32_t i = 0; i < Fields::kUnitRows; ++i) of_row[Records::row_of(i)] = static_cast<uint8_t>(i);
    }
  };

  void ask_for_results(const Unit &unit, uint32_t vector, uint32_t n) const {
    const float *y = unit.y + vector * args_.y_stride;
    for (uint32_t i = 0; i < n; ++i, y += args_.y_stride) {
      for (uint32_t row = 0; row < Fields::kUnitRows; row += 16) __builtin_prefetch(y + row, 1, 3);
    }
  }

  // What is asked for of a unit's results for n vectors from one on, four of them at a time.
  void store_unit(const Unit &unit, const float (*results)[kAbreastVectors], uint32_t vector, uint32_t n) const {
    static constexpr Places kPlaces;
    float *y = unit.y + vector * args_.y_stride;
    for (uint32_t i = 0; i < n; i += 4, y += 4 * args_.y_stride) {
      const uint32_t some = std::min(4u, n - i);
      uint32_t row = unit.first;
      for (; row + 4 <= unit.last; row += 4) {
        Floats4 rows[4];
        for (uint32_t j = 0; j < 4; ++j) memcpy(&rows[j], results[kPlaces.of_row[row + j]] + i, sizeof rows[j]);
        transpose_4(rows);
        for (uint32_t j = 0; j < some; ++j) {
          const Floats4 of_vector = canonical(rows[j]);
          memcpy(y + j * args_.y_stride + (row - unit.first), &of_vector, sizeof of_vector);
        }
      }
      for (; row < unit.last; ++row) {
        Floats4 of_row;
        memcpy(&of_row, results[kPlaces.of_row[row]] + i, sizeof of_row);
        of_row = canonical(of_row);
        for (uint32_t j = 0; j < some; ++j) y[j * args_.y_stride + (row - unit.first)] = of_row[j];
      }
    }
  }

  const AbreastArgs &args_;
  Scratch &scratch_;
  const uint64_t columns_;
  const size_t row_bytes_;
};

template <CodeLayout kLayout, class Lookup>
void multiply_abreast_of(const AbreastArgs &args) {
  if constexpr (AbreastRecords<kLayout, Lookup>::kExists) AbreastProduct<kLayout, Lookup, TritLookup>(args).multiply();
}

template <class Lookup>
void multiply_abreast(const AbreastArgs &args) {
  const PackedMatrix &matrix = *args.rows[0].matrix;
  const bool is_256 = quant::traits(matrix.format).block_weights == kTrits256Layout.columns();
  switch (matrix.packing) {
    case Packing::kTrits:
      return is_256 ? multiply_abreast_of<kTrits256Layout, Lookup>(args)
                    : multiply_abreast_of<kTritsG128Layout, Lookup>(args);
    case Packing::kTernary:
      return is_256 ? multiply_abreast_of<kTernary256Layout, Lookup>(args)
                    : multiply_abreast_of<kTernaryG128Layout, Lookup>(args);
    case Packing::kSignBytes:
      return multiply_abreast_of<kSignBytesG128Layout, Lookup>(args);
    case Packing::kUsual:
      return matrix.format == quant::Format::kQ2_0_G64 ? multiply_abreast_of<kQ2_0G64Layout, Lookup>(args)
                                                       : multiply_abreast_of<kQ1_0G128Layout, Lookup>(args);
  }
}

template <class Lookup>
constexpr AbreastKernel abreast_kernel() {
  if constexpr (Lookup::kExists) {
    return {multiply_abreast<Lookup>, Lookup::kFewestVectors, Lookup::kFewestRows};
  } else {
    return {};
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
