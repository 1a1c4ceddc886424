// Plans: which kernel, and that a grid covers all rows and tokens within what a block may have.
#include <sstream>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr MatmulDevice kHopper = {.multiprocessors = 132, .has_bit_mma = true};
constexpr MatmulDevice kBlackwell = {.multiprocessors = 148, .has_bit_mma = false};

std::string kernel_for(Format format, uint64_t n, const MatmulDevice &device) {
  const MatmulPlan plan = plan_matmul({format, 0, 4096, 4096, n}, device);
  return plan.unit + " " + plan.kernel;
}

TEST(MatmulPlan, FewTokensTakeBitsWhereTheDeviceCountsThem) {
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 1, kHopper), "matmul_bits.Q1_0_G128 matmul_bits_1");
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 2, kHopper), "matmul_bits.Q1_0_G128 matmul_bits_2");
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 3, kHopper), "matmul_bits.Q1_0_G128 matmul_bits_4");
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 5, kHopper), "matmul_held.Q1_0_G128 matmul_held_8");
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 1, kBlackwell), "matmul_held.Q1_0_G128 matmul_held_8");
  EXPECT_EQ(kernel_for(Format::kTQ1_0, 1, kHopper), "matmul_bits.TQ2_0_G128 matmul_bits_1");
  EXPECT_EQ(kernel_for(Format::kQ2_0_G64, 1, kHopper), "matmul_held.Q2_0_G64 matmul_held_8");
}

TEST(MatmulPlan, OneTokenHasAKernelOfItsOwnWhereWeightsAreIntegers) {
  EXPECT_EQ(kernel_for(Format::kQ4_K, 1, kHopper), "matmul_one.Q4_K matmul_one");
  EXPECT_EQ(kernel_for(Format::kQ4_K, 2, kHopper), "matmul.Q4_K matmul_decode");
  EXPECT_EQ(kernel_for(Format::kF8_E4M3, 1, kHopper), "matmul.F8_E4M3 matmul_decode");
}

TEST(MatmulPlan, ManyTokensSharePieces) {
  EXPECT_EQ(kernel_for(Format::kQ4_K, 8, kHopper), "matmul.Q4_K matmul_decode");
  EXPECT_EQ(kernel_for(Format::kQ4_K, 33, kHopper), "matmul.Q4_K matmul_prefill");
  EXPECT_EQ(kernel_for(Format::kQ1_0_G128, 512, kHopper), "matmul.Q1_0_G128 matmul_prefill");
  EXPECT_EQ(kernel_for(Format::kBF16, 16, kHopper), "matmul.F16 matmul_decode_16");
  EXPECT_EQ(kernel_for(Format::kBF16, 32, kHopper), "matmul.F16 matmul_decode_32");
  EXPECT_EQ(kernel_for(Format::kBF16, 512, kHopper), "matmul.F16 matmul_prefill");
}

TEST(MatmulPlan, SomeTokensTakeWhatWasMeasuredToBeFastest) {
  const auto kernel = [](Format format, uint64_t rows, uint64_t columns, uint64_t n) {
    return plan_matmul({format, 0, rows, columns, n}, kHopper).kernel;
  };
  // 8B: qkv, gate and up, down, head
  for (const uint64_t n : {9, 16, 32, 64, 128}) {
    EXPECT_EQ(kernel(Format::kQ1_0_G128, 6144, 4096, n), "matmul_held_16") << n;
    EXPECT_EQ(kernel(Format::kTQ2_0_G128, 4096, 12288, n), "matmul_held_16") << n;
    EXPECT_EQ(kernel(Format::kQ1_0_G128, 24576, 4096, n), n <= 32 ? "matmul_held_16" : "matmul_prefill") << n;
    EXPECT_EQ(kernel(Format::kQ1_0_G128, 151936, 4096, n), n <= 16 ? "matmul_held_16" : "matmul_prefill") << n;
    EXPECT_EQ(kernel(Format::kQ4_0, 6144, 4096, n), n <= 32 ? "matmul_held_8" : "matmul_held_16") << n;
    EXPECT_EQ(kernel(Format::kQ4_0, 24576, 4096, n), n <= 32   ? "matmul_held_8"
                                                     : n <= 64 ? "matmul_held_16"
                                                               : "matmul_prefill")
        << n;
    EXPECT_EQ(kernel(Format::kQ8_0, 24576, 4096, n), n <= 32 ? "matmul_held_16" : "matmul_prefill") << n;
  }
}

// What Q4_0 took before it had matmul_held.
TEST(MatmulPlan, SomeTokensOfFormatsWithMinimaTakeWhatOthersTook) {
  const auto kernel = [](uint64_t rows, uint64_t columns, uint64_t n) {
    return plan_matmul({Format::kQ4_K, 0, rows, columns, n}, kHopper).kernel;
  };
  for (const uint64_t n : {9, 16, 32}) {
    EXPECT_EQ(kernel(6144, 4096, n), "matmul_decode") << n;
    EXPECT_EQ(kernel(4096, 12288, n), n <= 16 ? "matmul_decode" : "matmul_decode_32") << n;
    EXPECT_EQ(kernel(24576, 4096, n), n <= 16 ? "matmul_decode" : "matmul_prefill") << n;
  }
}

