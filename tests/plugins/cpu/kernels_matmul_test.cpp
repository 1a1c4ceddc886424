// What matmul promises (plugins/cpu/kernels/kernels.h), for every format in every tier.
#include <tuple>

#include "tests/plugins/cpu/kernels_formats.h"
#include "tests/quant/exact_dot.h"

namespace bonsai::cpu {
namespace {

constexpr uint32_t kBatches[] = {1, 2, 3, 7, 8, 9, 31, 33};

// Rows of a whole strip and of some more tiles, one of them not whole.
constexpr uint64_t kStripAndMore = 149;

using Case = std::tuple<const KernelTable *, PackedFormat>;

std::string case_name(const ::testing::TestParamInfo<Case> &info) {
  return name_of(std::get<0>(info.param)->name) + "_" + packed_name_of(std::get<1>(info.param));
}

class Matmul : public ::testing::TestWithParam<Case> {
 protected:
  const KernelTable &kernels_ = *std::get<0>(GetParam());
  const PackedFormat which_ = std::get<1>(GetParam());
  const Format format_ = which_.format;
  const uint32_t block_ = quant::traits(format_).block_weights;
  std::mt19937 random_{7};

  // At least so many vectors; of a tier that multiplies few as another one does, enough for its own way.
  uint32_t enough(uint32_t n) const {
    if (kernels_.most_with_trits != UINT32_MAX) n = std::max(n, kernels_.most_with_trits + 2);
    const PackedMatrix matrix = {.format = format_, .packing = which_.packing};
    const auto has_panels = [&](uint32_t vectors) { return kernels_.panels.kind_of(matrix, vectors) != nullptr; };
    constexpr uint32_t kMost = 64;
    if (kernels_.panels.kind_of && has_panels(kMost)) {
      while (!has_panels(n)) ++n;
    }
    return n;
  }
  uint32_t few() const { return enough(3); }

  // The most columns up to `most` that are whole blocks.
  uint64_t columns_up_to(uint64_t most) const { return most / block_ * block_; }

  std::vector<float> expected(const Matrix &matrix, std::span<const float> x) {
    std::vector<float> y;
    for (size_t first = 0; first < x.size(); first += matrix.columns()) {
      for (uint64_t row = 0; row < matrix.rows(); ++row) {
        const float dot = expected_dot(matrix.traits(), matrix.row(row), x.subspan(first, matrix.columns()));
        y.push_back(std::bit_cast<float>(pinned_bits(dot)));
      }
    }
    return y;
  }

  void expect_pinned(Matrix &matrix, std::span<const float> x) {
    const PackedMatrix packed = matrix.pack();
    EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, {0, matrix.rows()}, x), expected(matrix, x)));
  }
};

class CodesMatmul : public Matmul {};  // repacked formats
class LargestSumMatmul : public Matmul {};
class FloatMatmul : public Matmul {};
class HalfMatmul : public Matmul {};  // F16 and BF16
class F8Matmul : public Matmul {};

TEST_P(Matmul, GivesThePinnedBytesForOddShapes) {
  for (const uint64_t rows : {1, 15, 16, 37}) {
    for (const uint64_t blocks : {1, 2, 5}) {
      Matrix matrix(which_, rows, blocks * block_);
      fill_random(matrix, random_);
      const std::vector<float> x = random_vectors(few() * matrix.columns(), random_);
      SCOPED_TRACE(testing::Message() << rows << " x " << matrix.columns());
      expect_pinned(matrix, x);
    }
  }
}

TEST_P(Matmul, GivesAVectorTheSameBytesInAnyBatch) {
  Matrix matrix(which_, kStripAndMore, has_integer_codes(format_) ? 3 * block_ : columns_up_to(83));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const std::vector<float> x = random_vectors(33 * matrix.columns(), random_);
  const std::vector<float> wanted = expected(matrix, x);
  for (const uint32_t n : kBatches) {
    // The last n vectors, so that one vector takes different places.
    const std::span<const float> some = std::span(x).last(n * matrix.columns());
    const std::vector<float> y = run_matmul(kernels_, packed, {0, matrix.rows()}, some);
    EXPECT_TRUE(same_bytes(y, std::span(wanted).last(n * matrix.rows()))) << "n = " << n;
  }
}

