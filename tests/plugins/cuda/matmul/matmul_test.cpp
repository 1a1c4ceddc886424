// Products of every weight format, by every kernel.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

// Enough for three tiles, the last of five rows, and two segments, the second not whole.
constexpr uint64_t kRows = 37;
constexpr uint64_t kColumns = 768;

bool same_bytes(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class EveryFormat : public testing::TestWithParam<Format> {
 protected:
  const MatrixLayout &layout() const { return matrix_layout(GetParam()); }
  static MatmulPlan plan(Format format, uint64_t rows, uint64_t columns, uint64_t n) {
    return plan_matmul({format, 0, rows, columns, n}, kTestDevice);
  }
};
INSTANTIATE_TEST_SUITE_P(, EveryFormat, testing::ValuesIn(all_formats()),
                         [](const auto &info) { return name_of(info.param); });

// The kernels' arithmetic is exact but for float sums of a few dozen numbers.
TEST_P(EveryFormat, ProductsAreThoseOfTheDecodedWeightsAndTheDecodedActivations) {
  for (const uint64_t n : {1, 20, 36}) {
    RandomMatrix matrix(GetParam(), kRows, kColumns);
    const std::vector<float> x = random_vectors(n, kColumns);
    const Activations activations = pack_activations(ActivationForms::of(GetParam(), false), x, kColumns);
    const std::vector<double> decoded = unpacked(activations.packed, layout().packing, n, kColumns);
    const std::vector<float> y = multiply(plan(GetParam(), kRows, kColumns, n), matrix, x);
    for (uint64_t row = 0; row < kRows; ++row) {
      const std::vector<float> weights = matrix.decoded(row);
      for (uint64_t token = 0; token < n; ++token) {
        double sum = 0, magnitude = 0;
        for (uint64_t i = 0; i < kColumns; ++i) {
          const double product = static_cast<double>(weights[i]) * decoded[token * kColumns + i];
          sum += product;
          magnitude += std::fabs(product);
        }
        ASSERT_NEAR(static_cast<double>(y[token * kRows + row]), sum, 2e-6 * magnitude)
            << "row " << row << " token " << token;
      }
    }
  }
}

// The promise: 1e-4 where activations are floats, 2e-2 where they are 8 bits; relative L2 over all rows.
TEST_P(EveryFormat, ProductsAreWithinTheBoundOfUnpackedActivations) {
  constexpr uint64_t kTokens = 3, kManyRows = 64;
  RandomMatrix matrix(GetParam(), kManyRows, kColumns);
  const std::vector<float> x = random_vectors(kTokens, kColumns);
  const std::vector<float> y = multiply(plan(GetParam(), kManyRows, kColumns, kTokens), matrix, x);
  for (uint64_t token = 0; token < kTokens; ++token) {
    double error = 0, norm = 0;
    for (uint64_t row = 0; row < kManyRows; ++row) {
      const std::vector<float> weights = matrix.decoded(row);
      double sum = 0;
      for (uint64_t i = 0; i < kColumns; ++i) {
        sum += static_cast<double>(weights[i]) * static_cast<double>(x[token * kColumns + i]);
      }
      error += std::pow(static_cast<double>(y[token * kManyRows + row]) - sum, 2);
      norm += sum * sum;
    }
    EXPECT_LE(std::sqrt(error / norm), layout().is_float() ? 2e-6 : 2e-2);
  }
}

// A token's bytes do not depend on the kernel, the grid, the number of tokens or the order in which threads run.
TEST_P(EveryFormat, EveryPlanAndOrderGivesTheSameBytes) {
  for (const uint64_t n : {1, 4, 9, 70}) {
    RandomMatrix matrix(GetParam(), kRows, kColumns);
    const std::vector<float> x = random_vectors(n, kColumns);
    std::vector<float> expected;
    for (uint64_t token = 0; token < n; ++token) {
      const std::vector<float> one(x.begin() + token * kColumns, x.begin() + (token + 1) * kColumns);
      const std::vector<float> y = multiply(plan(GetParam(), kRows, kColumns, 1), matrix, one);
      expected.insert(expected.end(), y.begin(), y.end());
    }
    size_t index = 0;
    for (const MatmulPlan &plan : all_plans(GetParam(), kRows, kColumns, n)) {
      const emulation::Order order = emulation::kOrders[index++ % emulation::kOrders.size()];
      EXPECT_TRUE(same_bytes(multiply(plan, matrix, x, order), expected))
          << plan.unit << " " << plan.kernel << ", " << plan.tiles_per_block << " tiles a block, n = " << n;
    }
  }
}

TEST_P(EveryFormat, OrderOfThreadsChangesNothing) {
  constexpr uint64_t kTokens = 33;
  RandomMatrix matrix(GetParam(), kRows, kColumns);
  const std::vector<float> x = random_vectors(kTokens, kColumns);
  const MatmulPlan prefill = plan_by(MatmulKernel::kPrefill, {GetParam(), 0, kRows, kColumns, kTokens}, kTestDevice);
  const std::vector<float> expected = multiply(prefill, matrix, x);
  for (const MatmulPlan &which : {prefill, plan(GetParam(), kRows, kColumns, kTokens)}) {
    for (const emulation::Order &order : emulation::kOrders) {
      EXPECT_TRUE(same_bytes(multiply(which, matrix, x, order), expected)) << which.kernel;
    }
  }
}

// Some rows in the middle of tiles, to a place among others' results, with a bias, on top of what is there.
TEST_P(EveryFormat, WritesWhatIsAskedForAndNothingElse) {
  constexpr uint64_t kFirst = 5, kSome = 21, kStride = kSome + 3;
  constexpr float kUntouched = 12345;
  for (const uint64_t n : {2, 18, 34}) {
    RandomMatrix matrix(GetParam(), kRows, kColumns);
    const void *packed = matrix.pack();
    const std::vector<float> x = random_vectors(n, kColumns), bias = random_vectors(1, kSome, 9);
    const std::vector<float> whole = multiply(plan(GetParam(), kRows, kColumns, n), matrix, x);
    const MatmulPlan plan = plan_matmul({GetParam(), kFirst, kSome, kColumns, n}, kTestDevice);
    const Activations activations = pack_activations(ActivationForms::of(GetParam(), takes_bits(plan)), x, kColumns);
    packed = matrix.pack();
    for (const bool add : {false, true}) {
      for (const bool has_bias : {false, true}) {
        std::vector<float> y(n * kStride, kUntouched);
        run_matmul(plan, matrix, packed, activations, n,
                   {.first_row = kFirst,
                    .rows = kSome,
                    .bias = has_bias ? bias.data() : nullptr,
                    .add = add,
                    .y_stride = kStride},
                   y.data());
        for (uint64_t token = 0; token < n; ++token) {
          for (uint64_t i = 0; i < kStride; ++i) {
            float expected = kUntouched;
            if (i < kSome) {
              float value = whole[token * kRows + kFirst + i];
              if (has_bias) value += bias[i];
              expected = add ? kUntouched + value : value;
            }
            ASSERT_EQ(y[token * kStride + i], expected) << "row " << i << " token " << token;
          }
        }
      }
    }
  }
}

// Rows of more segments than a block keeps sums of at a time.
TEST(Matmul, LongRowsAreSummedInRounds) {
  constexpr uint64_t kLong = 512 * 67 + 256;
  for (const Format format : {Format::kQ1_0_G128, Format::kQ8_0, Format::kQ4_K, Format::kF16}) {
    RandomMatrix matrix(format, 3, kLong);
    for (const uint64_t n : {1, 5}) {
      const std::vector<float> x = random_vectors(n, kLong);
      std::vector<std::vector<float>> results;
      for (const MatmulPlan &plan : all_plans(format, 3, kLong, n)) {
        results.push_back(multiply(plan, matrix, x));
        EXPECT_TRUE(same_bytes(results.back(), results.front())) << plan.unit << " " << plan.kernel;
      }
      const std::vector<float> weights = matrix.decoded(2);
      double sum = 0, magnitude = 0;
      for (uint64_t i = 0; i < kLong; ++i) {
        const double product = static_cast<double>(weights[i]) * static_cast<double>(x[i]);
        sum += product;
        magnitude += product * product;
      }
      EXPECT_NEAR(static_cast<double>(results.front()[2]), sum, 0.02 * std::sqrt(magnitude)) << name_of(format);
    }
  }
}

// Blocks of more tiles than are counted at a time, in more segments than there are warps.
TEST(Matmul, BlocksOfManyTilesGiveTheSameBytes) {
  constexpr uint64_t kManyRows = 120, kLong = 512 * 9;
  constexpr uint32_t kTiles = 8;
  for (const Format format : {Format::kQ1_0_G128, Format::kTQ2_0_G128, Format::kQ4_0, Format::kQ8_0, Format::kQ4_K,
                              Format::kQ6_K, Format::kF16}) {
    for (const uint64_t n : {1, 2, 4, 12, 20}) {
      RandomMatrix matrix(format, kManyRows, kLong);
      const std::vector<float> x = random_vectors(n, kLong);
      const std::vector<float> expected =
          multiply(plan_by(MatmulKernel::kPrefill, {format, 0, kManyRows, kLong, n}, kTestDevice), matrix, x);
      for (const uint32_t warps : {1u, 3u, 6u}) {
        MatmulPlan plan = plan_matmul({format, 0, kManyRows, kLong, n}, kTestDevice);
        plan.tiles_per_block = kTiles;
        plan.grid_x = 1;
        plan.threads = 32 * warps;
        const auto tokens = static_cast<uint32_t>(tokens_of_block(plan));
        plan.shared_bytes = plan.kernel.starts_with("matmul_held")
                                ? held_bytes(matrix_layout(format), tokens, warps) + kTiles * held_tile_bytes(tokens)
                                : (1 + 9) * kTiles * tokens * kTileRows * static_cast<uint32_t>(sizeof(float));
        EXPECT_TRUE(same_bytes(multiply(plan, matrix, x, emulation::kOrders[warps % 4]), expected))
            << plan.unit << " " << plan.kernel << " " << warps;
      }
    }
  }
}

// The largest sums that single bits can make: all codes 3 (+2) or 0 (-1), all activations at one end of their range.
TEST(Matmul, ExtremesOfBitsAreExact) {
  constexpr uint64_t kTwo = 512;
  for (const Format format : {Format::kQ1_0_G128, Format::kTQ2_0_G128}) {
    for (const float sign : {-1.0f, 1.0f}) {
      RandomMatrix matrix(format, 16, kTwo);
      for (uint64_t row = 0; row < 16; ++row) {
        for (uint64_t block = 0; block < kTwo / 128; ++block) {
          std::byte *at = matrix.block(row, block);
          const uint16_t one = quant::float_to_half(1.0f);
          std::memcpy(at, &one, sizeof one);
          std::fill(at + 2, at + quant::traits(format).block_bytes, row % 2 ? std::byte{0xFF} : std::byte{0});
        }
      }
      const std::vector<float> x(kTwo, sign);
      for (const MatmulPlan &plan : all_plans(format, 16, kTwo, 1)) {
        const std::vector<float> y = multiply(plan, matrix, x);
        const float high = format == Format::kQ1_0_G128 ? 1.0f : 2.0f;
        for (uint64_t row = 0; row < 16; ++row) {
          EXPECT_FLOAT_EQ(y[row], sign * static_cast<float>(kTwo) * (row % 2 ? high : -1.0f)) << plan.kernel;
        }
      }
    }
  }
}

// What is not finite stays so, in its own row or token.
TEST_P(EveryFormat, NotFiniteActivationsSpoilTheirTokenAlone) {
  constexpr uint64_t kTokens = 3;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    RandomMatrix matrix(GetParam(), kRows, kColumns);
    std::vector<float> x = random_vectors(kTokens, kColumns);
    const std::vector<float> expected = multiply(plan(GetParam(), kRows, kColumns, kTokens), matrix, x);
    x[kColumns + 100] = bad;
    const std::vector<float> y = multiply(plan(GetParam(), kRows, kColumns, kTokens), matrix, x);
    for (uint64_t i = 0; i < kTokens * kRows; ++i) {
      if (i / kRows == 1) {
        EXPECT_TRUE(std::isnan(y[i]));
      } else {
        EXPECT_EQ(y[i], expected[i]);
      }
    }
  }
}

