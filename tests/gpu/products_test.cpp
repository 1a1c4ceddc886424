// How far products of float weights are from exact where nothing cancels out: tensor cores that cut off what they add,
// rather than round it, would show here as an error of one sign that grows with the columns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

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

  // (n, kRows)
  std::vector<float> multiply(const host::Weight &weight, const std::vector<float> &x, uint32_t n) {
    std::vector<float> y(n * kRows);
    const bonsai_gemv_args args = {.struct_size = sizeof args,
                                   .n = n,
                                   .weight = weight.handle(),
                                   .first_row = 0,
                                   .rows = kRows,
                                   .x = x.data(),
                                   .y = y.data()};
    bonsai_error error = check::empty_error();
    check::expect_ok("gemv", context_.api().gemv(context_.device().handle(), &args, &error), error);
    return y;
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
    const host::Weight::Part part = {.dtype = static_cast<bonsai_dtype>(format), .rows = kRows, .data = blocks};
    const host::Weight weight =
        check::value_of(host::Weight::upload(context_.device(), "w", kColumns, {&part, 1}, BONSAI_USE_MATRIX, false));
    for (const uint32_t n : {1u, 8u, 33u}) {  // alone, by the kernels for few tokens, by those for many
      const std::vector<float> x = positive(n * kColumns), y = multiply(weight, x, n);
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

}  // namespace
}  // namespace bonsai::test