TEST(MatmulPlan, OneTokenTakesWhatIsHeldWhereRowsAreLongAndFew) {
  const auto kernel = [](uint64_t rows, uint64_t columns) {
    return plan_matmul({Format::kQ4_0, 0, rows, columns, 1}, kHopper).kernel;
  };
  EXPECT_EQ(kernel(6144, 4096), "matmul_held_8");
  EXPECT_EQ(kernel(4096, 12288), "matmul_held_8");
  EXPECT_EQ(kernel(24576, 4096), "matmul_one");
  EXPECT_EQ(kernel(2048, 2048), "matmul_one");
}

// What a block of matmul_held needs is there, and its warps share a row's segments evenly.
TEST(MatmulPlan, HeldTokensHaveTheirSharedMemory) {
  for (const Format format : {Format::kQ1_0_G128, Format::kQ4_0}) {
    for (const uint32_t tokens : {8, 16}) {
      const MatmulKernel kernel = tokens == 8 ? MatmulKernel::kHeld8 : MatmulKernel::kHeld16;
      for (const uint64_t segments : {1, 8, 9, 24, 67}) {
        for (const uint64_t n : {1, 64, 5000}) {
          const MatmulPlan plan = plan_by(kernel, {format, 0, 151936, segments * 512, n}, kHopper);
          const uint32_t warps = plan.threads / 32, rounds = ceil_divide(segments, warps);
          const uint32_t totals = rounds > 1 ? plan.tiles_per_block * held_tile_bytes(tokens) : 0;
          EXPECT_EQ(plan.shared_bytes, held_bytes(matrix_layout(format), tokens, warps) + totals);
          EXPECT_LE(plan.shared_bytes, 48u * 1024);
          EXPECT_EQ(rounds, ceil_divide(segments, 8)) << segments;
          EXPECT_EQ(warps, ceil_divide(segments, rounds)) << segments;
          EXPECT_GE(uint64_t{plan.grid_x} * plan.tiles_per_block * 16, 151936u);
          EXPECT_EQ(plan.grid_y, ceil_divide(n, tokens));
        }
      }
    }
  }
}

// 8B: gate and up of 12,288 rows each.
TEST(MatmulPlan, GateAndUpOfOneTokenMayGoOnToSwiglu) {
  const auto plan = plan_gated({Format::kQ1_0_G128, 0, 24576, 4096, 1}, kHopper);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->unit + " " + plan->kernel, "matmul_bits.Q1_0_G128 matmul_bits_1_gated");
  EXPECT_EQ(plan->grid_x, 96u);           // 128 results each
  EXPECT_EQ(plan->threads, 2u * 8 * 32);  // two warps for each segment
  EXPECT_EQ(plan->shared_bytes, 8u * 256 * sizeof(float));
  for (uint32_t segments = 1; segments <= 8; ++segments) {
    const auto of_rows = plan_gated({Format::kQ1_0_G128, 0, 1024, segments * 512, 1}, kHopper);
    ASSERT_TRUE(of_rows) << segments;
    const uint32_t warps = of_rows->threads / 32, tiles = kGatedTiles * segments / warps;  // of a warp
    EXPECT_EQ(warps, segments <= 4 ? 4 * segments : 2 * segments);
    EXPECT_EQ(tiles * warps, kGatedTiles * segments);
    EXPECT_TRUE(tiles % kBitStepTiles == 0 && tiles <= kGatedSteps * kBitStepTiles) << segments;
  }
  EXPECT_FALSE(plan_gated({Format::kTQ2_0_G128, 0, 24576, 4096, 1}, kHopper));    // no registers for two bits
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 0, 24576, 4096, 2}, kHopper));     // tokens
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 0, 24576, 4096, 1}, kBlackwell));  // no single bits
  EXPECT_FALSE(plan_gated({Format::kQ4_0, 0, 24576, 4096, 1}, kHopper));
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 0, 24576, 4608, 1}, kHopper));      // more segments than warps
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 0, 2 * 640, 4096, 1}, kHopper));    // no whole segments for `down`
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 8, 24576, 4096, 1}, kHopper));      // begins within a tile
  EXPECT_FALSE(plan_gated({Format::kQ1_0_G128, 0, 256 * 136, 4096, 1}, kHopper));  // blocks in two waves
}

