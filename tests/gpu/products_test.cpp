// Products alone. How far those of float weights are from exact where nothing cancels out: tensor cores that cut off
// what they add, rather than round it, would show here as an error of one sign that grows with the columns. And long
// rows by every kernel: tiny models have none.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "tools/plugin-check/context.h"
#include "tools/plugin-check/matrix.h"

namespace bonsai::test {
namespace {

constexpr uint64_t kRows = 16, kColumns = 4096;

class CudaProducts : public testing::Test {
 protected:
  std::vector<float> positive(uint64_t n) {
    std::uniform_real_distribution<float> numbers(0.5f, 1.5f);
    std::vector<float> values(n);
    for (float &value : values) value = numbers(random_);
    return values;
  }

  // (n, rows)
  std::vector<float> multiply(const host::Weight &weight, uint64_t rows, const std::vector<float> &x, uint32_t n) {
    std::vector<float> y(n * rows);
    const bonsai_gemv_args args = {.struct_size = sizeof args,
                                   .n = n,
                                   .weight = weight.handle(),
                                   .first_row = 0,
                                   .rows = rows,
                                   .x = x.data(),
                                   .y = y.data()};
    bonsai_error error = check::empty_error();
    check::expect_ok("gemv", context_.api().gemv(context_.device().handle(), &args, &error), error);
    return y;
  }

  // The products of a random matrix's rows with `many` vectors at once, and with the last few of them, for each of
  // `few`. The last ones: in the place of what is not written lies another vector's product.
  void expect_that_company_changes_no_byte(quant::Format format, uint64_t rows, uint64_t columns, uint32_t many,
                                           std::initializer_list<uint32_t> few) {
    check::Random random(1);
    const check::Matrix matrix = check::make_matrix(format, rows, columns, check::Pattern::kRandom, random);
    const host::Weight weight = upload(format, rows, columns, matrix.blocks());
    const std::vector<float> x = check::make_vectors(many, columns, check::VectorPattern::kRandom, random);
    const std::vector<float> expected = multiply(weight, rows, x, many);
    for (const uint32_t n : few) {
      const std::vector<float> last(x.end() - static_cast<ptrdiff_t>(n * columns), x.end());
      const std::vector<float> y = multiply(weight, rows, last, n);
      EXPECT_EQ(std::memcmp(y.data(), expected.data() + (expected.size() - y.size()), y.size() * sizeof(float)), 0)
          << quant::traits(format).name << ", " << n << " vectors";
    }
  }

  host::Weight upload(quant::Format format, uint64_t rows, uint64_t columns, std::span<const std::byte> blocks) {
    const host::Weight::Part part = {.dtype = static_cast<bonsai_dtype>(format), .rows = rows, .data = blocks};
    return check::value_of(host::Weight::upload(context_.device(), "w", columns, {&part, 1}, BONSAI_USE_MATRIX, false));
  }

  check::Context context_{{.path = BONSAI_CUDA_PLUGIN, .device = 0, .options = {}}};
  std::mt19937 random_{1};
};

struct Errors {
  double least = std::numeric_limits<double>::max(), most = std::numeric_limits<double>::lowest(), sum = 0;
  void add(double error) {
    least = std::min(least, error);
    most = std::max(most, error);
    sum += error;
  }
};

TEST_F(CudaProducts, SumsOfPositiveNumbersAreGoodToOneInAHundredThousand) {
  for (const quant::Format format : {quant::Format::kF32, quant::Format::kF16}) {
    const quant::FormatTraits &traits = quant::traits(format);
    std::vector<float> weights = positive(kRows * kColumns);
    std::vector<std::byte> blocks(quant::row_bytes(traits, weights.size()));
    traits.encode(weights.data(), blocks.data(), weights.size());
    traits.decode(blocks.data(), weights.data(), weights.size());
    const host::Weight weight = upload(format, kRows, kColumns, blocks);
    for (const uint32_t n : {1u, 8u, 33u}) {  // alone, by the kernels for few tokens, by those for many
      const std::vector<float> x = positive(n * kColumns), y = multiply(weight, kRows, x, n);
      Errors errors;
      for (uint64_t i = 0; i < y.size(); ++i) {
        const float *row = weights.data() + i % kRows * kColumns, *vector = x.data() + i / kRows * kColumns;
        double exact = 0;
        for (uint64_t k = 0; k < kColumns; ++k) exact += static_cast<double>(row[k]) * static_cast<double>(vector[k]);
        errors.add((static_cast<double>(y[i]) - exact) / exact);
      }
      fmt::print("{}, {} vectors: (y - exact) / exact from {:.2e} to {:.2e}, mean {:.2e}\n", traits.name, n,
                 errors.least, errors.most, errors.sum / static_cast<double>(y.size()));
      EXPECT_LE(std::max(-errors.least, errors.most), 1e-5) << traits.name << ", " << n;
    }
  }
}

// Of rows with more segments than any kernel has warps, or sums of at a time where it multiplies 16 or 32 vectors.
TEST_F(CudaProducts, CompanyChangesNoByteOfLongRows) {
  for (const quant::Format format :
       {quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128, quant::Format::kQ2_0_G64, quant::Format::kQ4_0,
        quant::Format::kQ6_K, quant::Format::kIQ4_NL, quant::Format::kIQ4_XS, quant::Format::kF16}) {
    expect_that_company_changes_no_byte(format, 165, 25 * 512, 72, {1, 2, 3, 4, 8, 12, 16, 20, 32, 64});
  }
}

// Of so many vectors and rows that matmul_prefill multiplies them, by whole rows: the last few by the kernels for few.
TEST_F(CudaProducts, APromptsCompanyChangesNoByte) {
  for (const quant::Format format :
       {quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128, quant::Format::kQ2_0_G64, quant::Format::kQ4_0,
        quant::Format::kQ5_0, quant::Format::kQ8_0, quant::Format::kQ4_K, quant::Format::kF16}) {
    expect_that_company_changes_no_byte(format, 2048, 3 * 512, 2048, {1, 2, 8, 16, 64, 100});
  }
}

}  // namespace
}  // namespace bonsai::test
