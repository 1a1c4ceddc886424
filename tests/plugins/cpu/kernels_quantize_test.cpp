// What quantize promises (plugins/cpu/kernels/kernels.h), in every tier.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

constexpr ActivationLayout kNaturalOrder = one_group(ActivationOrder::kNatural);

class Quantize : public ::testing::TestWithParam<const KernelTable *> {
 protected:
  // A row of one group in its natural order.
  struct Row {
    std::vector<int> codes;
    float scale;
    int16_t sum;
  };

  Row quantize(std::vector<float> x) {
    x.resize(kNaturalOrder.block);
    const auto bytes = aligned_bytes(quantized_row_bytes(kNaturalOrder, x.size()));
    quantize_rows(*GetParam(), x, 1, kNaturalOrder, bytes.get());
    Row row;
    for (size_t i = 0; i < x.size(); ++i) row.codes.push_back(static_cast<int8_t>(bytes[i]));
    std::memcpy(&row.scale, bytes.get() + x.size(), sizeof row.scale);
    std::memcpy(&row.sum, bytes.get() + x.size() + sizeof row.scale, sizeof row.sum);
    return row;
  }

  void expect_no_codes(const Row &row) {
    EXPECT_EQ(row.codes, std::vector<int>(kNaturalOrder.block, 0));
    EXPECT_EQ(row.sum, 0);
  }
};

TEST_P(Quantize, RoundsHalvesToEven) {
  // amax 127 makes the scale 1.
  const Row row = quantize({127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 125.5f, 126.5f, 0.49999997f, -126.5f});
  const std::vector<int> first(row.codes.begin(), row.codes.begin() + 11);
  EXPECT_EQ(first, (std::vector<int>{127, 0, 2, 2, 0, -2, -2, 126, 126, 0, -126}));
  EXPECT_EQ(row.scale, 1.0f);
  EXPECT_EQ(row.sum, 127 + 2 + 2 - 2 - 2 + 126 + 126 - 126);
}

TEST_P(Quantize, KeepsCodesWithin127ForAnyLargestMagnitude) {
  std::mt19937 random(3);
  for (int i = 0; i < 1000; ++i) {
    const float amax =
        std::ldexp(1.0f + static_cast<float>(random() % 65536) / 65536.0f, static_cast<int>(random() % 240) - 117);
    const Row row = quantize({amax, -amax, amax / 3.0f});
    ASSERT_EQ(row.codes[0], 127) << amax;
    ASSERT_EQ(row.codes[1], -127) << amax;
    ASSERT_EQ(row.codes[2], 42) << amax;
    ASSERT_EQ(row.scale, amax / 127.0f);
  }
}

TEST_P(Quantize, MakesZeroOfZerosAndOfWhatIsTooSmallToScale) {
  for (const float tiny : {0.0f, -0.0f, 1e-45f, -1e-40f, 0x1.fffffep-119f}) {
    const Row row = quantize({tiny, tiny});
    expect_no_codes(row);
    EXPECT_EQ(std::bit_cast<uint32_t>(row.scale), 0u) << tiny;
  }
  EXPECT_EQ(quantize({0x1p-118f}).codes[0], 127);
}

TEST_P(Quantize, TakesTheLargestFloat) {
  const float largest = std::numeric_limits<float>::max();
  const Row row = quantize({largest, -largest, largest / 2.0f});
  EXPECT_EQ(row.codes[0], 127);
  EXPECT_EQ(row.codes[1], -127);
  EXPECT_EQ(row.scale, largest / 127.0f);
}

TEST_P(Quantize, MarksNaNAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad :
       {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN()}) {
    for (const size_t place : {0, 15, 31}) {
      std::vector<float> x(kNaturalOrder.block, 1.0f);
      x[place] = bad;
      const Row row = quantize(x);
      expect_no_codes(row);
      EXPECT_EQ(std::bit_cast<uint32_t>(row.scale), 0x7FC00000u);
    }
  }
}

// A row of blocks of several groups, in its natural order.
struct SharedRow {
  std::vector<int> codes, multipliers;
  float scale;
  int32_t sum;
};