// Kernels work through pieces of columns and blocks of rows: a result must not show where they meet.
TEST_P(Matmul, TakesMoreRowsAndColumnsThanAPiece) {
  const bool repacked = has_integer_codes(format_);
  Matrix matrix(which_, repacked ? 21 : 70, columns_up_to(repacked ? 6500 : 2117));
  fill_random(matrix, random_);
  expect_pinned(matrix, random_vectors(15 * matrix.columns(), random_));
}

// Few vectors may be multiplied with several tiles side by side, of which the first and the last may be cut.
TEST_P(Matmul, TakesPartsOfRowsWithFewVectors) {
  Matrix matrix(which_, kStripAndMore, columns_up_to(is_repacked(format_) ? 1300 : 100));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  for (const uint32_t n : {1, 2, 3, 4}) {
    const std::vector<float> x = random_vectors(n * matrix.columns(), random_);
    const std::vector<float> whole = expected(matrix, x);
    for (const Rows rows : {Rows{0, 149}, Rows{3, 149}, Rows{5, 133}, Rows{17, 70}, Rows{40, 90}}) {
      std::vector<float> wanted;
      for (uint32_t i = 0; i < n; ++i) {
        const auto of_vector = whole.begin() + i * matrix.rows();
        wanted.insert(wanted.end(), of_vector + rows.first, of_vector + rows.last);
      }
      EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, rows, x), wanted))
          << rows.first << " to " << rows.last << ", n = " << n;
    }
  }
}

// More than streams of memory take before they go on elsewhere (streams_ahead.inl.h, float_matmul.inl.h), and some
// tiles or rows that are left over.
TEST_P(Matmul, GoesOnBehindTheLastOfItsStreams) {
  const bool has_tiles = is_repacked(format_);
  const uint64_t rows = has_tiles ? 42 * kTileRows - 5 : 59, columns = columns_up_to(has_tiles ? 300 : 8200);
  Matrix matrix(which_, rows, columns);
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  for (uint32_t n = 1; n <= 7; ++n) {
    const std::vector<float> x = random_vectors(n * columns, random_);
    EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, {0, rows}, x), expected(matrix, x))) << n << " vectors";
  }
}

// Parts of the rows, whose edges are carried from pass to pass over the columns; as many vectors as any compiled tier
// goes its own way for.
TEST_P(Matmul, TakesPartsOfRowsInSeveralPasses) {
  const bool is_emulated = std::string_view(kernels_.name).find("emulated") != std::string_view::npos;
  const uint64_t n = kernels_.scratch_bytes > 0 && !is_emulated ? 67 : 13;
  Matrix matrix(which_, 21, columns_up_to(is_repacked(format_) ? 2600 : 300));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const std::vector<float> x = random_vectors(n * matrix.columns(), random_);
  const std::vector<float> whole = expected(matrix, x);
  for (const Rows rows : {Rows{0, 21}, Rows{3, 11}, Rows{5, 21}, Rows{17, 21}}) {
    std::vector<float> wanted;
    for (uint64_t i = 0; i < n; ++i) {
      wanted.insert(wanted.end(), whole.begin() + i * 21 + rows.first, whole.begin() + i * 21 + rows.last);
    }
    EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, rows, x), wanted)) << rows.first << " to " << rows.last;
  }
}

// The most that any kernel takes in one go are 132 (kernels/panels.inl.h).
TEST_P(Matmul, TakesMoreVectorsThanAtOnce) {
  Matrix matrix(which_, 17, has_integer_codes(format_) ? block_ : columns_up_to(40));
  fill_random(matrix, random_);
  expect_pinned(matrix, random_vectors(145 * matrix.columns(), random_));
}

