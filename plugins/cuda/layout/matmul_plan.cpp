#include "plugins/cuda/layout/matmul_plan.h"

#include <algorithm>
#include <limits>

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr const char *kBits = "matmul_bits";
constexpr uint32_t kWarp = 32;
constexpr uint32_t kSharedBytes = 48 * 1024;  // that a block gets without asking
constexpr uint32_t kMostTiles = 16;           // of a block: beyond, nothing is gained
// Tokens up to which weights are read again for every 8 of them, from the second-level cache, rather than tiles of 64
// being half empty or more.
constexpr uint64_t kMostDecodeTokens = 32;

uint32_t ceil_divide(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

std::string unit_of(const char *kernels, quant::Format format) {
  return std::string(kernels) + "." + std::string(kernel_format(format));
}

uint32_t tiles_of(const MatmulShape &shape) {
  return static_cast<uint32_t>(tile_count(shape.first_row + shape.rows) - shape.first_row / kTileRows);
}

// What a kernel for few tokens takes.
struct DecodeKernel {
  const char *unit, *name;
  uint32_t tokens;      // of a block
  uint32_t step_tiles;  // that a warp works on at once: fewer take as long
  uint32_t max_threads;
  uint32_t (*blocks)(const MatrixLayout &layout);  // of the most threads, that a multiprocessor holds
};

template <uint32_t kTokens>
uint32_t blocks_for_bits(const MatrixLayout &layout) {
  return bit_blocks(layout, kTokens);
}

constexpr DecodeKernel kBits1 = {kBits, "matmul_bits_1", 1, 4, kDecodeMaxThreads, blocks_for_bits<1>};
constexpr DecodeKernel kBits2 = {kBits, "matmul_bits_2", 2, 2, kDecodeMaxThreads, blocks_for_bits<2>};
constexpr DecodeKernel kBits4 = {kBits, "matmul_bits_4", 4, 1, kDecodeMaxThreads, blocks_for_bits<4>};
constexpr DecodeKernel kOne = {"matmul_one", "matmul_one", 1, 1, kOneMaxThreads, one_blocks};
constexpr DecodeKernel kEight = {"matmul", "matmul_decode", kDecodeTokens, 1, kDecodeMaxThreads, decode_blocks};

// A row of more segments than a block of matmul_bits_1 has warps.
DecodeKernel bits_for_one(const MatmulShape &shape) {
  if (segment_count(shape.columns) * kWarp <= kDecodeMaxThreads) return kBits1;
  const MatrixLayout &layout = matrix_layout(shape.format);
  return {kBits, "matmul_bits_1_long", 1, 4, long_max_threads(layout), [](const MatrixLayout &) { return 1u; }};
}

// A warp for each segment, or half as many, and so on. Blocks, of as many tiles as it takes, to fill the device once:
// with more blocks of fewer tiles the tokens would be read more often. Nor fewer tiles than a warp works on at once, as
// long as every multiprocessor has a block: so the next kernel's blocks find room beside them.
MatmulPlan plan_decode(const MatmulShape &shape, const MatmulDevice &device, const DecodeKernel &kernel) {
  const uint32_t segments = segment_count(shape.columns), tiles = tiles_of(shape);
  const uint32_t max_warps = kernel.max_threads / kWarp;
  const uint32_t warps = ceil_divide(segments, ceil_divide(segments, max_warps));
  const uint32_t warps_of_multiprocessor = max_warps * kernel.blocks(matrix_layout(shape.format));
  const uint32_t slots = device.multiprocessors * std::max(1u, warps_of_multiprocessor / warps);
  const uint32_t tile_bytes = (1 + std::min(segments, kRoundSegments)) * kernel.tokens * kTileRows * sizeof(float);
  const uint32_t token_blocks = ceil_divide(shape.n, kernel.tokens);
  const uint64_t all_tiles = uint64_t{tiles} * token_blocks;
  const uint32_t at_once = std::min(kernel.step_tiles, ceil_divide(all_tiles, device.multiprocessors));
  const uint32_t tiles_of_block =
      std::clamp(std::max(ceil_divide(all_tiles, slots), at_once), 1u, std::min(kMostTiles, kSharedBytes / tile_bytes));
  return {.unit = unit_of(kernel.unit, shape.format),
          .kernel = kernel.name,
          .grid_x = ceil_divide(tiles, tiles_of_block),
          .grid_y = token_blocks,
          .threads = warps * kWarp,
          .shared_bytes = tiles_of_block * tile_bytes,
          .tiles_per_block = tiles_of_block};
}

MatmulPlan plan_prefill(const MatmulShape &shape, const MatmulDevice &device) {
  const uint32_t tiles = tiles_of(shape), token_blocks = ceil_divide(shape.n, kPrefillTokens);
  uint32_t warps = kPrefillMaxThreads / kWarp;
  while (warps > 2 && ceil_divide(tiles, warps) * uint64_t{token_blocks} < 2 * uint64_t{device.multiprocessors}) {
    warps /= 2;
  }
  return {.unit = unit_of("matmul", shape.format),
          .kernel = "matmul_prefill",
          .grid_x = ceil_divide(tiles, warps),
          .grid_y = token_blocks,
          .threads = warps * kWarp,
          .shared_bytes = 0,
          .tiles_per_block = 0};
}

// How a block of the packing product shares its tiles between groups of warps.
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

// Warps that pack a token's groups of 128 columns in as few rounds as the most warps do.
uint32_t warps_to_pack(uint32_t segments, uint32_t max_warps) {
  const uint32_t groups = segments * (kSegmentColumns / 128);
  return ceil_divide(groups, ceil_divide(groups, max_warps));
}

bool has_kernel_for_one(quant::Format format) { return !matrix_layout(format).is_float(); }

}  // namespace