SharedRow quantize_shared(const KernelTable &kernels, const std::vector<float> &x, SumTables kind = SumTables::kNone) {
  const ActivationLayout layout = block_of(static_cast<uint32_t>(x.size()), ActivationOrder::kNatural, kind);
  const size_t row_bytes = quantized_row_bytes(layout, x.size());
  const auto bytes = aligned_bytes(row_bytes);
  std::memset(bytes.get(), 0x55, row_bytes);
  std::vector<int16_t> tables(x.size() / kActivationGroup * kernels.table_elements(kind));
  quantize_rows(kernels, x, 1, layout, bytes.get(), tables.empty() ? nullptr : tables.data());
  SharedRow row;
  const std::byte *from = bytes.get();
  for (size_t i = 0; i < x.size(); ++i) row.codes.push_back(static_cast<int8_t>(*from++));
  std::memcpy(&row.scale, from, sizeof row.scale);
  from += sizeof row.scale;
  for (size_t i = 0; i < x.size() / 32; ++i, from += sizeof(GroupMultiplier)) {
    GroupMultiplier multiplier;
    std::memcpy(&multiplier, from, sizeof multiplier);
    const int16_t m = multiplier.words[0];
    const bool is_whole = multiplier.words[1] == 0 && multiplier.words[2] == m && multiplier.words[3] == m;
    row.multipliers.push_back(is_whole ? m : -1);
  }
  std::memcpy(&row.sum, from, sizeof row.sum);
  return row;
}

TEST_P(Quantize, SharesAScaleAmongGroups) {
  std::vector<float> x(128, 0.0f);
  x[0] = -1023.0f;  // the largest, so that the scale is 1023 / (127 * 1023)
  x[33] = 1.0f;     // one 1023rd of it
  x[64] = 1.5f;     // between two
  const SharedRow row = quantize_shared(*GetParam(), x);
  EXPECT_EQ(row.scale, 1023.0f / (127.0f * 1023.0f));
  EXPECT_EQ(row.multipliers, (std::vector<int>{1023, 1, 2, 0}));
  EXPECT_EQ(row.codes[0], -127);
  EXPECT_EQ(row.codes[33], 127);
  EXPECT_EQ(row.codes[64], 95);  // 1.5 * 127 / 2
  EXPECT_EQ(std::vector<int>(row.codes.begin() + 96, row.codes.end()), std::vector<int>(32, 0));
  EXPECT_EQ(row.sum, -127 * 1023 + 127 + 95 * 2);
}

TEST_P(Quantize, KeepsCodesOfSharedScalesWithin127AndNearTheValues) {
  std::mt19937 random(4);
  for (int i = 0; i < 1000; ++i) {
    const int exponent = static_cast<int>(random() % 220) - 96;
    std::vector<float> x(64 << random() % 3);
    for (size_t j = 0; j < x.size(); ++j) {
      x[j] = std::ldexp(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0f,
                        exponent - static_cast<int>(j / 32));
    }
    const SharedRow row = quantize_shared(*GetParam(), x);
    for (size_t j = 0; j < x.size(); ++j) {
      const double step = static_cast<double>(row.scale) * row.multipliers[j / 32];
      ASSERT_LE(std::abs(row.codes[j]), 127) << i;
      ASSERT_LE(std::abs(row.codes[j] * step - x[j]), 0.5001 * step) << i;
    }
  }
}

TEST_P(Quantize, HasNoCodesWhereSharedScalesAreTooSmallOrNoNumbers) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const SumTables kind : {SumTables::kNone, SumTables::kSigns, SumTables::kTrits}) {
    if (kind != SumTables::kNone && GetParam()->table_elements(kind) == 0) continue;
    for (const float bad : {0x1.fffffep-105f, -0.0f, infinity, -infinity, nan}) {
      SCOPED_TRACE(testing::Message() << bad << ", tables " << static_cast<int>(kind));
      std::vector<float> x(128, 0.0f);
      x[0] = x[100] = bad;
      if (!std::isfinite(bad)) x[50] = 1.0f;
      const SharedRow row = quantize_shared(*GetParam(), x, kind);
      EXPECT_EQ(row.codes, std::vector<int>(128, 0));
      EXPECT_EQ(row.multipliers, std::vector<int>(4, 0));
      if (kind == SumTables::kNone) {
        EXPECT_EQ(row.sum, 0);
      }
      EXPECT_EQ(std::bit_cast<uint32_t>(row.scale), std::isfinite(bad) ? 0u : 0x7FC00000u);
    }
    std::vector<float> x(128, 0.0f);
    x[100] = 0x1p-104f;
    EXPECT_EQ(quantize_shared(*GetParam(), x, kind).codes[100], 127);
  }
}

TEST_P(Quantize, SumsUpSixteenColumnsOfASuperBlock) {
  const ActivationLayout layout = activation_layout(quant::Format::kQ4_K);
  ASSERT_EQ(layout.sum_columns, 16u);
  std::vector<float> x(512, 0.0f);
  std::fill_n(x.begin(), 16, -127.0f);
  std::fill_n(x.begin() + 16, 16, 1.0f);
  std::fill_n(x.begin() + 240, 16, 127.0f);
  x[511] = 2.0f;
  const auto row = aligned_bytes(quantized_row_bytes(layout, x.size()));
  quantize_rows(*GetParam(), x, 1, layout, row.get());
  int16_t sums[32];
  std::memcpy(sums, row.get() + x.size() + 2 * sizeof(float) + 16 * sizeof(GroupMultiplier), sizeof sums);
  std::vector<int> wanted(32, 0);  // times the group's integer, which is 16 for all that has codes here
  wanted[0] = -16 * 127 * 16;
  wanted[1] = 16 * 16;
  wanted[15] = 16 * 127 * 16;
  wanted[31] = 127 * 16;
  EXPECT_EQ(std::vector<int>(sums, sums + 32), wanted);
}