TEST_P(Matmul, GivesARowTheSameBytesInAnyRange) {
  Matrix matrix(which_, 50, has_integer_codes(format_) ? 2 * block_ : columns_up_to(70));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const std::vector<float> x = random_vectors(5 * matrix.columns(), random_);
  const std::vector<float> whole = run_matmul(kernels_, packed, {0, 50}, x);
  for (const Rows rows :
       {Rows{0, 1}, Rows{0, 16}, Rows{3, 11}, Rows{15, 17}, Rows{16, 48}, Rows{31, 50}, Rows{49, 50}}) {
    std::vector<float> wanted;
    for (uint64_t i = 0; i < 5; ++i) {
      wanted.insert(wanted.end(), whole.begin() + i * 50 + rows.first, whole.begin() + i * 50 + rows.last);
    }
    EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, rows, x), wanted)) << rows.first << " to " << rows.last;
  }
}

// Asked for only: it need not be there.
TEST_P(Matmul, GivesTheSameBytesWhateverIsReadNext) {
  Matrix matrix(which_, 300, has_integer_codes(format_) ? 2 * block_ : columns_up_to(70));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  for (const uint32_t n : {1, 3}) {
    const std::vector<float> x = random_vectors(n * matrix.columns(), random_);
    const std::vector<float> y = run_matmul(kernels_, packed, {0, 300}, x);
    for (const uintptr_t next : {uintptr_t{64}, UINTPTR_MAX - 63, reinterpret_cast<uintptr_t>(x.data())}) {
      for (const size_t strip_bytes : {size_t{0}, size_t{4096}, SIZE_MAX}) {
        for (const uint64_t tiles : {strip_bytes > 0 ? uint64_t{9} : uint64_t{0}, UINT64_MAX}) {
          const ReadingPlace then = {reinterpret_cast<const std::byte *>(next), strip_bytes, tiles};
          EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, {0, 300}, x, then), y)) << n << " vectors";
        }
      }
    }
  }
}

TEST_P(Matmul, IsReadFromTilesThatAreAsFarApartAsStripsAre) {
  Matrix matrix(which_, 300, is_repacked(format_) ? 3 * block_ : columns_up_to(70));
  const PackedMatrix packed = matrix.pack();
  const uint64_t strip = has_integer_codes(format_) ? code_layout(format_, which_.packing).strip_tiles : 1;
  for (uint64_t tile = 0; tile + strip < tile_count(300); ++tile) {
    const ReadingPlace here = reading_place(packed, tile, 5);
    EXPECT_EQ(here.tiles, 5u);
    EXPECT_EQ(here.begin, tile_begin(packed, tile));
    EXPECT_EQ(here.begin + here.strip_bytes, tile_begin(packed, tile + strip)) << tile;
  }
}

// Of strips, whose tiles lie side by side, a tile's own first bytes.
TEST_P(Matmul, BeginsATileWithinItsMatrix) {
  Matrix matrix(which_, 300, is_repacked(format_) ? 3 * block_ : columns_up_to(70));
  const PackedMatrix packed = matrix.pack();
  EXPECT_EQ(tile_begin(packed, 0), packed.data);
  const std::byte *end = packed.data + packed_bytes(format_, 300, matrix.columns(), which_.packing);
  for (uint64_t tile = 1; tile < tile_count(300); ++tile) {
    EXPECT_GT(tile_begin(packed, tile), tile_begin(packed, tile - 1));
    EXPECT_LT(tile_begin(packed, tile), end);
  }
}

// Strips of tiles (packed_matrix.h): whole ones, and every number of pairs of tiles in the last.
TEST_P(CodesMatmul, GivesThePinnedBytesForStripsOfTiles) {
  for (const uint64_t rows : {128, 130, 161, 200, 256 - 17, 256, 256 + 96, 384, 512 + 3}) {
    Matrix matrix(which_, rows, 2 * block_);
    fill_random(matrix, random_);
    SCOPED_TRACE(rows);
    expect_pinned(matrix, random_vectors(few() * matrix.columns(), random_));
    const PackedMatrix packed = matrix.pack();
    const std::vector<float> x = random_vectors(matrix.columns(), random_);
    const std::vector<float> whole = run_matmul(kernels_, packed, {0, rows}, x);
    const std::vector<float> part = run_matmul(kernels_, packed, {37, rows - 1}, x);
    EXPECT_TRUE(same_bytes(part, std::span(whole).subspan(37, rows - 38)));
  }
}

