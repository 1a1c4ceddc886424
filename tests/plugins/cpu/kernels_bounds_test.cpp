// What tabulate_bounds, bound and multiply_few promise (plugins/cpu/kernels/kernels.h), in every tier that has them.
#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

constexpr Format kFormat = Format::kQ1_0_G128;

// Quantised vectors with tables and with what bounds are made of.
struct Vectors {
  Vectors(const KernelTable &kernels, ActivationLayout layout, std::span<const float> x, uint64_t columns)
      : n(static_cast<uint32_t>(x.size() / columns)),
        elements(columns / kActivationGroup * kernels.table_elements(layout.tables)),
        rows(aligned_bytes(n * quantized_row_bytes(layout, columns))),
        tables(n * elements),
        bound_tables((n + 1) / 2 * elements),
        bounds((n + 1) / 2 * 2 * (columns / kBoundColumns)) {
    quantize_rows(kernels, x, n, layout, rows.get(), tables.data());
    kernels.tabulate_bounds({.rows = rows.get(),
                             .tables = tables.data(),
                             .n = n,
                             .columns = columns,
                             .layout = layout,
                             .bound_tables = bound_tables.data(),
                             .bounds = bounds.data()});
  }

  uint32_t n;
  uint64_t elements;
  std::unique_ptr<std::byte[], Free> rows;
  std::vector<int16_t> tables, bound_tables;
  std::vector<UnitBound> bounds;
};

class Bounds : public ::testing::TestWithParam<const KernelTable *> {
 protected:
  const KernelTable &kernels_ = *GetParam();
  std::mt19937 random_{17};

  // (n, rows), with nothing written beside it.
  std::vector<float> bounds_of(const PackedMatrix &packed, Rows rows, const Vectors &vectors) {
    constexpr float kGuard = -1234.5f;
    const uint64_t width = rows.last - rows.first, stride = width + 1;
    std::vector<float> y(vectors.n * stride, kGuard), bounds;
    kernels_.bound({.matrix = &packed,
                    .first_row = rows.first,
                    .last_row = rows.last,
                    .n = vectors.n,
                    .x = nullptr,
                    .x_stride = 0,
                    .quantized_rows = nullptr,
                    .tables = nullptr,
                    .y = y.data(),
                    .y_stride = stride},
                   {vectors.bound_tables.data(), vectors.bounds.data()});
    for (uint32_t i = 0; i < vectors.n; ++i) {
      const auto begin = y.begin() + static_cast<ptrdiff_t>(i * stride);
      bounds.insert(bounds.end(), begin, begin + static_cast<ptrdiff_t>(width));
      EXPECT_EQ(y[i * stride + width], kGuard) << "wrote past the row of vector " << i;
    }
    return bounds;
  }

  // Of all rows: the results, and bounds that are not below them, and never NaN.
  struct Bounded {
    std::vector<float> results, bounds;
  };
  Bounded expect_bounded(Matrix &matrix, std::span<const float> x) {
    const PackedMatrix packed = matrix.pack();
    const Vectors vectors(kernels_, activation_layout(packed), x, matrix.columns());
    const Rows all = {0, matrix.rows()};
    Bounded both = {run_matmul(kernels_, packed, all, x), bounds_of(packed, all, vectors)};
    for (size_t i = 0; i < both.results.size(); ++i) {
      EXPECT_FALSE(std::isnan(both.bounds[i])) << "result " << i;
      if (!std::isnan(both.results[i])) {
        EXPECT_GE(both.bounds[i], both.results[i]) << "result " << i;
      }
    }
    return both;
  }
};

double sigma_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST_P(Bounds, AreAboveTheResultsAndNear) {
  for (const uint64_t rows : {1, 31, 32, 131}) {
    for (const uint32_t n : {1u, 2u, 5u, 8u}) {
      Matrix matrix(packed_for(kernels_, kFormat), rows, 1024);
      fill_random(matrix, random_);
      const Bounded both = expect_bounded(matrix, random_vectors(n * matrix.columns(), random_));
      if (rows < 100) continue;
      std::vector<float> above;
      for (size_t i = 0; i < both.results.size(); ++i) above.push_back(both.bounds[i] - both.results[i]);
      EXPECT_LT(sigma_of(above), 3 * sigma_of(both.results)) << "bounds that say nothing";
    }
  }
}

// Where all signs agree with the activations', and where none does, bytes are at their largest and smallest.
TEST_P(Bounds, HoldForTheLargestSums) {
  for (const float first : {1.0f, -1.0f, 0.001f}) {
    Matrix matrix(packed_for(kernels_, kFormat), 40, 1024);
    for (uint64_t row = 0; row < matrix.rows(); ++row) {
      std::vector<float> weights(matrix.columns());
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = (i * (row + 1) / 7) % 2 == 0 ? 0.5f : -0.5f;
      matrix.traits().encode(weights.data(), matrix.block(row, 0), weights.size());
    }
    std::vector<float> x(3 * matrix.columns());
    for (size_t i = 0; i < x.size(); ++i) {
      const size_t column = i % matrix.columns(), row = i / matrix.columns() * 13;
      x[i] = (column * (row + 1) / 7) % 2 == 0 ? 1.0f : -1.0f;
    }
    x[0] = first;
    expect_bounded(matrix, x);
  }
}