// Floats far from 1, and rows of zeros: the powers of two of rows and tokens hold.
TEST(Matmul, FloatsKeepTheirAccuracyAtAnyMagnitude) {
  for (const Format format : {Format::kF32, Format::kBF16}) {
    RandomMatrix matrix(format, 17, kColumns);
    const quant::FormatTraits &traits = quant::traits(format);
    for (uint64_t row = 0; row < 17; ++row) {
      std::vector<float> weights = matrix.decoded(row);
      for (float &weight : weights) weight = row == 3 ? 0.0f : std::ldexp(weight, static_cast<int>(row * 7) - 56);
      traits.encode(weights.data(), matrix.block(row, 0), kColumns);
    }
    std::vector<float> x = random_vectors(2, kColumns);
    for (uint64_t i = 0; i < kColumns; ++i) x[i] = std::ldexp(x[i], -60);
    const std::vector<float> y = multiply(plan_matmul({format, 0, 17, kColumns, 2}, kTestDevice), matrix, x);
    for (uint64_t row = 0; row < 17; ++row) {
      const std::vector<float> weights = matrix.decoded(row);
      for (uint64_t token = 0; token < 2; ++token) {
        double sum = 0, magnitude = 0;
        for (uint64_t i = 0; i < kColumns; ++i) {
          sum += static_cast<double>(weights[i]) * static_cast<double>(x[token * kColumns + i]);
          magnitude += std::fabs(static_cast<double>(weights[i]) * static_cast<double>(x[token * kColumns + i]));
        }
        EXPECT_NEAR(static_cast<double>(y[token * 17 + row]), sum, 2e-6 * magnitude) << "row " << row;
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