// Whole strips that are multiplied side by side, after a part of one, before one, and behind others.
TEST_P(CodesMatmul, GivesTheSameBytesForPartsOfStrips) {
  if (code_layout(format_, which_.packing).strip_tiles == 1) return;
  constexpr uint64_t kRows = 515;
  constexpr uint32_t kVectors = 4;
  Matrix matrix(which_, kRows, 2 * block_);
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const std::vector<float> x = random_vectors(kVectors * matrix.columns(), random_);
  const std::vector<float> whole = expected(matrix, x);
  for (uint32_t n = 1; n <= kVectors; ++n) {
    for (const Rows rows : {Rows{0, kRows}, Rows{1, kRows}, Rows{17, 239}, Rows{133, 384}, Rows{256, kRows}}) {
      std::vector<float> wanted;
      for (uint32_t i = 0; i < n; ++i) {
        const auto vector = whole.begin() + i * kRows;
        wanted.insert(wanted.end(), vector + rows.first, vector + rows.last);
      }
      const std::span some = std::span(x).first(n * matrix.columns());
      EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, rows, some), wanted))
          << n << " vectors, " << rows.first << " to " << rows.last;
    }
  }
}

TEST_P(CodesMatmul, IsExactWhereEverySumIsLargest) {
  for (const uint8_t codes : {0x00, 0xFF, 0x80, 0x7F, 0x55, 0xAA}) {
    Matrix matrix(which_, 16, 2 * block_);
    for (uint64_t row = 0; row < matrix.rows(); ++row) {
      for (uint64_t i = 0; i < matrix.blocks(); ++i) {
        std::memset(matrix.block(row, i), codes, matrix.traits().block_bytes);
        set_d(format_, matrix.block(row, i), 0x3C00);
        set_minimum(format_, matrix.block(row, i), 0x3C00);
      }
    }
    std::vector<float> x(enough(9) * matrix.columns(), 127.0f);
    for (size_t i = 0; i < 2 * matrix.columns(); ++i) x[i] = -127.0f;
    for (size_t i = 2 * matrix.columns(); i < 3 * matrix.columns(); ++i) x[i] = i % 2 ? 127.0f : -127.0f;
    SCOPED_TRACE(testing::Message() << "codes " << int{codes});
    expect_pinned(matrix, x);
  }
}

// 2^31 is less than 2 % away: in Q6_K with scales of -128 and codes of 0, less 32, in IQ4_XS with scales of -32 and
// numbers of -127, both of which bytes of zero are.
TEST_P(LargestSumMatmul, HoldsTheLargestSumOfASuperBlock) {
  constexpr size_t kQ6ScalesAt = 192, kQ6Scales = 16;  // behind the codes: core/quant
  const float largest = format_ == Format::kQ6_K ? 32 * 128 : 32 * 127;
  Matrix matrix(which_, 16, 2 * block_);
  for (uint64_t row = 0; row < matrix.rows(); ++row) {
    for (uint64_t i = 0; i < matrix.blocks(); ++i) {
      std::byte *block = matrix.block(row, i);
      std::memset(block, 0, matrix.traits().block_bytes);
      if (format_ == Format::kQ6_K) std::memset(block + kQ6ScalesAt, 0x80, kQ6Scales);
      set_d(format_, block, 0x3C00);
    }
  }
  std::vector<float> x(enough(9) * matrix.columns(), 127.0f);
  for (size_t i = 0; i < 4 * matrix.columns(); ++i) x[i] = i / 256 % 2 == 0 ? -127.0f : i % 2 == 0 ? 1.0f : 127.0f;
  expect_pinned(matrix, x);
  EXPECT_EQ(run_matmul(kernels_, matrix.pack(), {0, 1}, std::span(x).last(matrix.columns()))[0],
            2 * 256 * 127 * largest);
}

