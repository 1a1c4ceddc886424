#include "plugins/cuda/layout/matmul_kernels.h"

#include <algorithm>
#include <iterator>

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr uint32_t kSharedBytes = 48 * 1024;  // that a block gets without asking
constexpr uint32_t kMostTiles = 16;           // of a block of matmul_decode and its like: beyond, nothing is gained

bool has_bits(const MatrixLayout &layout) { return layout.packing == Packing::kCodesBy128 && layout.group == 128; }
bool has_one(const MatrixLayout &layout) { return !layout.is_float(); }
bool has_all(const MatrixLayout &) { return true; }

struct Traits {
  std::string_view unit, name;
  uint32_t tokens;  // of a block
  bool (*has)(const MatrixLayout &layout);
};

const Traits &traits_of(MatmulKernel kernel) {
  static constexpr Traits kTraits[] = {
      {"matmul_bits", "matmul_bits_1", 1, has_bits},
      {"matmul_bits", "matmul_bits_1_long", 1, has_bits},
      {"matmul_bits", "matmul_bits_2", 2, has_bits},
      {"matmul_bits", "matmul_bits_4", 4, has_bits},
      {"matmul_one", "matmul_one", 1, has_one},
      {"matmul_held", "matmul_held_8", 8, has_held},
      {"matmul_held", "matmul_held_16", 16, has_held},
      {"matmul", "matmul_decode", kDecodeTokens, has_decode},
      {"matmul", "matmul_decode_16", 16, has_decode_16},
      {"matmul", "matmul_decode_32", 32, has_decode_32},
      {"matmul", "matmul_prefill", kPrefillTokens, has_all},
  };
  static_assert(std::size(kTraits) == kMatmulKernels.size());
  return kTraits[static_cast<size_t>(kernel)];
}

bool is_bits(MatmulKernel kernel) { return kernel <= MatmulKernel::kBits4; }

// What a grid of matmul_decode and its like (kernels/matmul_decode.cuh) follows from.
struct DecodeGrid {
  uint32_t max_threads;
  uint32_t blocks;          // of the most threads, that a multiprocessor holds
  uint32_t step_tiles = 1;  // that a warp works on at once: fewer take as long
  uint32_t one_in = 2;      // multiprocessors has a block, about, where tiles are few
};

DecodeGrid decode_grid(MatmulKernel kernel, const MatrixLayout &layout) {
  const uint32_t tokens = traits_of(kernel).tokens;
  if (kernel == MatmulKernel::kBits1Long) return {long_max_threads(layout), 1, kBitStepTiles, 4};
  if (is_bits(kernel)) return {kDecodeMaxThreads, bit_blocks(layout, tokens), kBitStepTiles / tokens};
  if (kernel == MatmulKernel::kOne) return {kOneMaxThreads, one_blocks(layout)};
  return {kDecodeMaxThreads, decode_blocks(layout)};
}

MatmulPlan make_plan(MatmulKernel kernel, quant::Format format) {
  return {.unit = unit_of(kernel, format),
          .kernel = std::string(name_of(kernel)),
          .grid_x = 0,
          .grid_y = 0,
          .threads = 0,
          .shared_bytes = 0,
          .tiles_per_block = 0};
}

// A warp for each segment, or half as many, and so on. Blocks, of as many tiles as it takes, to fill the device once:
// with more blocks of fewer tiles the tokens would be read more often. Nor fewer tiles than a warp works on at once, as
// long as about every second multiprocessor (`one_in`) has a block: so the next kernels' blocks find room beside them.
MatmulPlan plan_decode(MatmulKernel kernel, const MatmulShape &shape, const MatmulDevice &device) {
  const DecodeGrid grid = decode_grid(kernel, matrix_layout(shape.format));
  const uint32_t tokens = traits_of(kernel).tokens;
  const uint32_t segments = segment_count(shape.columns), tiles = tiles_of(shape);
  const uint32_t max_warps = grid.max_threads / kWarpThreads;
  const uint32_t warps = ceil_divide(segments, ceil_divide(segments, max_warps));
  const uint32_t slots = device.multiprocessors * std::max(1u, max_warps * grid.blocks / warps);
  const uint32_t tile_bytes = (1 + std::min(segments, round_segments(tokens))) * tokens * kTileRows * sizeof(float);
  MatmulPlan plan = make_plan(kernel, shape.format);
  plan.grid_y = ceil_divide(shape.n, tokens);
  const uint64_t all_tiles = uint64_t{tiles} * plan.grid_y;
  const uint32_t at_once = std::min(grid.step_tiles, ceil_divide(grid.one_in * all_tiles, device.multiprocessors));
  plan.tiles_per_block =
      std::clamp(std::max(ceil_divide(all_tiles, slots), at_once), 1u, std::min(kMostTiles, kSharedBytes / tile_bytes));
  plan.grid_x = ceil_divide(tiles, plan.tiles_per_block);
  plan.threads = warps * kWarpThreads;
  plan.shared_bytes = plan.tiles_per_block * tile_bytes;
  return plan;
}