TEST_P(Quantize, GivesTheSameBytesAsThePortableTierInEveryLayout) {
  std::mt19937 random(5);
  for (const quant::FormatTraits &traits : quant::formats()) {
    const ActivationLayout layout = activation_layout(traits.format);
    if (layout.block == 0) continue;
    const uint64_t columns = 5 * layout.block;
    const std::vector<float> x = random_vectors(3 * columns, random);
    const size_t bytes = 3 * quantized_row_bytes(layout, columns);
    const auto actual = aligned_bytes(bytes);
    const auto wanted = aligned_bytes(bytes);
    std::memset(actual.get(), 0, bytes);
    std::memset(wanted.get(), 0, bytes);
    quantize_rows(*GetParam(), x, 3, layout, actual.get());
    quantize_rows(portable_kernels(), x, 3, layout, wanted.get());
    EXPECT_EQ(std::memcmp(actual.get(), wanted.get(), bytes), 0) << traits.name;
  }
}

std::vector<ActivationLayout> all_layouts() {
  std::vector<ActivationLayout> layouts = {kTritsG128Layout.activations, kTrits256Layout.activations};
  for (const quant::FormatTraits &traits : quant::formats()) {
    const ActivationLayout layout = activation_layout(traits.format);
    if (layout.block > 0) layouts.push_back(layout);
  }
  return layouts;
}

// Longer than what is quantised at a time, and no multiple of it.
constexpr uint64_t kManyColumns = 2 * 2048 + 512;

// Blocks that have codes beside such as have none.
std::vector<float> blocks_of_all_kinds(uint64_t columns, uint32_t block) {
  std::mt19937 random(11);
  std::vector<float> x = random_vectors(columns, random);
  for (uint64_t begin = 0, kind = 0; begin < columns; begin += block, kind = (kind + 1) % 9) {
    float &some = x[begin + random() % block];
    const auto of_block = x.begin() + static_cast<std::ptrdiff_t>(begin);
    if (kind == 1) some = std::numeric_limits<float>::quiet_NaN();
    if (kind == 3) some = -std::numeric_limits<float>::infinity();
    if (kind == 4 || kind == 6) std::fill_n(of_block, block, 0.0f);
    if (kind == 6) some = 0x1.fffffep-119f;
    if (kind == 7) some = -1000.0f;
  }
  return x;
}

// The column of a group that the code at `place` is of.
int column_at(ActivationOrder order, int place) {
  const int word = place / 4, byte = place % 4;
  switch (order) {
    case ActivationOrder::kNatural:
      return place;
    case ActivationOrder::kNibbles:
      return 4 * (word / 2) + 16 * (word % 2) + byte;
    case ActivationOrder::kStride4:
      return 16 * (word / 4) + word % 4 + 4 * byte;
    case ActivationOrder::kStride8:
      return word + 8 * byte;
  }
  return -1;
}

