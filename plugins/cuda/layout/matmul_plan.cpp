#include "plugins/cuda/layout/matmul_plan.h"

#include <algorithm>

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

constexpr const char *kBits = "matmul_bits";
constexpr uint32_t kWarp = 32;
constexpr uint32_t kSharedBytes = 48 * 1024;  // that a block gets without asking
constexpr uint32_t kMostTiles = 16;           // of a block: beyond, nothing is gained
// Tokens up to which weights are read again for every 8 of them, rather than tiles of 64 being mostly empty.
constexpr uint64_t kMostDecodeTokens = 16;

uint32_t ceil_divide(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

std::string unit_of(const char *kernels, quant::Format format) {
  return std::string(kernels) + "." + std::string(kernel_format(format));
}

uint32_t tiles_of(const MatmulShape &shape) {
  return static_cast<uint32_t>(tile_count(shape.first_row + shape.rows) - shape.first_row / kTileRows);
}

// A warp for each segment, or half as many, and so on. Blocks, of as many tiles as it takes, to fill the device once.
MatmulPlan plan_decode(const MatmulShape &shape, const MatmulDevice &device, uint32_t tokens,
                       uint32_t warps_of_multiprocessor) {
  const uint32_t segments = segment_count(shape.columns), tiles = tiles_of(shape);
  const uint32_t warps = ceil_divide(segments, ceil_divide(segments, kDecodeMaxThreads / kWarp));
  const uint32_t slots = device.multiprocessors * std::max(1u, warps_of_multiprocessor / warps);
  const uint32_t tile_bytes = (1 + std::min(segments, kRoundSegments)) * tokens * kTileRows * sizeof(float);
  const uint32_t tiles_of_block =
      std::clamp(ceil_divide(tiles, slots), 1u, std::min(kMostTiles, kSharedBytes / tile_bytes));
  return {.unit = {},
          .kernel = {},
          .grid_x = ceil_divide(tiles, tiles_of_block),
          .grid_y = ceil_divide(shape.n, tokens),
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
  return {.unit = {},
          .kernel = "matmul_prefill",
          .grid_x = ceil_divide(tiles, warps),
          .grid_y = token_blocks,
          .threads = warps * kWarp,
          .shared_bytes = 0,
          .tiles_per_block = 0};
}

}  // namespace

bool may_take_bits(quant::Format format, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(format);
  return device.has_bit_mma && layout.packing == Packing::kCodesBy128 && layout.group == 128;
}

bool takes_bits(const MatmulPlan &plan) { return plan.kernel.starts_with(kBits); }

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device) {
  // Warps of a multiprocessor with 65,536 registers: see the kernels' launch bounds.
  constexpr uint32_t kDecodeWarps = 16, kOneTokenWarps = 24;
  MatmulPlan plan;
  if (shape.n <= kBitTokens && may_take_bits(shape.format, device)) {
    const uint32_t tokens = shape.n <= 2 ? static_cast<uint32_t>(shape.n) : kBitTokens;
    plan = plan_decode(shape, device, tokens, tokens == 1 ? kOneTokenWarps : kDecodeWarps);
    plan.kernel = tokens == 1 ? "matmul_bits_1" : tokens == 2 ? "matmul_bits_2" : "matmul_bits_4";
    plan.unit = unit_of(kBits, shape.format);
    return plan;
  }
  if (shape.n <= kMostDecodeTokens) {
    plan = plan_decode(shape, device, kDecodeTokens, kDecodeWarps);
    plan.kernel = "matmul_decode";
  } else {
    plan = plan_prefill(shape, device);
  }
  plan.unit = unit_of("matmul", shape.format);
  return plan;
}

std::vector<std::string> matmul_units(quant::Format format, const MatmulDevice &device) {
  std::vector<std::string> units = {unit_of("matmul", format)};
  if (may_take_bits(format, device)) units.push_back(unit_of(kBits, format));
  return units;
}

std::string embedding_unit(quant::Format format) { return unit_of("embedding", format); }

}  // namespace bonsai::cuda
