// Matrices of signs and of 2-bit codes times 32 vectors at a time, by lookup in memory (as in BiQGEMM,
// arXiv:2005.09904): a table holds the sums of a field's columns under every combination of codes, of all vectors side
// by side, and what a row's field says is where its entry lies. A tier looks groups of columns up together
// (abreast_together.inl.h) or in turn (abreast_in_turn.inl.h). The integers are those of lookup_matmul.inl.h and
// codes_matmul.inl.h, and so are the bytes. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "plugins/cpu/kernels/abreast_in_turn.inl.h"
#include "plugins/cpu/kernels/abreast_together.inl.h"
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

template <CodeLayout kLayout, class Lookup>
using AbreastSums =
    std::conditional_t<Lookup::kInTurn, AbreastInTurn<kLayout, Lookup>, AbreastTogether<kLayout, Lookup>>;

template <CodeLayout kLayout, class Lookup, class Trits>
class AbreastProduct {
  using Fields = AbreastFields<kLayout>;
  using Parts = AbreastParts<kLayout>;
  using Records = AbreastRecords<kLayout, Lookup>;
  using Sums = AbreastSums<kLayout, Lookup>;
  static constexpr uint32_t kParts = Parts::kParts, kGroups = Parts::kGroups, kRecordBytes = Fields::kBytes;
  static constexpr uint32_t kRows = Sums::kRows, kUnits = kRows / Fields::kUnitRows;

  // Rows that are unpacked together: where their first block lies, and which of them are asked for.
  struct Unit {
    const uint8_t *scales, *codes, *rests;
    uint32_t first, last;
    float *y;  // of the first of these
  };

  using Results = float[kRows][kAbreastVectors];

 public:
  struct Scratch {
    alignas(64) Results y[kMostAbreast / kAbreastVectors];
    alignas(64) int32_t sums[kParts > 1 ? kRows : 1][kAbreastVectors];  // of a block's first part
    VectorsOfPart<kLayout> vectors;
    typename Sums::Scratch of_sums;
    typename Sums::Weights weights;
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
          add_block<0>(vector + i, block, units * Fields::kUnitRows, {y, scratch_.sums});
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

  // Adds a block's products with 32 vectors, from a part on, to the results of the first records.
  template <uint32_t kPart>
  void add_block(uint32_t vector, uint64_t block, uint32_t records, const AbreastResults &results) {
    find_part(vector, block, kPart);
    Sums::template add_part<kPart>(scratch_.of_sums, scratch_.vectors, scratch_.weights, records, results);
    if constexpr (kPart + 1 < kParts) add_block<kPart + 1>(vector, block, records, results);
  }

  // -------- Activations

  // Beyond the last vector, the first one again: its results go nowhere.
  ConstQuantizedRow block_of_vector(uint32_t vector, uint64_t block) const {
    const uint32_t i = vector < args_.n ? vector : 0;
    return ConstQuantizedRow(args_.quantized_rows + i * row_bytes_, columns_, kLayout.activations)
        .from(block, kLayout.activations);
  }

  void find_part(uint32_t vector, uint64_t block, uint32_t part) {
    VectorsOfPart<kLayout> &vectors = scratch_.vectors;
    for (uint32_t lane = 0; lane < kAbreastVectors; ++lane) {
      const uint32_t i = vector_of_lane(lane);
      const ConstQuantizedRow of_vector = block_of_vector(vector + i, block);
      vectors.codes[lane] = of_vector.codes + part * kPartColumns;
      vectors.scales[i] = *of_vector.scales;
      for (uint32_t group = 0; group < kGroups; ++group) {
        const int16_t multiplier = *of_vector.multipliers[part * kGroups + group].even();
        vectors.multipliers[group / 2][i / 16][i % 16 * 2 + group % 2] = multiplier;
      }
    }
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
    return {.multiply = multiply_abreast<Lookup>,
            .fewest_vectors = Lookup::kFewestVectors,
            .fewest_rows = Lookup::kFewestRows,
            .takes_ternary = Lookup::TritRecords::kExists || Lookup::TernaryRecords::kExists,
            .takes_q2_0_g64 = Lookup::CodeRecords::kExists};
  } else {
    return {};
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