// As kernels.h has it, in plain loops; `natural`: in the order of columns, and without sums.
std::vector<std::byte> quantize_plainly(const std::vector<float> &x, ActivationLayout layout, bool natural) {
  std::vector<int8_t> codes(x.size());
  std::vector<float> scales;
  std::vector<GroupMultiplier> multipliers;
  std::vector<int32_t> sums;
  const bool shared = layout.most_multiplier > 0;
  const auto most = static_cast<float>(layout.most_multiplier);
  for (uint64_t begin = 0; begin < x.size(); begin += layout.block) {
    float amax = 0.0f;
    bool is_finite = true;
    for (uint64_t i = begin; i < begin + layout.block; ++i) {
      is_finite = is_finite && std::isfinite(x[i]);
      amax = std::max(amax, std::abs(x[i]));
    }
    const bool has_codes = is_finite && amax >= (shared ? 0x1p-104f : 0x1p-118f);
    const float scale = shared ? amax / (127.0f * most) : amax / 127.0f;
    scales.push_back(has_codes ? scale : is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN());
    std::vector<int32_t> products(layout.block);
    for (uint64_t group = begin; group < begin + layout.block; group += kActivationGroup) {
      float of_group = 0.0f;
      for (uint64_t i = group; i < group + kActivationGroup; ++i) of_group = std::max(of_group, std::abs(x[i]));
      const float m = !has_codes ? 0.0f : shared ? std::min(most, std::ceil(of_group * (most / amax))) : 1.0f;
      const float inverse = m == 0.0f ? 0.0f : shared ? 1.0f / (scale * m) : 127.0f / amax;
      const auto word = static_cast<int16_t>(m);
      if (shared) multipliers.push_back({{word, 0, word, word}});
      for (int place = 0; place < static_cast<int>(kActivationGroup); ++place) {
        const int column = column_at(natural ? ActivationOrder::kNatural : layout.order, place);
        const auto code = m == 0.0f ? 0 : static_cast<int32_t>(std::nearbyint(x[group + column] * inverse));
        codes[group + place] = static_cast<int8_t>(code);
        products[group - begin + column] = code * word;
      }
    }
    for (uint64_t i = 0; i < layout.block; i += layout.sum_columns) {
      sums.push_back(std::accumulate(products.begin() + i, products.begin() + i + layout.sum_columns, 0));
    }
  }
  std::vector<std::byte> row(quantized_row_bytes(layout, x.size()));
  std::byte *to = row.data();
  const auto put = [&to](const auto &values) { to = std::ranges::copy(std::as_bytes(std::span(values)), to).out; };
  put(codes);
  put(scales);
  put(multipliers);
  if (natural) return row;
  if (layout.has_wide_sums()) {
    put(sums);
  } else {
    put(std::vector<int16_t>(sums.begin(), sums.end()));
  }
  return row;
}

TEST_P(Quantize, DoesWhatItPromisesInLongRowsOfAllKindsOfBlocks) {
  for (const ActivationLayout layout : all_layouts()) {
    const std::vector<float> x = blocks_of_all_kinds(kManyColumns, layout.block);
    const size_t bytes = quantized_row_bytes(layout, x.size());
    for (const bool with_tables : {false, true}) {
      const size_t elements = GetParam()->table_elements(layout.tables);
      if (with_tables && elements == 0) continue;
      const auto row = aligned_bytes(bytes);
      std::memset(row.get(), 0, bytes);
      std::vector<int16_t> tables(with_tables ? x.size() / kActivationGroup * elements : 0);
      quantize_rows(*GetParam(), x, 1, layout, row.get(), with_tables ? tables.data() : nullptr);
      const std::vector<std::byte> wanted = quantize_plainly(x, layout, with_tables);
      EXPECT_EQ(std::memcmp(row.get(), wanted.data(), bytes), 0)
          << "blocks of " << layout.block << ", order " << static_cast<int>(layout.order) << ", tables " << with_tables;
    }
  }
}

// Threads share the columns of one vector.
TEST_P(Quantize, GivesTheSameBytesInPiecesOfARow) {
  const uint64_t columns = kManyColumns;
  std::mt19937 random(9);
  const std::vector<float> x = random_vectors(columns, random);
  for (const ActivationLayout layout : all_layouts()) {
    const size_t bytes = quantized_row_bytes(layout, columns);
    const auto whole = aligned_bytes(bytes), pieces = aligned_bytes(bytes);
    std::memset(whole.get(), 0, bytes);
    std::memset(pieces.get(), 0, bytes);
    std::vector<int16_t> tables(columns / kActivationGroup * GetParam()->table_elements(layout.tables), 1),
        piece_tables(tables.size(), 2);
    const bool with_tables = GetParam()->table_elements(layout.tables) > 0;
    quantize_rows(*GetParam(), x, 1, layout, whole.get(), with_tables ? tables.data() : nullptr);
    const uint64_t first = layout.block <= 128 ? 384 : 256;  // and not always whole runs of groups
    const std::pair<uint64_t, uint64_t> places[] = {{2304, columns}, {0, first}, {1024, 2304}, {first, 1024}};
    for (const auto &[begin, end] : places) {
      GetParam()->quantize({.x = x.data(),
                            .x_stride = columns,
                            .n = 1,
                            .columns = columns,
                            .layout = layout,
                            .begin = begin,
                            .end = end,
                            .rows = pieces.get(),
                            .tables = with_tables ? piece_tables.data() : nullptr});
    }
    const auto order = static_cast<int>(layout.order), kind = static_cast<int>(layout.tables);
    EXPECT_EQ(std::memcmp(whole.get(), pieces.get(), bytes), 0) << "order " << order << ", tables " << kind;
    if (!with_tables) continue;
    EXPECT_EQ(tables, piece_tables) << "order " << order << ", tables " << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiers, Quantize, ::testing::ValuesIn(testable_kernels()),
                         [](const auto &info) { return name_of(info.param->name); });

}  // namespace
}  // namespace bonsai::cpu
