#include "plugins/cuda/layout/matmul_plan.h"

#include <algorithm>

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr const char *kBits = "matmul_bits", *kHeld = "matmul_held";
constexpr uint32_t kWarp = 32;
constexpr uint32_t kSharedBytes = 48 * 1024;  // that a block gets without asking
constexpr uint32_t kMostTiles = 16;           // of a block: beyond, nothing is gained

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
  uint32_t one_in = 2;                             // multiprocessors has a block, about, where tiles are few
};

template <uint32_t kTokens>
uint32_t blocks_for_bits(const MatrixLayout &layout) {
  return bit_blocks(layout, kTokens);
}

constexpr DecodeKernel kBits1 = {kBits, "matmul_bits_1", 1, kBitStepTiles, kDecodeMaxThreads, blocks_for_bits<1>};
constexpr DecodeKernel kBits2 = {kBits, "matmul_bits_2", 2, kBitStepTiles / 2, kDecodeMaxThreads, blocks_for_bits<2>};
constexpr DecodeKernel kBits4 = {kBits, "matmul_bits_4", 4, kBitStepTiles / 4, kDecodeMaxThreads, blocks_for_bits<4>};
constexpr DecodeKernel kOne = {"matmul_one", "matmul_one", 1, 1, kOneMaxThreads, one_blocks};
constexpr DecodeKernel kEight = {"matmul", "matmul_decode", kDecodeTokens, 1, kDecodeMaxThreads, decode_blocks};
constexpr DecodeKernel kSixteen = {"matmul", "matmul_decode_16", 16, 1, kDecodeMaxThreads, decode_blocks};
constexpr DecodeKernel kThirtyTwo = {"matmul", "matmul_decode_32", 32, 1, kDecodeMaxThreads, decode_blocks};

// Whether a row has more segments than a block of kDecodeMaxThreads has warps.
bool has_long_rows(const MatmulShape &shape) { return segment_count(shape.columns) * kWarp > kDecodeMaxThreads; }

DecodeKernel bits_for_one(const MatmulShape &shape) {
  if (!has_long_rows(shape)) return kBits1;
  const MatrixLayout &layout = matrix_layout(shape.format);
  return {.unit = kBits,
          .name = "matmul_bits_1_long",
          .tokens = 1,
          .step_tiles = kBitStepTiles,
          .max_threads = long_max_threads(layout),
          .blocks = [](const MatrixLayout &) { return 1u; },
          .one_in = 4};
}

// Tiles times tokens that matmul_prefill works on at once: by it a warp has whole rows, and tokens come through shared
// memory, 64 at a time.
uint64_t prefill_room(const MatmulDevice &device) {
  return uint64_t{device.multiprocessors} * 2 * (kPrefillMaxThreads / kWarp) * kPrefillTokens;
}

// Warps of matmul_held.
struct HeldWarps {
  uint32_t rounds;  // segments of each
  uint32_t of_block;
  uint32_t blocks;  // of a multiprocessor
};

HeldWarps held_warps(const MatmulShape &shape) {
  constexpr uint32_t kMost = kHeldMaxThreads / kWarp;
  const uint32_t segments = segment_count(shape.columns), rounds = ceil_divide(segments, kMost);
  const uint32_t warps = ceil_divide(segments, rounds);
  return {.rounds = rounds, .of_block = warps, .blocks = kMost * kHeldBlocks / warps};
}

// Tokens of a block of matmul_held; 0: another kernel is faster. As measured: docs/cuda-kernels.md, "Which kernel".
uint32_t held_tokens(const MatmulShape &shape, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  if (!has_held(layout)) return 0;
  const uint32_t tiles = tiles_of(shape);
  if (shape.n == 1) {
    // A block of matmul_one has few warps for long rows, and each takes as long for a tile as for four.
    const uint32_t in_turn = ceil_divide(tiles, device.multiprocessors * held_warps(shape).blocks);
    return segment_count(shape.columns) > kOneMaxThreads / kWarp && in_turn < 4 ? 8 : 0;
  }
  // matmul_prefill is ahead where it finds enough to do: with three fifths of its room or, where it scales after every
  // product of a few weights, all of it.
  const uint64_t room = prefill_room(device), enough = layout.bits == 4 ? room : room / 5 * 3;
  if (shape.n > 16 && tiles * shape.n > enough) return 0;
  return shape.n <= (layout.packing == Packing::kCodesBy32 ? 32 : 8) ? 8 : 16;
}

// Of formats without matmul_held; null: matmul_prefill. That takes as long for a few tokens as for 64, and so long that
// it needs as many rows as keep the device busy. With the other kernels a warp has a segment, and reads tokens from
// memory; what several of them save in reading weights they lose in being fewer, more or less. As measured:
// docs/cuda-kernels.md, "Which kernel".
const DecodeKernel *kernel_for_several(const MatmulShape &shape, const MatmulDevice &device) {
  if (shape.n <= kEight.tokens) return &kEight;
  const bool is_busy = tiles_of(shape) >= device.multiprocessors * (kPrefillMaxThreads / kWarp);
  if (shape.n > kThirtyTwo.tokens || (shape.n > kSixteen.tokens && is_busy)) return nullptr;
  if (matrix_layout(shape.format).is_float()) return shape.n <= kSixteen.tokens ? &kSixteen : &kThirtyTwo;
  return shape.n > kSixteen.tokens && has_long_rows(shape) ? &kThirtyTwo : &kEight;
}