TEST_P(CodesMatmul, TakesScalesOfEveryKind) {
  // Subnormal, smallest, zeros of both signs, largest, infinite, NaN.
  const uint16_t kScales[] = {0x0001, 0x83FF, 0x0400, 0x0000, 0x8000, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0xFD01};
  Matrix matrix(which_, std::size(kScales), 3 * block_);
  fill_random(matrix, random_);
  const std::vector<float> x = random_vectors(few() * matrix.columns(), random_);
  for (uint64_t row = 0; row < matrix.rows(); ++row) set_d(format_, matrix.block(row, 1), kScales[row]);
  expect_pinned(matrix, x);
  fill_random(matrix, random_);
  for (uint64_t row = 0; row < matrix.rows(); ++row) set_minimum(format_, matrix.block(row, 1), kScales[row]);
  expect_pinned(matrix, x);
}

TEST_P(Matmul, TurnsUnusableActivationsIntoNaN) {
  Matrix matrix(which_, 17, has_integer_codes(format_) ? 3 * block_ : columns_up_to(40));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = random_vectors(3 * matrix.columns(), random_);
    const std::vector<float> good = run_matmul(kernels_, packed, {0, 17}, x);
    x[matrix.columns() + matrix.columns() / 2] = bad;
    const std::vector<float> y = run_matmul(kernels_, packed, {0, 17}, x);
    EXPECT_TRUE(same_bytes(std::span(y).first(17), std::span(good).first(17))) << "another vector changed";
    EXPECT_TRUE(same_bytes(std::span(y).last(17), std::span(good).last(17))) << "another vector changed";
    for (size_t row = 0; row < 17; ++row) {
      const float value = y[17 + row];
      EXPECT_FALSE(std::isfinite(value));
      if (std::isnan(value)) {
        EXPECT_EQ(std::bit_cast<uint32_t>(value), 0x7FC00000u);
      }
    }
  }
}

TEST_P(Matmul, MatchesFloat64) {
  Matrix matrix(which_, 40, has_integer_codes(format_) ? 4 * block_ : columns_up_to(531));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const std::vector<float> x = random_vectors(3 * matrix.columns(), random_);
  const std::vector<double> wide(x.begin(), x.end());
  const std::vector<float> y = run_matmul(kernels_, packed, {0, matrix.rows()}, x);
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double *vector = wide.data() + i / matrix.rows() * matrix.columns();
    const double truth = test::exact_dot(matrix.traits(), matrix.row(i % matrix.rows()), vector, matrix.columns());
    error += (y[i] - truth) * (y[i] - truth);
    norm += truth * truth;
  }
  EXPECT_LE(std::sqrt(error / norm), has_integer_codes(format_) ? 2e-2 : 1e-4);
}

// With panels of other vectors the results are those vectors': who takes panels does not fall back to what they were
// filled from.
TEST_P(Matmul, MultipliesWhatPanelsHold) {
  constexpr uint32_t kVectors = 66;
  Matrix matrix(which_, 21, has_integer_codes(format_) ? 2 * block_ : columns_up_to(96));
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const PanelKind *kind = kernels_.panels.kind_of ? kernels_.panels.kind_of(packed, kVectors) : nullptr;
  if (!kind) return;
  const uint64_t rows = matrix.rows(), columns = matrix.columns();
  const std::vector<float> x = random_vectors(kVectors * columns, random_),
                           others = random_vectors(kVectors * columns, random_);
  const ActivationLayout layout = activation_layout(packed);
  const auto quantized = aligned_bytes(layout.block > 0 ? kVectors * quantized_row_bytes(layout, columns) : 0),
             scratch = aligned_bytes(kernels_.scratch_bytes);
  std::vector<float> y(kVectors * rows);
  MatmulArgs args = {.matrix = &packed,
                     .first_row = 0,
                     .last_row = rows,
                     .n = kVectors,
                     .x = others.data(),
                     .x_stride = columns,
                     .quantized_rows = layout.block > 0 ? quantized.get() : nullptr,
                     .tables = nullptr,
                     .y = y.data(),
                     .y_stride = rows,
                     .scratch = scratch.get()};
  if (layout.block > 0) quantize_rows(kernels_, others, kVectors, layout, quantized.get());
  const auto panels = panels_of(kernels_, args);
  args.panels = panels.get();
  args.x = x.data();
  if (layout.block > 0) quantize_rows(kernels_, x, kVectors, layout, quantized.get());
  kernels_.matmul(args);
  EXPECT_TRUE(same_bytes(y, run_matmul(kernels_, packed, {0, rows}, others)));
}