// Of a block of matmul_held: a warp for each segment, or half as many, and so on.
uint32_t held_warps(const MatmulShape &shape) {
  const uint32_t segments = segment_count(shape.columns);
  return ceil_divide(segments, ceil_divide(segments, kHeldMaxThreads / kWarpThreads));
}

// Blocks, of as many tiles as it takes, to fill the device once, if their shared memory leaves room for as many as
// their registers do.
MatmulPlan plan_held(MatmulKernel kernel, const MatmulShape &shape, const MatmulDevice &device) {
  const uint32_t tokens = traits_of(kernel).tokens, tiles = tiles_of(shape), warps = held_warps(shape);
  const uint32_t bytes = held_bytes(matrix_layout(shape.format), tokens, warps);
  const uint32_t tile_bytes = segment_count(shape.columns) > warps ? held_tile_bytes(tokens) : 0;
  const uint32_t most_tiles = tile_bytes > 0 ? (kSharedBytes - bytes) / tile_bytes : tiles;
  const uint32_t slots = device.multiprocessors * held_blocks(shape);
  MatmulPlan plan = make_plan(kernel, shape.format);
  plan.grid_y = ceil_divide(shape.n, tokens);
  plan.tiles_per_block = std::clamp(ceil_divide(uint64_t{tiles} * plan.grid_y, slots), 1u, most_tiles);
  plan.grid_x = ceil_divide(tiles, plan.tiles_per_block);
  plan.threads = warps * kWarpThreads;
  plan.shared_bytes = bytes + plan.tiles_per_block * tile_bytes;
  return plan;
}

// A warp for each tile; blocks of fewer warps where that makes two for each multiprocessor.
MatmulPlan plan_prefill(const MatmulShape &shape, const MatmulDevice &device) {
  const uint32_t tiles = tiles_of(shape);
  MatmulPlan plan = make_plan(MatmulKernel::kPrefill, shape.format);
  plan.grid_y = ceil_divide(shape.n, kPrefillTokens);
  uint32_t warps = kPrefillMaxThreads / kWarpThreads;
  while (warps > 2 && ceil_divide(tiles, warps) * uint64_t{plan.grid_y} < 2 * uint64_t{device.multiprocessors}) {
    warps /= 2;
  }
  plan.grid_x = ceil_divide(tiles, warps);
  plan.threads = warps * kWarpThreads;
  return plan;
}

}  // namespace

std::string_view name_of(MatmulKernel kernel) { return traits_of(kernel).name; }

std::string unit_of(MatmulKernel kernel, quant::Format format) {
  return std::string(traits_of(kernel).unit) + "." + std::string(kernel_format(format));
}

bool serves(MatmulKernel kernel, quant::Format format, const MatmulDevice &device) {
  return traits_of(kernel).has(matrix_layout(format)) && (device.has_bit_mma || !is_bits(kernel));
}

MatmulPlan plan_by(MatmulKernel kernel, const MatmulShape &shape, const MatmulDevice &device) {
  if (kernel == MatmulKernel::kPrefill) return plan_prefill(shape, device);
  if (kernel == MatmulKernel::kHeld8 || kernel == MatmulKernel::kHeld16) return plan_held(kernel, shape, device);
  return plan_decode(kernel, shape, device);
}

uint32_t tiles_of(const MatmulShape &shape) {
  return static_cast<uint32_t>(tile_count(shape.first_row + shape.rows) - shape.first_row / kTileRows);
}

uint32_t held_blocks(const MatmulShape &shape) {
  return kHeldMaxThreads / kWarpThreads * kHeldBlocks / held_warps(shape);
}

}  // namespace bonsai::cuda
