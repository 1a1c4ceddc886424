// Packing loses nothing, as seen by the kernel that decodes packed rows: the embedding's.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr float kUntouched = 12345;

struct Lookup {
  std::vector<int32_t> tokens;
  std::vector<int32_t> selected = {};
  uint32_t first_row = 0;
  int32_t first_token = 0;
  uint32_t rows = 0;
};

// (tokens, columns)
std::vector<float> embed(RandomMatrix &matrix, const Lookup &lookup, const emulation::Order &order = kForward) {
  std::vector<float> x(lookup.tokens.size() * matrix.columns(), kUntouched);
  const EmbedArguments arguments = {.weights = matrix.pack(),
                                    .tile_bytes = matrix.tile_bytes(),
                                    .tokens = lookup.tokens.data(),
                                    .selected = lookup.selected.data(),
                                    .x = x.data(),
                                    .columns = static_cast<uint32_t>(matrix.columns()),
                                    .first_row = lookup.first_row,
                                    .first_token = lookup.first_token,
                                    .rows = lookup.rows};
  emulation::launch({emulated_unit(embedding_unit(matrix.format())), "embed", order},
                    {static_cast<unsigned>(lookup.tokens.size()), segment_count(matrix.columns())}, kEmbedThreads, 0,
                    &arguments);
  return x;
}

std::vector<float> embed_all(RandomMatrix &matrix) {
  Lookup lookup = {.tokens = std::vector<int32_t>(matrix.rows()), .rows = static_cast<uint32_t>(matrix.rows())};
  std::iota(lookup.tokens.begin(), lookup.tokens.end(), 0);
  return embed(matrix, lookup);
}

// What packing may lose of a row (layout/packed_matrix.h).
float tolerance(Format format, const std::vector<float> &row) {
  float largest = 0;
  for (const float weight : row) largest = std::max(largest, std::fabs(weight));
  if (format == Format::kF32) return std::ldexp(largest, -22);
  return format == Format::kBF16 ? std::ldexp(largest, -38) : 0.0f;
}

class EveryFormat : public testing::TestWithParam<Format> {};
INSTANTIATE_TEST_SUITE_P(, EveryFormat, testing::ValuesIn(all_formats()),
                         [](const auto &info) { return name_of(info.param); });

TEST_P(EveryFormat, PackedRowsDecodeToWhatTheFileSays) {
  const uint64_t block = quant::traits(GetParam()).block_weights;
  for (const uint64_t rows : {1, 16, 37}) {
    for (const uint64_t blocks : {uint64_t{1}, 768 / block, 1280 / block + 1}) {
      const uint64_t columns = blocks * block;
      RandomMatrix matrix(GetParam(), rows, columns, static_cast<uint32_t>(rows));
      const std::vector<float> x = embed_all(matrix);
      for (uint64_t row = 0; row < rows; ++row) {
        const std::vector<float> expected = matrix.decoded(row);
        const float most = tolerance(GetParam(), expected);
        for (uint64_t i = 0; i < columns; ++i) {
          ASSERT_NEAR(x[row * columns + i], expected[i], most)
              << rows << " x " << columns << ", row " << row << ", " << i;
        }
      }
    }
  }
}

TEST_P(EveryFormat, SizesAreTheFilesWithinAFewPerCent) {
  const quant::FormatTraits &traits = quant::traits(GetParam());
  const double bytes = static_cast<double>(packed_bytes(GetParam(), 4096, 4096));
  const double file = 4096.0 * static_cast<double>(quant::row_bytes(traits, 4096));
  const bool unpacks_trits = GetParam() == Format::kTQ1_0 || GetParam() == Format::kTQ1_0_G128;
  EXPECT_LE(bytes / file, unpacks_trits ? 1.27 : 1.04);
  EXPECT_EQ(tile_bytes(GetParam(), 4096) % 64, 0u);
}

// Records must stay what a warp loads in aligned pieces of 16 bytes.
TEST_P(EveryFormat, EveryPartOfARecordIsAligned) {
  const MatrixLayout &layout = matrix_layout(GetParam());
  EXPECT_EQ(layout.record_bytes() % 64, 0u);
  EXPECT_EQ(layout.scales_at() % 16, 0u);
  EXPECT_EQ(layout.integers_at() % 16, 0u);
}

TEST(Embedding, TokensMayComeFromThePreviousSubmitsSelection) {
  RandomMatrix matrix(Format::kQ4_0, 20, 96);
  const std::vector<float> x = embed(matrix, {.tokens = {-3, 4, -1}, .selected = {7, 8, 19}, .rows = 20});
  const std::vector<uint64_t> expected = {19, 4, 7};
  for (uint64_t token = 0; token < 3; ++token) {
    const std::vector<float> row = matrix.decoded(expected[token]);
    EXPECT_TRUE(std::equal(row.begin(), row.end(), x.begin() + static_cast<std::ptrdiff_t>(token * 96)));
  }
}

TEST(Embedding, TokensOfOtherPartsAreLeftAlone) {
  RandomMatrix matrix(Format::kQ8_0, 40, 64);
  // Rows 10 to 29 are tokens 100 to 119.
  const Lookup lookup = {
      .tokens = {99, 100, 119, 120, -1, -2}, .selected = {-1, 105}, .first_row = 10, .first_token = 100, .rows = 20};
  for (const emulation::Order &order : emulation::kOrders) {
    const std::vector<float> x = embed(matrix, lookup, order);
    const std::vector<std::optional<uint64_t>> expected = {std::nullopt, 10, 29, std::nullopt, std::nullopt, 15};
    for (uint64_t token = 0; token < expected.size(); ++token) {
      const std::vector<float> row =
          expected[token] ? matrix.decoded(*expected[token]) : std::vector<float>(64, kUntouched);
      EXPECT_TRUE(std::equal(row.begin(), row.end(), x.begin() + static_cast<std::ptrdiff_t>(token * 64))) << token;
    }
  }
}

TEST(Layout, RowsThatAreNotFiniteBecomeNaN) {
  for (const Format format : {Format::kF32, Format::kBF16}) {
    for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      RandomMatrix matrix(format, 3, 40);
      quant::traits(format).encode(&bad, matrix.block(1, 33), 1);
      const std::vector<float> x = embed_all(matrix);
      for (uint64_t i = 0; i < 40; ++i) {
        EXPECT_FALSE(std::isnan(x[i]));
        EXPECT_TRUE(std::isnan(x[40 + i]));
        EXPECT_FALSE(std::isnan(x[80 + i]));
      }
    }
  }
}

TEST(Layout, AnF8BlockWithANaNBecomesNaN) {
  RandomMatrix matrix(Format::kF8_E4M3, 1, 96);
  matrix.block(0, 1)[5] = std::byte{0xFF};
  const std::vector<float> x = embed_all(matrix);
  for (uint64_t i = 0; i < 96; ++i) EXPECT_EQ(std::isnan(x[i]), i / 32 == 1) << i;
}

TEST(Layout, HalvesKeepInfinitiesAndTheSmallestNumbers) {
  RandomMatrix matrix(Format::kF16, 1, 8);
  const uint16_t halves[8] = {0x0001, 0x8001, 0x7C00, 0xFC00, 0x0000, 0x8000, 0x7BFF, 0x0400};
  std::memcpy(matrix.block(0, 0), halves, sizeof halves);
  const std::vector<float> x = embed_all(matrix);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(quant::float_to_half(x[i]), halves[i]);
}

// Numbers as small as floats have them, and rows of zeros.
TEST(Layout, FloatRowsMayHaveAnyMagnitude) {
  for (const int exponent : {-149, -126, -60, 0, 60, 127}) {
    RandomMatrix matrix(Format::kF32, 2, 33);
    std::vector<float> row(33);
    for (uint64_t i = 0; i < 33; ++i) row[i] = std::ldexp(i % 2 ? -1.0f : 1.0f, exponent - static_cast<int>(i / 8));
    std::memcpy(matrix.block(0, 0), row.data(), row.size() * sizeof(float));
    std::fill(matrix.block(1, 0), matrix.block(1, 0) + 33 * sizeof(float), std::byte{0});
    const std::vector<float> x = embed_all(matrix);
    for (uint64_t i = 0; i < 33; ++i) {
      EXPECT_EQ(x[i], row[i]) << "2^" << exponent;
      EXPECT_EQ(x[33 + i], 0.0f);
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
