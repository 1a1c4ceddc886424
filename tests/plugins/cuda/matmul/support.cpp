#include "tests/plugins/cuda/matmul/support.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace bonsai::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kMargin = 256;
constexpr std::byte kRubbish{0xA5};

// Where a block has halves, and whether the first is a float.
struct ScalePlaces {
  std::vector<size_t> halves;
  bool is_float = false;
};

ScalePlaces scale_places(Format format) {
  switch (format) {
    case Format::kTQ1_0_G128:
      return {.halves = {26}};
    case Format::kTQ1_0:
      return {.halves = {52}};
    case Format::kTQ2_0:
      return {.halves = {64}};
    case Format::kF8_E4M3:
    case Format::kF8_E5M2:
      return {.halves = {32}};
    case Format::kQ4_1:
    case Format::kQ5_1:
    case Format::kQ4_K:
    case Format::kQ5_K:
      return {.halves = {0, 2}};
    case Format::kQ2_K:
      return {.halves = {80, 82}};
    case Format::kQ3_K:
      return {.halves = {108}};
    case Format::kQ6_K:
      return {.halves = {208}};
    case Format::kQ8_K:
      return {.halves = {}, .is_float = true};
    default:
      return {.halves = {0}};
  }
}

void fill_block(Format format, std::mt19937 &random, std::byte *block) {
  const quant::FormatTraits &traits = quant::traits(format);
  std::normal_distribution<float> number;
  if (traits.block_weights == 1) {
    const float weight = number(random);
    traits.encode(&weight, block, 1);
    return;
  }
  for (uint32_t i = 0; i < traits.block_bytes; ++i) block[i] = static_cast<std::byte>(random());
  const bool is_fp8 = format == Format::kF8_E4M3 || format == Format::kF8_E5M2;
  // No infinities or NaNs: magnitudes up to 1 and 15/8.
  for (uint32_t i = 0; is_fp8 && i < 32; ++i) block[i] &= std::byte{0xBF};
  std::uniform_real_distribution<float> magnitude(1.0f / 64, 1.0f / 32);
  const ScalePlaces places = scale_places(format);
  for (const size_t at : places.halves) {
    const uint16_t half = quant::float_to_half(random() % 2 ? magnitude(random) : -magnitude(random));
    std::memcpy(block + at, &half, sizeof half);
  }
  if (places.is_float) {
    const float d = magnitude(random);
    std::memcpy(block, &d, sizeof d);
  }
}

}  // namespace

std::vector<Format> all_formats() {
  std::vector<Format> formats;
  for (const quant::FormatTraits &traits : quant::formats()) formats.push_back(traits.format);
  return formats;
}

std::string name_of(Format format) {
  std::string name;
  for (const char c : quant::traits(format).name) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
}

std::string emulated_unit(const std::string &unit) {
  const size_t dot = unit.find('.');
  if (dot == std::string::npos) return unit + ".cu";
  return unit.substr(0, dot) + ".cu BONSAI_FORMAT=" + unit.substr(dot + 1);
}

DeviceMemory::DeviceMemory(size_t bytes) : bytes_(bytes + 2 * kMargin + kAlignment, kRubbish), size_(bytes) {
  const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
  begin_ = (address + kMargin + kAlignment - 1) / kAlignment * kAlignment - address;
}

DeviceMemory::~DeviceMemory() {
  const auto is_rubbish = [](std::byte byte) { return byte == kRubbish; };
  if (bytes_.empty()) return;  // moved from
  const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(begin_),
             end = begin + static_cast<std::ptrdiff_t>(size_);
  EXPECT_TRUE(std::all_of(bytes_.begin(), begin, is_rubbish)) << "written before memory begins";
  EXPECT_TRUE(std::all_of(end, bytes_.end(), is_rubbish)) << "written past the end of memory";
}

RandomMatrix::RandomMatrix(Format format, uint64_t rows, uint64_t columns, uint32_t seed)
    : format_(format),
      rows_(rows),
      columns_(columns),
      blocks_(rows * quant::row_bytes(quant::traits(format), columns)) {
  std::mt19937 random(seed);
  const size_t block_bytes = quant::traits(format).block_bytes;
  for (size_t at = 0; at < blocks_.size(); at += block_bytes) fill_block(format, random, blocks_.data() + at);
}

std::byte *RandomMatrix::block(uint64_t row, uint64_t block) {
  const quant::FormatTraits &traits = quant::traits(format_);
  return blocks_.data() + row * quant::row_bytes(traits, columns_) + block * traits.block_bytes;
}

std::vector<float> RandomMatrix::decoded(uint64_t row) const {
  const quant::FormatTraits &traits = quant::traits(format_);
  std::vector<float> values(columns_);
  traits.decode(blocks_.data() + row * quant::row_bytes(traits, columns_), values.data(), columns_);
  return values;
}

const void *RandomMatrix::pack() {
  packed_.emplace(packed_bytes(format_, rows_, columns_));
  const uint64_t tiles = tile_count(rows_), half = tiles / 2;  // in two ranges, as an upload would
  PackArguments arguments = {.format = format_,
                             .rows = rows_,
                             .columns = columns_,
                             .source = blocks_.data(),
                             .first_tile = half,
                             .last_tile = tiles,
                             .packed = packed_->data() + half * tile_bytes()};
  pack_tiles(arguments);
  arguments.first_tile = 0;
  arguments.last_tile = half;
  arguments.packed = packed_->data();
  pack_tiles(arguments);
  return packed_->data();
}

std::vector<float> random_vectors(uint64_t n, uint64_t columns, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> number;
  std::vector<float> x(n * columns);
  for (uint64_t i = 0; i < x.size(); ++i)
    x[i] = number(random) * std::ldexp(1.0f, static_cast<int>(i / columns * 5 % 17));
  return x;
}

Activations pack_activations(const ActivationForms &forms, const std::vector<float> &x, uint64_t columns,
                             const emulation::Order &order) {
  const uint64_t n = x.size() / columns;
  Activations activations = {DeviceMemory(packed_activation_bytes(forms, n, columns)), {}};
  activations.packed = place_activations(forms, activations.memory.data(), n, columns);
  const ActivationPlan plan = plan_activations(n, columns, kTestDevice.multiprocessors);
  const QuantizeArguments arguments = {.x = x.data(),
                                       .picked = nullptr,
                                       .weight = nullptr,
                                       .y = nullptr,
                                       .packed = activations.packed,
                                       .x_stride = columns,
                                       .columns = static_cast<uint32_t>(columns),
                                       .chunk_columns = plan.chunk_columns,
                                       .eps = 0};
  emulation::launch({"activations.cu", "quantize", order}, {static_cast<unsigned>(n), plan.chunks}, kActivationThreads,
                    0, &arguments);
  return activations;
}

std::vector<double> unpacked(const PackedActivations &packed, Packing packing, uint64_t n, uint64_t columns) {
  const uint64_t padded = padded_columns(columns);
  std::vector<double> x;
  for (uint64_t token = 0; token < n; ++token) {
    for (uint64_t column = 0; column < columns; ++column) {
      const uint64_t at =
          packed_place(packed.together_log2, static_cast<uint32_t>(padded), token, static_cast<uint32_t>(column));
      if (packing == Packing::kCodesBy128) {
        const GroupRecord &record = packed.groups_128[column / 128 * packed.stride + token];
        x.push_back(static_cast<double>(packed.codes_by_128[at]) * static_cast<double>(record.scale));
      } else if (packing == Packing::kCodesBy32) {
        const GroupRecord &record = packed.groups_32[column / 32 * packed.stride + token];
        x.push_back(static_cast<double>(packed.codes_by_32[at]) * static_cast<double>(record.scale));
      } else {
        const double sum = static_cast<double>(quant::half_to_float(packed.high[at])) +
                           static_cast<double>(quant::half_to_float(packed.low[at]));
        x.push_back(sum * static_cast<double>(packed.row_scales[token]));
      }
    }
  }
  return x;
}

void run_matmul(const MatmulPlan &plan, RandomMatrix &matrix, const void *packed, const Activations &activations,
                uint64_t n, const Product &product, float *y, const emulation::Order &order) {
  const MatmulArguments arguments = {.weights = packed,
                                     .tile_bytes = matrix.tile_bytes(),
                                     .activations = activations.packed,
                                     .bias = product.bias,
                                     .y = y,
                                     .y_stride = product.y_stride,
                                     .first_row = static_cast<uint32_t>(product.first_row),
                                     .rows = static_cast<uint32_t>(product.rows),
                                     .segments = segment_count(matrix.columns()),
                                     .n = static_cast<uint32_t>(n),
                                     .tiles_per_block = plan.tiles_per_block,
                                     .add = product.add};
  emulation::launch({emulated_unit(plan.unit), plan.kernel, order}, {plan.grid_x, plan.grid_y}, plan.threads,
                    plan.shared_bytes, &arguments);
}

std::vector<float> multiply(const MatmulPlan &plan, RandomMatrix &matrix, const std::vector<float> &x,
                            const emulation::Order &order) {
  const uint64_t n = x.size() / matrix.columns();
  const Activations activations =
      pack_activations(ActivationForms::of(matrix.format(), takes_bits(plan)), x, matrix.columns(), order);
  std::vector<float> y(n * matrix.rows(), std::nanf(""));
  run_matmul(plan, matrix, matrix.pack(), activations, n, {.rows = matrix.rows(), .y_stride = matrix.rows()}, y.data(),
             order);
  return y;
}

uint64_t tokens_of_block(const MatmulPlan &plan) {
  if (plan.kernel == "matmul_prefill") return kPrefillTokens;
  if (plan.kernel == "matmul_one") return 1;
  if (takes_bits(plan)) return static_cast<uint64_t>(plan.kernel[std::strlen("matmul_bits_")] - '0');
  return plan.kernel.ends_with("_32") ? 32 : plan.kernel.ends_with("_16") ? 16 : kDecodeTokens;
}

MatmulPlan with_tiles(MatmulPlan plan, const MatmulShape &shape, uint32_t tiles_of_block) {
  const uint32_t segments = segment_count(shape.columns);
  if (plan.kernel.starts_with("matmul_held")) {
    if (segments > plan.threads / 32) {
      const auto tile_bytes = held_tile_bytes(static_cast<uint32_t>(tokens_of_block(plan)));
      plan.shared_bytes += tiles_of_block * tile_bytes - plan.tiles_per_block * tile_bytes;
    }
  } else {
    plan.shared_bytes = plan.shared_bytes / plan.tiles_per_block * tiles_of_block;
  }
  plan.tiles_per_block = tiles_of_block;
  plan.grid_x = ceil_divide(tiles_of(shape), tiles_of_block);
  return plan;
}

std::vector<MatmulPlan> all_plans(Format format, uint64_t rows, uint64_t columns, uint64_t n) {
  std::vector<MatmulPlan> plans;
  const MatmulShape shape = {format, 0, rows, columns, n};
  for (const uint32_t multiprocessors : {1u, 132u}) {
    const MatmulDevice device = {multiprocessors, true};
    for (const MatmulKernel kernel : kMatmulKernels) {
      if (serves(kernel, format, device)) plans.push_back(plan_by(kernel, shape, device));
    }
  }
  // A last block with fewer tiles than the others, and a block with all of them.
  for (const MatmulPlan &plan : std::vector<MatmulPlan>(plans)) {
    if (plan.kernel == "matmul_prefill" || plan.tiles_per_block > 1) continue;
    plans.push_back(with_tiles(plan, shape, 2));
    plans.push_back(with_tiles(plan, shape, tiles_of(shape)));
  }
  return plans;
}

}  // namespace bonsai::cuda