// A warp for each segment, or half as many, and so on. Blocks, of as many tiles as it takes, to fill the device once:
// with more blocks of fewer tiles the tokens would be read more often. Nor fewer tiles than a warp works on at once, as
// long as about every second multiprocessor (`one_in`) has a block: so the next kernels' blocks find room beside them.
MatmulPlan plan_decode(const MatmulShape &shape, const MatmulDevice &device, const DecodeKernel &kernel) {
  const uint32_t segments = segment_count(shape.columns), tiles = tiles_of(shape);
  const uint32_t max_warps = kernel.max_threads / kWarp;
  const uint32_t warps = ceil_divide(segments, ceil_divide(segments, max_warps));
  const uint32_t warps_of_multiprocessor = max_warps * kernel.blocks(matrix_layout(shape.format));
  const uint32_t slots = device.multiprocessors * std::max(1u, warps_of_multiprocessor / warps);
  const uint32_t tile_bytes =
      (1 + std::min(segments, round_segments(kernel.tokens))) * kernel.tokens * kTileRows * sizeof(float);
  const uint32_t token_blocks = ceil_divide(shape.n, kernel.tokens);
  const uint64_t all_tiles = uint64_t{tiles} * token_blocks;
  const uint32_t at_once = std::min(kernel.step_tiles, ceil_divide(kernel.one_in * all_tiles, device.multiprocessors));
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

bool has_kernel_for_one(quant::Format format) { return !matrix_layout(format).is_float(); }

}  // namespace

bool may_take_bits(quant::Format format, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(format);
  return device.has_bit_mma && layout.packing == Packing::kCodesBy128 && layout.group == 128;
}

bool takes_bits(const MatmulPlan &plan) { return plan.kernel.starts_with(kBits); }

// A warp for each segment, or half as many, and so on; blocks, of as many tiles as it takes, to fill the device once.
MatmulPlan plan_held(const MatmulShape &shape, const MatmulDevice &device, uint32_t tokens) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  const uint32_t tiles = tiles_of(shape), token_blocks = ceil_divide(shape.n, tokens);
  const HeldWarps warps = held_warps(shape);
  const uint32_t bytes = held_bytes(layout, tokens, warps.of_block);
  const uint32_t tile_bytes = warps.rounds > 1 ? held_tile_bytes(tokens) : 0;
  const uint32_t most_tiles = tile_bytes > 0 ? (kSharedBytes - bytes) / tile_bytes : tiles;
  const uint32_t slots = device.multiprocessors * warps.blocks;
  const uint32_t tiles_of_block = std::clamp(ceil_divide(uint64_t{tiles} * token_blocks, slots), 1u, most_tiles);
  return {.unit = unit_of(kHeld, shape.format),
          .kernel = tokens == 8 ? "matmul_held_8" : "matmul_held_16",
          .grid_x = ceil_divide(tiles, tiles_of_block),
          .grid_y = token_blocks,
          .threads = warps.of_block * kWarp,
          .shared_bytes = bytes + tiles_of_block * tile_bytes,
          .tiles_per_block = tiles_of_block};
}

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device) {
  if (shape.n <= kBitTokens && may_take_bits(shape.format, device)) {
    return plan_decode(shape, device, shape.n == 1 ? bits_for_one(shape) : shape.n == 2 ? kBits2 : kBits4);
  }
  if (const uint32_t tokens = held_tokens(shape, device)) return plan_held(shape, device, tokens);
  if (shape.n == 1 && has_kernel_for_one(shape.format)) return plan_decode(shape, device, kOne);
  if (has_held(matrix_layout(shape.format))) return plan_prefill(shape, device);
  const DecodeKernel *const kernel = kernel_for_several(shape, device);
  return kernel ? plan_decode(shape, device, *kernel) : plan_prefill(shape, device);
}

std::optional<MatmulPlan> plan_gated(const MatmulShape &shape, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  if (shape.n != 1 || !may_take_bits(shape.format, device) || !has_gated(layout)) return std::nullopt;
  if (shape.first_row % kTileRows != 0 || shape.rows % (2 * kSegmentColumns) != 0) return std::nullopt;
  const uint32_t segments = segment_count(shape.columns), blocks = tiles_of(shape) / kGatedTiles;
  uint32_t steps = 1;
  const auto warps_for = [&](uint32_t n) { return segments * (kGatedTiles / kBitStepTiles / n); };
  while (warps_for(steps) * kWarp > kGatedMaxThreads && steps < kGatedSteps) steps *= 2;
  const uint32_t warps = warps_for(steps);
  if (warps * kWarp > kGatedMaxThreads || blocks > device.multiprocessors) return std::nullopt;
  return MatmulPlan{.unit = unit_of(kBits, shape.format),
                    .kernel = "matmul_bits_1_gated",
                    .grid_x = blocks,
                    .grid_y = 1,
                    .threads = warps * kWarp,
                    .shared_bytes = segments * kGatedTiles * kTileRows * static_cast<uint32_t>(sizeof(float)),
                    .tiles_per_block = kGatedTiles};
}

std::vector<std::string> matmul_units(quant::Format format, const MatmulDevice &device) {
  std::vector<std::string> units = {unit_of(kEight.unit, format)};
  if (has_held(matrix_layout(format))) units.push_back(unit_of(kHeld, format));
  if (may_take_bits(format, device)) {
    units.push_back(unit_of(kBits, format));
  } else if (has_kernel_for_one(format)) {
    units.push_back(unit_of(kOne.unit, format));
  }
  return units;
}

std::string embedding_unit(quant::Format format) { return unit_of("embedding", format); }

}  // namespace bonsai::cuda