TEST(MatmulPlan, NamesTheUnitsThatItMayTake) {
  EXPECT_EQ(matmul_units(Format::kTQ2_0, kHopper),
            (std::vector<std::string>{"matmul.TQ2_0_G128", "matmul_held.TQ2_0_G128", "matmul_bits.TQ2_0_G128"}));
  EXPECT_EQ(matmul_units(Format::kTQ2_0, kBlackwell),
            (std::vector<std::string>{"matmul.TQ2_0_G128", "matmul_held.TQ2_0_G128", "matmul_one.TQ2_0_G128"}));
  EXPECT_EQ(matmul_units(Format::kQ8_K, kHopper), (std::vector<std::string>{"matmul.Q8_K", "matmul_one.Q8_K"}));
  EXPECT_EQ(matmul_units(Format::kBF16, kHopper), std::vector<std::string>{"matmul.F16"});
  EXPECT_EQ(embedding_unit(Format::kBF16), "embedding.F16");
}

// Blocks that come after the others would have the device wait for them.
TEST(MatmulPlan, BlocksForFewTokensRunAllAtOnce) {
  const auto warps = [](Format format, uint64_t rows, uint64_t n = 1) {
    const MatmulPlan plan = plan_matmul({format, 0, rows, 4096, n}, kHopper);
    return plan.grid_x * plan.grid_y * (plan.threads / 32);
  };
  for (const uint64_t rows : {1024, 4096, 6144, 24576}) {
    EXPECT_LE(warps(Format::kQ1_0_G128, rows), 24u * 132) << rows;
    EXPECT_LE(warps(Format::kTQ2_0_G128, rows), 16u * 132) << rows;
    EXPECT_LE(warps(Format::kQ4_K, rows), 12u * 132) << rows;
    EXPECT_LE(warps(Format::kQ3_K, rows), 6u * 132) << rows;
  }
  for (const uint64_t n : {8, 16, 32}) EXPECT_LE(warps(Format::kQ1_0_G128, 4096, n), 16u * 132) << n;
}

std::string plan_for_one(Format format, uint64_t rows, uint64_t columns) {
  const MatmulPlan plan = plan_matmul({format, 0, rows, columns, 1}, kHopper);
  std::ostringstream text;
  text << plan.kernel << ", " << plan.grid_x << " blocks of " << plan.threads / 32 << " warps, " << plan.tiles_per_block
       << " tiles";
  return text.str();
}

TEST(MatmulPlan, OneTokenLeavesRoomForTheNextProductInModelsThatWeKnow) {
  constexpr Format kBits = Format::kQ1_0_G128;
  // 8B: qkv, o, gate and up, down, head
  EXPECT_EQ(plan_for_one(kBits, 6144, 4096), "matmul_bits_1, 96 blocks of 8 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(kBits, 4096, 4096), "matmul_bits_1, 64 blocks of 8 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(kBits, 24576, 4096), "matmul_bits_1, 384 blocks of 8 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(kBits, 4096, 12288), "matmul_bits_1_long, 64 blocks of 24 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(kBits, 151936, 4096), "matmul_bits_1, 594 blocks of 8 warps, 16 tiles");
  // 1.7B: o, gate and up, down
  EXPECT_EQ(plan_for_one(kBits, 2048, 2048), "matmul_bits_1, 64 blocks of 4 warps, 2 tiles");
  EXPECT_EQ(plan_for_one(kBits, 12288, 2048), "matmul_bits_1, 192 blocks of 4 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(kBits, 2048, 6144), "matmul_bits_1_long, 32 blocks of 12 warps, 4 tiles");
  EXPECT_EQ(plan_for_one(Format::kTQ2_0_G128, 4096, 12288), "matmul_bits_1_long, 64 blocks of 12 warps, 4 tiles");
}

TEST(MatmulPlan, GridsCoverEveryTileAndTokenWithinABlocksLimits) {
  for (const MatmulDevice &device : {kHopper, kBlackwell, MatmulDevice{1, true}}) {
    for (const uint64_t rows : {1, 16, 4096, 24576, 151936}) {
      for (const uint64_t columns : {32, 2560, 4096, 9728, 12288, 53248}) {
        for (const uint64_t n : {1, 4, 5, 8, 16, 17, 32, 33, 64, 65, 2048}) {
          const MatmulPlan plan = plan_matmul({Format::kQ1_0_G128, 7, rows, columns, n}, device);
          const bool prefill = plan.kernel == "matmul_prefill";
          const uint64_t tiles = (7 + rows + 15) / 16;
          const uint64_t tiles_of_block = prefill ? plan.threads / 32 : plan.tiles_per_block;
          const uint64_t tokens = tokens_of_block(plan);
          ASSERT_GE(plan.grid_x * tiles_of_block, tiles);
          ASSERT_LT((plan.grid_x - 1) * tiles_of_block, tiles) << "a block has nothing to do";
          ASSERT_GE(plan.grid_y * tokens, n);
          ASSERT_LE(plan.grid_y, 65535u);
          ASSERT_LE(plan.shared_bytes, 48u * 1024);
          const bool one = plan.kernel == "matmul_one";
          const bool is_long = plan.kernel == "matmul_bits_1_long";
          ASSERT_LE(plan.threads, prefill   ? kPrefillMaxThreads
                                  : one     ? kOneMaxThreads
                                  : is_long ? long_max_threads(kQ1_0_G128Layout)
                                            : kDecodeMaxThreads);
        }
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
