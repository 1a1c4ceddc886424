#include "plugins/cuda/layout/token_plan.h"

#include <algorithm>
#include <limits>

#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr uint32_t kWarps = kTokenThreads / 32;
constexpr uint32_t kStaticBytes = 8192;  // of shared memory, that the kernel has at the most beside what it asks for

// How a block shares its tiles between groups of warps.
struct Shares {
  uint32_t tiles, warps;  // of a group
  uint32_t groups;
};

// A group has a warp for each segment, or half as many, and so on; with more groups, a warp has fewer tiles. What
// counts is how long one warp takes: by count some 30 instructions for a tile, and 130 for a step of up to four of
// them.
Shares choose_shares(uint32_t tiles, uint32_t segments, uint32_t max_warps) {
  constexpr uint32_t kTileCost = 30, kStepCost = 130, kStepTiles = 4;
  Shares best = {};
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (uint32_t groups = 1; groups <= std::min(tiles, max_warps); ++groups) {
    const uint32_t of_warp = ceil_divide(segments, std::min(segments, max_warps / groups));
    const uint32_t share = ceil_divide(tiles, groups);
    const uint64_t cost = of_warp * (uint64_t{share} * kTileCost + ceil_divide(share, kStepTiles) * kStepCost);
    if (cost >= least) continue;
    least = cost;
    best = {.tiles = share, .warps = ceil_divide(segments, of_warp), .groups = ceil_divide(tiles, share)};
  }
  return best;
}

LayerProductShape plan_product(quant::Format format, uint64_t rows, uint64_t columns, bool has_norm, uint32_t halves,
                               uint32_t blocks) {
  const uint32_t segments = segment_count(columns);
  const uint32_t tiles = ceil_divide(tile_count(rows), blocks);
  const Shares shares = choose_shares(tiles, segments, kWarps / halves);
  // Where the sums will be, the row comes first, and its norm's weights behind it.
  const uint64_t sums_bytes = uint64_t{halves} * tiles * segments * kTileRows * sizeof(float);
  const uint64_t row_bytes = (has_norm ? 2 : 1) * columns * sizeof(float);
  return {.tile_bytes = tile_bytes(format, columns),
          .rows = static_cast<uint32_t>(rows),
          .columns = static_cast<uint32_t>(columns),
          .segments = segments,
          .tiles_per_block = tiles,
          .groups = shares.groups,
          .share_tiles = shares.tiles,
          .share_warps = shares.warps,
          .token_at = static_cast<uint32_t>((std::max(sums_bytes, row_bytes) + 15) / 16 * 16)};
}

// "F16_128", where the kernel is compiled for it.
std::optional<std::string> attended(const TokenShape &shape) {
  if (shape.kv_dtype != kKvF16 && shape.kv_dtype != kKvQ8_0) return std::nullopt;
  if (shape.padded_head_dim != 64 && shape.padded_head_dim != 128) return std::nullopt;
  return (shape.kv_dtype == kKvF16 ? "F16_" : "Q8_0_") + std::to_string(shape.padded_head_dim);
}

}  // namespace

std::optional<TokenPlan> plan_token(const TokenShape &shape, const MatmulDevice &device) {
  const std::optional<std::string> kv = attended(shape);
  if (!kv || !may_take_bits(shape.format, device) || shape.ffn % kTileRows != 0) return std::nullopt;
  const uint32_t blocks = device.multiprocessors;
  const auto product = [&](uint64_t rows, uint64_t columns, bool has_norm, uint32_t halves) {
    return plan_product(shape.format, rows, columns, has_norm, halves, blocks);
  };
  const std::string kinds = std::string(kernel_format(shape.format)) + "." + *kv;
  TokenPlan plan = {.unit = "token_layers." + kinds,
                    .timed_unit = "token_layers_timed." + kinds,
                    .blocks = blocks,
                    .shared_bytes = shape.attention_shared_bytes,
                    .products = {.qkv = product(shape.qkv_rows, shape.hidden, true, 1),
                                 .o = product(shape.hidden, shape.q_rows, false, 1),
                                 .gate_up = product(shape.ffn, shape.hidden, true, 2),
                                 .down = product(shape.hidden, shape.ffn, false, 1)}};
  for (uint32_t i = 0; i < kLayerProducts; ++i) {
    const LayerProductShape &product = plan.products[i];
    plan.shared_bytes = std::max(plan.shared_bytes, product.token_at + packed_token_bytes(product.segments));
  }
  if (plan.products.o.tiles_per_block * kTileRows > kMostResidualRows) return std::nullopt;
  if (plan.shared_bytes + kStaticBytes > device.shared_bytes_per_block) return std::nullopt;
  return plan;
}

}  // namespace bonsai::cuda