TEST_P(FloatMatmul, HandlesTailsOfColumns) {
  for (const uint64_t columns : {1, 7, 8, 9, 15, 16, 17, 31, 33, 100}) {
    Matrix matrix(which_, 9, columns);
    fill_random(matrix, random_);
    SCOPED_TRACE(columns);
    for (const uint64_t n : {7, 15}) expect_pinned(matrix, random_vectors(n * columns, random_));
  }
}

TEST_P(HalfMatmul, ReadsEverySixteenBitFloat) {
  Matrix matrix(which_, 65536, 1);
  for (uint32_t bits = 0; bits < 65536; ++bits) store_half(matrix.block(bits, 0), static_cast<uint16_t>(bits));
  const PackedMatrix packed = matrix.pack();
  const float one = 1.0f;
  const std::vector<float> y = run_matmul(kernels_, packed, {0, 65536}, std::span(&one, 1));
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float value;
    matrix.traits().decode(matrix.row(bits), &value, 1);
    // Compared as numbers: a sum that starts at 0 has no -0.
    ASSERT_TRUE(y[bits] == value || (std::isnan(y[bits]) && std::isnan(value))) << "bits " << bits;
  }
}

// With one vector and with several: a tier may have a faster way for numbers, and has to notice what is none in either.
TEST_P(F8Matmul, ReadsEveryCodeWithScalesOfEveryKind) {
  Matrix matrix(which_, 256, block_);
  const std::vector<float> ones(13 * block_, 1.0f);
  for (const uint16_t scale : {0x3C00, 0x0001, 0x83FF, 0x7BFF, 0x0000, 0x7C00, 0x7E00}) {
    for (uint32_t code = 0; code < 256; ++code) {
      std::byte *block = matrix.block(code, 0);
      std::memset(block, 0, block_);
      block[code % block_] = static_cast<std::byte>(code);
      store_half(block + block_, scale);
    }
    SCOPED_TRACE(testing::Message() << "scale " << scale);
    expect_pinned(matrix, std::span(ones).first(block_));
    expect_pinned(matrix, ones);
  }
}

// More columns than a piece of the vectors that are multiplied at once has, and more tiles than are multiplied with
// them before others (f8_matmul.inl.h), for one group of vectors and for several.
TEST_P(F8Matmul, TakesSeveralPiecesOfVectors) {
  for (const auto &[rows, columns] : {std::pair<uint64_t, uint64_t>{71, 4192}, {131 * kTileRows - 5, 96}}) {
    Matrix matrix(which_, rows, columns);
    fill_random(matrix, random_);
    const PackedMatrix packed = matrix.pack();
    for (const uint32_t n : {1, 2, 3, 4, 8, 11, 16}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << n << " vectors");
      const std::vector<float> x = random_vectors(n * columns, random_), wanted = expected(matrix, x);
      EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, {0, rows}, x), wanted));
      std::vector<float> parts;
      for (uint32_t i = 0; i < n; ++i) {
        parts.insert(parts.end(), wanted.begin() + i * rows + 3, wanted.begin() + (i + 1) * rows);
      }
      EXPECT_TRUE(same_bytes(run_matmul(kernels_, packed, {3, rows}, x), parts)) << "without the first three rows";
    }
  }
}