TEST_P(Bounds, HoldForAnyScalesAndActivations) {
  constexpr uint16_t kHalves[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x3C00, 0xBC00,
                                  0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00};
  const float infinity = std::numeric_limits<float>::infinity();
  const float values[] = {0.0f,  -0.0f, 1e-45f, 1e-40f, -1e-30f, 3e-20f, 1.0f,     -1.0f,
                          1e10f, 1e25f, 3e38f,  -3e38f, 1e37f,   0.1f,   infinity, std::nanf("")};
  for (int round = 0; round < 60; ++round) {
    Matrix matrix(packed_for(kernels_, kFormat), 33, 1024);
    fill_random(matrix, random_);
    for (uint64_t row = 0; row < matrix.rows(); ++row) {
      for (uint64_t i = 0; i < matrix.blocks(); ++i) {
        if (random_() % 4 == 0) set_d(kFormat, matrix.block(row, i), kHalves[random_() % std::size(kHalves)]);
      }
    }
    // A few kinds of values to a vector, so that not every vector has all the bad ones.
    std::vector<float> x;
    for (int vector = 0; vector < 6; ++vector) {
      const size_t first = random_() % std::size(values), kinds = 1 + random_() % 3;
      for (uint64_t i = 0; i < matrix.columns(); ++i) {
        x.push_back(i / kActivationGroup % 3 == 0 ? 0.0f : values[(first + random_() % kinds) % std::size(values)]);
      }
    }
    expect_bounded(matrix, x);
  }
}

// 40 tiles of 1,024 columns: strips that are full and one that is not.
TEST_P(Bounds, DoNotDependOnTheRangeOrTheOtherVectors) {
  Matrix matrix(packed_for(kernels_, kFormat), 205, 1024);
  fill_random(matrix, random_);
  const PackedMatrix packed = matrix.pack();
  const ActivationLayout layout = activation_layout(packed);
  const std::vector<float> x = random_vectors(9 * matrix.columns(), random_);
  const std::vector<float> whole = bounds_of(packed, {0, 205}, Vectors(kernels_, layout, x, 1024));
  for (uint32_t i = 0; i < 9; ++i) {
    const Vectors alone(kernels_, layout, std::span(x).subspan(i * 1024, 1024), 1024);
    for (const Rows rows : {Rows{0, 205}, Rows{0, 1}, Rows{17, 90}, Rows{128, 205}, Rows{204, 205}}) {
      const std::span<const float> wanted = std::span(whole).subspan(i * 205 + rows.first, rows.last - rows.first);
      EXPECT_TRUE(same_bytes(bounds_of(packed, rows, alone), wanted)) << "vector " << i << ", from " << rows.first;
    }
  }
}

TEST_P(Bounds, LeaveSingleRowsThatAreThoseOfTheMatrix) {
  Matrix matrix(packed_for(kernels_, kFormat), 300, 1024);
  fill_random(matrix, random_);
  constexpr uint16_t kInfinity = 0x7C00;
  set_d(kFormat, matrix.block(77, 0), kInfinity);  // and NaN where the sum is 0
  const PackedMatrix packed = matrix.pack();
  const ActivationLayout layout = activation_layout(packed);
  std::vector<float> x = random_vectors(2 * matrix.columns(), random_);
  std::fill_n(x.begin() + 1024, 128, 0.0f);
  const std::vector<float> wanted = run_matmul(kernels_, packed, {0, 300}, x);
  const Vectors vectors(kernels_, layout, x, 1024);
  const std::vector<uint64_t> rows = {0, 15, 16, 77, 31, 32, 127, 128, 200, 299, 5};
  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<float> y(rows.size()), of_rows;
    kernels_.multiply_few({.matrix = &packed,
                           .rows = rows.data(),
                           .n = static_cast<uint32_t>(rows.size()),
                           .quantized_row = vectors.rows.get() + i * quantized_row_bytes(layout, 1024),
                           .y = y.data()});
    for (const uint64_t row : rows) of_rows.push_back(wanted[i * 300 + row]);
    EXPECT_TRUE(same_bytes(y, of_rows)) << "vector " << i;
  }
}

std::vector<const KernelTable *> tiers_with_bounds() {
  std::vector<const KernelTable *> tables;
  for (const KernelTable *kernels : testable_kernels()) {
    if (kernels->has_bounds(SumTables::kSigns)) tables.push_back(kernels);
  }
  return tables;
}

std::string tier_name(const ::testing::TestParamInfo<const KernelTable *> &info) { return name_of(info.param->name); }

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Bounds);  // of tiers without tables
INSTANTIATE_TEST_SUITE_P(Tiers, Bounds, ::testing::ValuesIn(tiers_with_bounds()), tier_name);

}  // namespace
}  // namespace bonsai::cpu
