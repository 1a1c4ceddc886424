#include "plugins/cuda/layout/matmul_plan.h"

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/matmul_kernels.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

// Whether a row has more segments than a block of so many threads has warps.
bool has_long_rows(const MatmulShape &shape, uint32_t threads) {
  return segment_count(shape.columns) * kWarpThreads > threads;
}

MatmulKernel kernel_of_bits(const MatmulShape &shape) {
  if (shape.n > 1) return shape.n == 2 ? MatmulKernel::kBits2 : MatmulKernel::kBits4;
  return has_long_rows(shape, kDecodeMaxThreads) ? MatmulKernel::kBits1Long : MatmulKernel::kBits1;
}

// Of a token's product with integers. A block of matmul_one has few warps for long rows, and each of these takes as
// long for a tile as for four.
MatmulKernel kernel_for_one(const MatmulShape &shape, const MatmulDevice &device) {
  const uint32_t in_turn = ceil_divide(tiles_of(shape), device.multiprocessors * held_blocks(shape));
  const bool is_slow = has_long_rows(shape, kOneMaxThreads) && in_turn < 4;
  return is_slow && has_held(matrix_layout(shape.format)) ? MatmulKernel::kHeld8 : MatmulKernel::kOne;
}

// Of formats with matmul_held. matmul_prefill, by which a warp has whole rows, and tokens come through shared memory,
// 64 at a time, is ahead where it finds enough to do: three fifths of the tiles times tokens that it works on at once,
// or, with codes of four bits, all of them. With these, two blocks of 8 tokens are also faster than one of 16, up
// to 32.
MatmulKernel kernel_that_holds(const MatmulShape &shape, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  const uint32_t warps = device.multiprocessors * prefill_blocks(layout) * (kPrefillMaxThreads / kWarpThreads);
  const uint64_t at_once = uint64_t{warps} * kPrefillTokens, enough = layout.bits == 4 ? at_once : at_once / 5 * 3;
  if (shape.n > 16 && tiles_of(shape) * shape.n > enough) return MatmulKernel::kPrefill;
  return shape.n <= (layout.bits == 4 ? 32 : 8) ? MatmulKernel::kHeld8 : MatmulKernel::kHeld16;
}

// Of others. matmul_prefill takes as long for a few tokens as for 64, and so long that it needs as many rows as keep
// the device busy. With the other kernels a warp has a segment, and reads tokens from memory; what several of them save
// in reading weights they lose in being fewer, more or less.
MatmulKernel kernel_that_reads(const MatmulShape &shape, const MatmulDevice &device) {
  if (shape.n <= 8) return MatmulKernel::kDecode8;
  const bool is_busy = tiles_of(shape) >= device.multiprocessors * (kPrefillMaxThreads / kWarpThreads);
  if (shape.n > 32 || (shape.n > 16 && is_busy)) return MatmulKernel::kPrefill;
  if (matrix_layout(shape.format).is_float()) {
    return shape.n <= 16 ? MatmulKernel::kDecode16 : MatmulKernel::kDecode32;
  }
  return shape.n > 16 && has_long_rows(shape, kDecodeMaxThreads) ? MatmulKernel::kDecode32 : MatmulKernel::kDecode8;
}

// As measured: docs/cuda-kernels.md, "Which kernel".
MatmulKernel choose_kernel(const MatmulShape &shape, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  if (shape.n <= kBitTokens && may_take_bits(shape.format, device)) return kernel_of_bits(shape);
  if (shape.n == 1 && !layout.is_float()) return kernel_for_one(shape, device);
  return has_held(layout) ? kernel_that_holds(shape, device) : kernel_that_reads(shape, device);
}

}  // namespace

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device) {
  return plan_by(choose_kernel(shape, device), shape, device);
}

bool may_take_bits(quant::Format format, const MatmulDevice &device) {
  return serves(MatmulKernel::kBits1, format, device);
}

bool takes_bits(const MatmulPlan &plan) { return plan.kernel.starts_with("matmul_bits"); }

std::optional<MatmulPlan> plan_gated(const MatmulShape &shape, const MatmulDevice &device) {
  const MatrixLayout &layout = matrix_layout(shape.format);
  if (shape.n != 1 || !may_take_bits(shape.format, device) || !has_gated(layout)) return std::nullopt;
  if (shape.first_row % kTileRows != 0 || shape.rows % (2 * kSegmentColumns) != 0) return std::nullopt;
  const uint32_t segments = segment_count(shape.columns), blocks = tiles_of(shape) / kGatedTiles;
  uint32_t steps = 1;
  const auto warps_for = [&](uint32_t n) { return segments * (kGatedTiles / kBitStepTiles / n); };
  while (warps_for(steps) * kWarpThreads > kGatedMaxThreads && steps < kGatedSteps) steps *= 2;
  const uint32_t warps = warps_for(steps);
  if (warps * kWarpThreads > kGatedMaxThreads || blocks > device.multiprocessors) return std::nullopt;
  return MatmulPlan{.unit = unit_of(MatmulKernel::kBits1, shape.format),
                    .kernel = "matmul_bits_1_gated",
                    .grid_x = blocks,
                    .grid_y = 1,
                    .threads = warps * kWarpThreads,
                    .shared_bytes = segments * kGatedTiles * kTileRows * static_cast<uint32_t>(sizeof(float)),
                    .tiles_per_block = kGatedTiles};
}

std::vector<std::string> matmul_units(quant::Format format, const MatmulDevice &device) {
  std::vector<MatmulKernel> kernels = {MatmulKernel::kPrefill};
  if (serves(MatmulKernel::kHeld8, format, device)) kernels.push_back(MatmulKernel::kHeld8);
  if (may_take_bits(format, device)) {
    kernels.push_back(MatmulKernel::kBits1);
  } else if (serves(MatmulKernel::kOne, format, device)) {
    kernels.push_back(MatmulKernel::kOne);
  }
  std::vector<std::string> units;
  for (const MatmulKernel kernel : kernels) units.push_back(unit_of(kernel, format));
  return units;
}

std::string embedding_unit(quant::Format format) { return "embedding." + std::string(kernel_format(format)); }

}  // namespace bonsai::cuda