// A vector is scaled to its largest value, far from which others may be: as many vectors as any tier takes its own way
// for.
TEST_P(F8Matmul, TakesVectorsOfEveryRange) {
  constexpr uint64_t kVectors = 19, kRows = 33, kBlocks = 5;
  Matrix matrix(which_, kRows, kBlocks * block_);
  fill_random(matrix, random_);
  for (uint64_t row = 0; row < kRows; row += 3) std::memset(matrix.block(row, 2), 0, block_ / 2);
  const float kScales[] = {1.0f, 0x1p127f, 0x1p-100f, 0x1p-126f, 0x1p-140f};
  for (const float least : {1.0f, 0x1p-90f, 0x1p-100f, 0x1p-118f, 0x1p-126f, 0x1p-149f, 0.0f, -0.0f}) {
    std::vector<float> x = random_vectors(kVectors * matrix.columns(), random_);
    for (uint64_t i = 0; i < kVectors; ++i) {
      const std::span<float> vector = std::span(x).subspan(i * matrix.columns(), matrix.columns());
      for (float &value : vector) value *= kScales[i % std::size(kScales)];
      if (i == 6) std::ranges::fill(vector.subspan(block_, 3 * block_), least);
      if (i == 11) std::ranges::fill(vector, -least);
    }
    SCOPED_TRACE(testing::Message() << "least " << least);
    expect_pinned(matrix, x);
  }
}

// Products far below all numbers still have a sign, which a sum of -0 shows: nobody may round one of their factors to
// 0.
TEST_P(F8Matmul, KeepsTheSignOfWhatVanishes) {
  constexpr uint64_t kVectors = 19;
  const bool has_4_bits = format_ == Format::kF8_E4M3;
  const std::byte kOne{static_cast<uint8_t>(has_4_bits ? 0x38 : 0x3C)};
  const float too_small = has_4_bits ? 0x1p-120f : 0x1p-112f;  // by so much kernels multiply less than a code's value
  Matrix matrix(which_, 1, 3 * block_);
  for (uint64_t i = 0; i < 3; ++i) {
    std::memset(matrix.block(0, i), 0, block_);
    if (i < 2) matrix.block(0, i)[block_ - 1] = kOne;
    store_half(matrix.block(0, i) + block_, i == 0 ? 0x0001 : i == 1 ? 0x3C00 : 0xBC00);  // 2^-24, 1, -1
  }
  std::vector<float> x(kVectors * matrix.columns(), 0.0f);
  for (uint64_t i = 0; i < kVectors; ++i) {
    float *vector = x.data() + i * matrix.columns();
    vector[block_ - 1] = -0x1p27f * (0x1p-128f / too_small);  // what a float still holds, and not times 2^-24
    vector[2 * block_ - 1] = -0x1p27f * 0x1p-149f;            // the smallest that is not 0
    vector[2 * block_] = 0x1p127f;                            // makes it 2^27 times less
  }
  expect_pinned(matrix, x);
  EXPECT_TRUE(std::signbit(run_matmul(kernels_, matrix.pack(), {0, 1}, x)[0]));
}

auto every_tier(const std::vector<Format> &formats) {
  std::vector<Case> cases;
  for (const KernelTable *kernels : testable_kernels()) {
    for (const PackedFormat &which : packings_of(formats)) {
      const bool is_taken = which.packing == Packing::kUsual || which.packing == kernels->packing_of(which.format);
      if (is_taken) cases.emplace_back(kernels, which);
    }
  }
  return ::testing::ValuesIn(cases);
}

INSTANTIATE_TEST_SUITE_P(Tiers, Matmul, every_tier(all_formats()), case_name);
INSTANTIATE_TEST_SUITE_P(Tiers, CodesMatmul, every_tier(code_formats()), case_name);
INSTANTIATE_TEST_SUITE_P(Tiers, LargestSumMatmul, every_tier({Format::kQ6_K, Format::kIQ4_XS}), case_name);
INSTANTIATE_TEST_SUITE_P(Tiers, FloatMatmul, every_tier(float_formats()), case_name);
INSTANTIATE_TEST_SUITE_P(Tiers, HalfMatmul, every_tier(half_formats()), case_name);
INSTANTIATE_TEST_SUITE_P(Tiers, F8Matmul, every_tier(f8_formats()), case_name);

}  // namespace
}  // namespace bonsai::cpu
