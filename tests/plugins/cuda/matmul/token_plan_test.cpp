// How all layers of a token are launched at once.
#include "plugins/cuda/layout/token_plan.h"

#include <sstream>

#include "tests/plugins/cuda/matmul/support.h"

namespace bonsai::cuda {
namespace {

constexpr MatmulDevice kH100 = {132, true, 227 << 10};
constexpr uint32_t kAttentionBytes = narrow_shared_bytes(128);
constexpr TokenShape k8b = {.format = Format::kQ1_0_G128,
                            .hidden = 4096,
                            .qkv_rows = 6144,
                            .q_rows = 4096,
                            .ffn = 12288,
                            .kv_dtype = kKvF16,
                            .padded_head_dim = 128,
                            .attention_shared_bytes = kAttentionBytes};
constexpr TokenShape k1_7b = [] {
  TokenShape shape = k8b;
  shape.hidden = shape.q_rows = 2048;
  shape.qkv_rows = 4096;
  shape.ffn = 6144;
  return shape;
}();

TEST(TokenPlan, IsForWhatThereIsAKernelAndRoomFor) {
  const auto may = [](TokenShape shape, const MatmulDevice &device, auto edit) {
    edit(shape);
    return plan_token(shape, device).has_value();
  };
  const auto as_it_is = [](TokenShape &) {};
  EXPECT_TRUE(may(k8b, kH100, as_it_is));
  EXPECT_TRUE(may(k8b, {84, true, 99 << 10}, as_it_is));
  EXPECT_FALSE(may(k8b, {148, false, 227 << 10}, as_it_is)) << "the device has no single bits";
  EXPECT_FALSE(may(k8b, {40, true, 64 << 10}, as_it_is)) << "it has too little shared memory";
  EXPECT_TRUE(may(k8b, kH100, [](TokenShape &shape) { shape.format = Format::kTQ1_0_G128; }));
  EXPECT_FALSE(may(k8b, kH100, [](TokenShape &shape) { shape.format = Format::kQ4_0; }));
  EXPECT_TRUE(may(k8b, kH100, [](TokenShape &shape) { shape.kv_dtype = kKvQ8_0; }));
  EXPECT_FALSE(may(k8b, kH100, [](TokenShape &shape) { shape.kv_dtype = kKvF32; }));
  EXPECT_FALSE(may(k8b, kH100, [](TokenShape &shape) { shape.padded_head_dim = 96; }));
  EXPECT_FALSE(may(k8b, kH100, [](TokenShape &shape) { shape.ffn = 65'536; })) << "its row has no room";
  const auto of_few = [&](uint64_t hidden) {
    return may(k8b, {4, true, 227 << 10}, [&](TokenShape &shape) {
      shape.hidden = hidden;
      shape.ffn = 1152;
    });
  };
  EXPECT_TRUE(of_few(2048)) << "512 rows of the residual stream for each block";
  EXPECT_FALSE(of_few(2176));
}

// What groups of warps have of a block's tiles, as in "2 x (6 tiles, 8 warps), 12 tiles".
std::string shares(const LayerProductShape &product) {
  std::ostringstream text;
  text << product.groups << " x (" << product.share_tiles << " tiles, " << product.share_warps << " warps), "
       << product.tiles_per_block << " tiles";
  return text.str();
}

TEST(TokenPlan, SharesRowsBetweenAllWarpsOfModelsThatWeKnow) {
  const TokenPlan large = plan_token(k8b, kH100).value();
  EXPECT_EQ(large.unit, "token_layers.Q1_0_G128.F16_128");
  EXPECT_EQ(large.blocks, 132u);
  EXPECT_EQ(shares(large.products[kQkvProduct]), "2 x (2 tiles, 8 warps), 3 tiles");
  EXPECT_EQ(shares(large.products[kOProduct]), "2 x (1 tiles, 8 warps), 2 tiles");
  EXPECT_EQ(shares(large.products[kGateUpProduct]), "1 x (6 tiles, 8 warps), 6 tiles");
  EXPECT_EQ(shares(large.products[kDownProduct]), "1 x (2 tiles, 12 warps), 2 tiles");
  const TokenPlan small = plan_token(k1_7b, kH100).value();
  EXPECT_EQ(shares(small.products[kQkvProduct]), "2 x (1 tiles, 4 warps), 2 tiles");
  EXPECT_EQ(shares(small.products[kOProduct]), "1 x (1 tiles, 4 warps), 1 tiles");
  EXPECT_EQ(shares(small.products[kGateUpProduct]), "2 x (2 tiles, 4 warps), 3 tiles");
  EXPECT_EQ(shares(small.products[kDownProduct]), "1 x (1 tiles, 12 warps), 1 tiles");
}

TEST(TokenPlan, EveryTileIsInOneBlockAndOneShare) {
  for (const uint32_t multiprocessors : {1u, 4u, 84u, 132u}) {
    for (const uint32_t hidden : {128u, 512u, 1664u, 2560u, 5120u}) {
      for (const uint32_t ffn : {128u, 1152u, 9728u, 17408u}) {
        TokenShape shape = k8b;
        shape.hidden = hidden;
        shape.ffn = ffn;
        const auto plan = plan_token(shape, {multiprocessors, true, 227 << 10});
        if (!plan) {
          EXPECT_LE(multiprocessors, 4u) << "hidden " << hidden << ", ffn " << ffn;
          continue;
        }
        for (uint32_t i = 0; i < kLayerProducts; ++i) {
          const LayerProductShape &product = plan->products[i];
          const uint32_t halves = i == kGateUpProduct ? 2 : 1, tiles = (product.rows + 15) / 16;
          ASSERT_GE(multiprocessors * product.tiles_per_block, tiles);
          ASSERT_LT(multiprocessors * (product.tiles_per_block - 1), tiles) << "blocks have more than they need to";
          ASSERT_GE(product.groups * product.share_tiles, product.tiles_per_block) << "tiles that no warp has";
          ASSERT_LE(halves * product.groups * product.share_warps * 32, kTokenThreads);
          ASSERT_LE(product.share_warps, product.segments);
          ASSERT_GE(product.token_at, halves * product.segments * product.tiles_per_block * 16 * sizeof(float));
          ASSERT_GE(product.token_at, (i % 2 == 0 ? 2 : 1) * product.columns * sizeof(float));
          ASSERT_EQ(product.token_at % 16, 0u);
          ASSERT_GE(plan->shared_bytes, product.token_at + packed_token_bytes(product.segments));
        }
        ASSERT_GE(plan->shared_bytes, kAttentionBytes);
        ASSERT_LT(plan->shared_bytes, 227u << 10);
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cuda