bool may_take_bits(quant::Format format, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(format);
  return device.has_bit_mma && layout.packing == Packing::kCodesBy128 && layout.group == 128;
}

bool takes_bits(const MatmulPlan &plan) { return plan.kernel.starts_with(kBits); }

std::optional<PackingPlan> plan_packing(const MatmulShape &shape, const MatmulDevice &device) {
  if (!may_take_bits(shape.format, device)) return std::nullopt;
  const uint32_t segments = segment_count(shape.columns), tiles = tiles_of(shape);
  // The kernel's own few floats, the token, and for each tile what is added to and the segments' sums.
  constexpr uint64_t kStaticBytes = 64;
  const uint64_t token_bytes = packing_shared_bytes(segments), fixed = kStaticBytes + token_bytes;
  const uint64_t tile_bytes = (1 + uint64_t{segments}) * kTileRows * sizeof(float);
  const auto room_in = [&](uint64_t bytes) { return bytes < fixed ? 0 : (bytes - fixed) / tile_bytes; };
  const uint64_t room = std::max(room_in(kSharedBytes), room_in(device.shared_bytes_per_block));
  if (room == 0) return std::nullopt;
  const auto tiles_of_block =
      static_cast<uint32_t>(std::min<uint64_t>(ceil_divide(tiles, device.multiprocessors), room));
  const uint32_t max_warps = long_max_threads(matrix_layout(shape.format)) / kWarp;
  const Shares shares = choose_shares(tiles_of_block, segments, max_warps);
  // Where the sums will be, a row and its norm's weights come first, if that asks for no more than blocks get anyway.
  const uint64_t sums_bytes = tiles_of_block * tile_bytes, row_bytes = 2 * shape.columns * sizeof(float);
  const bool has_row = row_bytes % 16 == 0 && row_bytes + fixed <= kSharedBytes;
  const uint64_t token_at = has_row ? std::max(sums_bytes, row_bytes) : sums_bytes;
  return PackingPlan{.unit = unit_of(kBits, shape.format),
                     .blocks = ceil_divide(tiles, tiles_of_block),
                     .threads = std::max(shares.groups * shares.warps, warps_to_pack(segments, max_warps)) * kWarp,
                     .shared_bytes = static_cast<uint32_t>(token_at + token_bytes),
                     .tiles_per_block = tiles_of_block,
                     .share_tiles = shares.tiles,
                     .share_warps = shares.warps,
                     .token_at = static_cast<uint32_t>(token_at)};
}

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device) {
  if (shape.n > kMostDecodeTokens) return plan_prefill(shape, device);
  if (shape.n <= kBitTokens && may_take_bits(shape.format, device)) {
    return plan_decode(shape, device, shape.n == 1 ? bits_for_one(shape) : shape.n == 2 ? kBits2 : kBits4);
  }
  return plan_decode(shape, device, shape.n == 1 && has_kernel_for_one(shape.format) ? kOne : kEight);
}

std::vector<std::string> matmul_units(quant::Format format, const MatmulDevice &device) {
  std::vector<std::string> units = {unit_of(kEight.unit, format)};
  if (may_take_bits(format, device)) {
    units.push_back(unit_of(kBits, format));
  } else if (has_kernel_for_one(format)) {
    units.push_back(unit_of(kOne.unit, format));
  }
  return units;
}

std::string embedding_unit(quant::Format format) { return unit_of("embedding", format); }

}  // namespace bonsai::cuda
