// Products of which a sink wants only the largest results: what is bounded first, and what is computed all the same.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "plugins/cpu/matmul.h"
#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

using quant::Format;

constexpr uint64_t kBoundedColumns = 256;

// Wants results above a number, of two vectors in three, and all of the third.
class Selector final : public ProductSink {
 public:
  Selector(uint32_t n, uint64_t outputs, float least)
      : y(n * outputs, kUnwanted), taken(n), bounded(n), outputs_(outputs), least_(least) {}

  bool selects(uint32_t vector) const override { return vector % 3 != 2; }

  void take_bounds(int, uint32_t vector, const ProductPiece &piece, std::span<float> bounds) override {
    EXPECT_TRUE(selects(vector));
    EXPECT_EQ(bounds.size(), piece.outputs);
    bounded[vector] += bounds.size();
  }

  std::optional<float> least(int, uint32_t vector, uint64_t) const override {
    EXPECT_TRUE(selects(vector));
    return least_;
  }

  void take(int, const ProductPiece &piece, const Results &results) override {
    for (uint32_t i = 0; i < results.n; ++i) {
      for (uint64_t j = 0; j < piece.outputs; ++j) {
        float &to = y[(results.first + i) * outputs_ + piece.first_output + j];
        EXPECT_EQ(to, kUnwanted) << "twice";
        to = results.y[i * results.stride + j];
        taken[results.first + i] += to != kUnwanted;
      }
    }
  }

  static constexpr float kUnwanted = -std::numeric_limits<float>::infinity();
  std::vector<float> y;
  std::vector<std::atomic<uint64_t>> taken, bounded;  // rows of each vector

 private:
  uint64_t outputs_;
  float least_;
};

// Enough rows to be bounded, in formats that are and formats that are not.
TEST(Multiply, GivesWhatASinkSelectsByBounds) {
  constexpr uint64_t kSigns = 9000, kTernary = 8300, kBytes = 600, kOutputs = kSigns + kTernary + kBytes;
  constexpr float kLeast = 60;
  std::mt19937 random(12);
  for (const KernelTable *kernels : testable_kernels()) {
    Matrix signs(packed_for(*kernels, Format::kQ1_0_G128), kSigns + 9, kBoundedColumns),
        bytes(Format::kQ8_0, kBytes, kBoundedColumns),
        ternary(packed_for(*kernels, Format::kTQ2_0_G128), kTernary, kBoundedColumns);
    std::vector<PackedMatrix> packed;
    for (Matrix *matrix : {&signs, &bytes, &ternary}) {
      fill_random(*matrix, random);
      packed.push_back(matrix->pack());
    }
    const std::vector<MatrixRows> rows = {
        {&packed[0], 5, kSigns + 5, 0}, {&packed[1], 0, kBytes, kSigns}, {&packed[2], 0, kTernary, kSigns + kBytes}};
    for (const uint32_t n : {5u, 12u, 40u}) {
      const std::vector<float> x = random_vectors(n * kBoundedColumns, random);
      std::vector<float> expected(n * kOutputs);
      for (const int count : {1, 3, 9}) {
        Threads threads(count);
        const ActivationRoom room = activation_room(n, kBoundedColumns, count);
        const auto scratch = aligned_bytes(room.bytes);
        Product product = {.rows = rows,
                           .columns = kBoundedColumns,
                           .n = n,
                           .x = x.data(),
                           .x_stride = kBoundedColumns,
                           .y = expected.data(),
                           .y_stride = kOutputs,
                           .activations = {scratch.get(), room.of_worker}};
        if (count == 1) multiply(threads, *kernels, product);
        Selector selector(n, kOutputs, kLeast);
        std::vector<float> y(static_cast<uint64_t>(count) * piece_elements(n));
        product.y = y.data();
        product.sink = &selector;
        multiply(threads, *kernels, product);
        SCOPED_TRACE(testing::Message() << kernels->name << ", " << n << " vectors, " << count << " threads");
        for (uint32_t i = 0; i < n; ++i) {
          uint64_t wrong = 0, above = 0;
          for (uint64_t j = 0; j < kOutputs; ++j) {
            const float got = selector.y[i * kOutputs + j], wanted = expected[i * kOutputs + j];
            const bool may_lack = selector.selects(i) && wanted <= kLeast && got == Selector::kUnwanted;
            wrong += got != wanted && !may_lack;
            above += wanted > kLeast;
          }
          EXPECT_EQ(wrong, 0u) << "of vector " << i;
          EXPECT_GT(above, 0u);
          if (kernels->has_bounds(SumTables::kSigns) && selector.selects(i)) {
            EXPECT_GT(selector.bounded[i], kSigns / 4) << "vector " << i;
            EXPECT_LT(selector.taken[i], kOutputs - selector.bounded[i] / 2) << "vector " << i;
          } else {
            EXPECT_EQ(selector.bounded[i], 0u) << "vector " << i;
          }
        }
      }
    }
  }
}

// However often a worker takes a part of its pieces.
TEST(Multiply, BoundsAllButAWorkersFirstPiece) {
  constexpr uint64_t kRows = 18 * kPieceRows;
  constexpr uint32_t kN = 12;
  std::mt19937 random(18);
  for (const KernelTable *kernels : testable_kernels()) {
    if (!kernels->has_bounds(SumTables::kSigns)) continue;
    SCOPED_TRACE(kernels->name);
    Matrix signs(packed_for(*kernels, Format::kQ1_0_G128), kRows, kBoundedColumns);
    fill_random(signs, random);
    const PackedMatrix packed = signs.pack();
    const std::vector<MatrixRows> rows = {{&packed, 0, kRows, 0}};
    const std::vector<float> x = random_vectors(kN * kBoundedColumns, random);
    Threads threads(2);
    const ActivationRoom room = activation_room(kN, kBoundedColumns, 2);
    const auto scratch = aligned_bytes(room.bytes);
    Selector selector(kN, kRows, std::numeric_limits<float>::max());  // nothing is wanted
    std::vector<float> y(2 * piece_elements(kN));
    multiply(threads, *kernels,
             {.rows = rows,
              .columns = kBoundedColumns,
              .n = kN,
              .x = x.data(),
              .x_stride = kBoundedColumns,
              .y = y.data(),
              .y_stride = 0,
              .activations = {scratch.get(), room.of_worker},
              .sink = &selector});
    for (uint32_t i = 0; i < kN; ++i) {
      if (selector.selects(i)) {
        EXPECT_GE(selector.bounded[i], kRows - 2 * kPieceRows) << "vector " << i;
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu
