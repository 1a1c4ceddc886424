// Products over stacked matrices of mixed formats: handed out in pieces, they are what they are in one go.
#include "plugins/cpu/matmul.h"

#include <gtest/gtest.h>

#include <mutex>

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {
namespace {

using quant::Format;

constexpr uint64_t kColumns = 256;

// Collects what it is given, and counts how often it was given each output.
class Collector final : public ProductSink {
 public:
  Collector(uint32_t n, uint64_t outputs, uint64_t pieces)
      : y(n * outputs), times(n * outputs), index_of(outputs), outputs_(outputs), pieces_(pieces) {}

  void take(int, const ProductPiece &piece, const Results &results) override {
    const std::lock_guard lock(mutex_);
    EXPECT_LT(piece.index, pieces_);
    EXPECT_LE(piece.outputs, kPieceRows);
    for (uint32_t i = 0; i < results.n; ++i) {
      for (uint64_t j = 0; j < piece.outputs; ++j) {
        const uint64_t at = (results.first + i) * outputs_ + piece.first_output + j;
        y[at] = results.y[i * results.stride + j];
        ++times[at];
        index_of[piece.first_output + j] = piece.index;
      }
    }
  }

  std::vector<float> y;
  std::vector<int> times;
  std::vector<uint64_t> index_of;

 private:
  uint64_t outputs_, pieces_;
  std::mutex mutex_;
};

TEST(Multiply, GivesTheSameInPiecesWithAnyThreads) {
  std::mt19937 random(11);
  const KernelTable &kernels = *runnable_kernels().front();
  Matrix signs(Format::kQ1_0_G128, 1500, kColumns), bytes(Format::kQ8_0, 700, kColumns),
      floats(Format::kF16, 90, kColumns), more_signs(Format::kQ1_0_G128, 40, kColumns),
      ternary({Format::kTQ2_0_G128, kernels.packing_of(Format::kTQ2_0_G128)}, 300, kColumns),
      with_code3(Format::kTQ2_0_G128, 60, kColumns);
  std::vector<PackedMatrix> packed;
  for (Matrix *matrix : {&signs, &bytes, &floats, &more_signs, &ternary, &with_code3}) {
    fill_random(*matrix, random);
    packed.push_back(matrix->pack());
  }
  // Rows that begin and end within tiles, too.
  const std::vector<MatrixRows> rows = {{&packed[0], 5, 1490, 0},   {&packed[1], 0, 700, 1485},
                                        {&packed[2], 17, 90, 2185}, {&packed[3], 0, 40, 2258},
                                        {&packed[4], 3, 300, 2298}, {&packed[5], 0, 60, 2595}};
  constexpr uint64_t kOutputs = 2655;
  for (const uint32_t n : {1u, 3u, 40u}) {
    const std::vector<float> x = random_vectors(n * kColumns, random);
    std::vector<float> expected(n * kOutputs);
    std::vector<uint64_t> indices;
    for (const int count : {1, 2, 3, 9}) {  // of nine, none makes tables of its own
      Threads threads(count);
      const auto scratch = aligned_bytes(activation_bytes(n, kColumns, count));
      Product product = {.rows = rows,
                         .columns = kColumns,
                         .n = n,
                         .x = x.data(),
                         .y = expected.data(),
                         .y_stride = kOutputs,
                         .activations = scratch.get()};
      multiply(threads, kernels, product);
      Collector collector(n, kOutputs, count_pieces(rows));
      std::vector<float> y(static_cast<uint64_t>(count) * piece_elements(n));
      product.y = y.data();
      product.sink = &collector;
      product.next = rows;
      multiply(threads, kernels, product);
      EXPECT_TRUE(same_bytes(collector.y, expected)) << n << " vectors, " << count << " threads";
      EXPECT_TRUE(std::ranges::all_of(collector.times, [](int times) { return times == 1; }));
      EXPECT_TRUE(std::ranges::is_sorted(collector.index_of));
      EXPECT_EQ(collector.index_of.back() + 1, count_pieces(rows));
      if (count == 1) indices = collector.index_of;
      EXPECT_EQ(collector.index_of, indices) << "pieces depend on the number of threads";
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu
