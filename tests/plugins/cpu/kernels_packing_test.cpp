// Packed matrices (plugins/cpu/kernels/packed_matrix.h), for every format and packing.
#include "tests/plugins/cpu/kernels_formats.h"

namespace bonsai::cpu {
namespace {

class PackedRows : public ::testing::TestWithParam<PackedFormat> {
 protected:
  std::mt19937 random_{11};
};

class Repacking : public PackedRows {};

TEST_P(PackedRows, KeepsEveryRowDecodable) {
  const quant::FormatTraits &traits = quant::traits(GetParam().format);
  Matrix matrix(GetParam(), 35, 3 * traits.block_weights);
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  for (uint64_t row = 0; row < matrix.rows(); ++row) {
    std::vector<float> wanted(matrix.columns());
    traits.decode(matrix.row(row), wanted.data(), wanted.size());
    std::vector<float> values(matrix.columns());
    decode_row(packed, row, values);
    EXPECT_TRUE(same_bytes(values, wanted)) << "row " << row;
  }
}

TEST_P(Repacking, GivesTheSameBytesInPieces) {
  Matrix matrix(GetParam(), 70, 3 * quant::traits(GetParam().format).block_weights);
  fill_random(matrix, random_);
  const PackedMatrix whole = matrix.pack();
  const size_t bytes = packed_bytes(GetParam().format, matrix.rows(), matrix.columns(), GetParam().packing);
  const auto pieces = aligned_bytes(bytes);
  const uint64_t tiles = tile_count(matrix.rows());
  for (uint64_t tile = tiles; tile-- > 0;) {
    pack_tiles({GetParam().format, matrix.rows(), matrix.columns(), matrix.row(0), pieces.get(), tile, tile + 1,
                GetParam().packing});
  }
  EXPECT_EQ(std::memcmp(pieces.get(), whole.data, bytes), 0);
}

// What packed_matrix.h says.
size_t expected_packed_block_bytes(const quant::FormatTraits &traits, Packing packing) {
  if (packing == Packing::kTrits) return traits.block_weights == 128 ? 29 : 56;
  switch (traits.format) {
    case Format::kTQ1_0_G128:
      return 34;
    case Format::kTQ1_0:
      return 66;
    case Format::kQ3_K:
      return 114;
    case Format::kQ4_K:
      return 148;
    case Format::kQ5_K:
      return 180;
    case Format::kQ8_K:
      return 260;
    case Format::kIQ4_XS:
      return 138;
    default:
      return traits.block_bytes;
  }
}

TEST_P(PackedRows, TakesTheSpaceThatItSays) {
  const quant::FormatTraits &traits = quant::traits(GetParam().format);
  const size_t blocks = 4096 * 4096 / traits.block_weights;
  EXPECT_EQ(packed_bytes(GetParam().format, 4096, 4096, GetParam().packing),
            blocks * expected_packed_block_bytes(traits, GetParam().packing));
}

std::string format_name(const ::testing::TestParamInfo<PackedFormat> &info) { return packed_name_of(info.param); }

INSTANTIATE_TEST_SUITE_P(Formats, PackedRows, ::testing::ValuesIn(packings_of(all_formats())), format_name);
INSTANTIATE_TEST_SUITE_P(Formats, Repacking, ::testing::ValuesIn(packings_of(code_formats())), format_name);

}  // namespace
}  // namespace bonsai::cpu
