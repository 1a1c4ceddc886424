// What the kernel tests share: the tiers that this machine can test, random matrices, and the pinned arithmetic of
// The arithmetic once more in plain scalar code, sharing nothing with the kernels.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/simd/detect.h"
#include "tests/plugins/cpu/emulation.h"
#if defined(__x86_64__)
#include "tests/plugins/cpu/kernels_avx2_vnni_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_amx_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_panels32_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_panels_emulated.h"
#endif

namespace bonsai::cpu {

using quant::Format;

// The tiers that the CPU runs, and over SIMDe, which AVX2 is enough for, those with AVX-512 and AVX-VNNI that it does
// not.
inline std::vector<const KernelTable *> testable_kernels() {
  std::vector<const KernelTable *> tables = runnable_kernels();
#if defined(__x86_64__)
  const auto emulate = [&tables](bool is_native, const KernelTable &table) {
    if (cpu_has_avx2() && is_to_be_emulated(is_native)) tables.push_back(&table);
  };
  emulate(cpu_has_avx512_amx(), avx512_amx_emulated_kernels());
  emulate(cpu_has_avx512(), avx512_panels_emulated_kernels());
  emulate(cpu_has_avx512_bmi2(), avx512_panels32_emulated_kernels());
  emulate(cpu_has_avx512(), avx512_emulated_kernels());
  emulate(cpu_has_avx2_vnni(), avx2_vnni_emulated_kernels());
#endif
  return tables;
}

// A GoogleTest-safe name: letters and digits.
inline std::string name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c))) name += c;
  }
  return name;
}

struct Free {
  void operator()(std::byte *memory) const { std::free(memory); }
};

// Bytes on a 64-byte boundary.
inline std::unique_ptr<std::byte[], Free> aligned_bytes(size_t size) {
  return std::unique_ptr<std::byte[], Free>(static_cast<std::byte *>(std::aligned_alloc(64, (size + 63) / 64 * 64)));
}

// A format, and how its matrices are packed.
struct PackedFormat {
  Format format;
  Packing packing;
  PackedFormat(Format format, Packing packing = Packing::kUsual) : format(format), packing(packing) {}
};

// As a tier wants it.
inline PackedFormat packed_for(const KernelTable &kernels, Format format) {
  return {format, kernels.packing_of(format)};
}

// A matrix in the file's blocks at an odd address, and packed.
class Matrix {
 public:
  Matrix(PackedFormat which, uint64_t rows, uint64_t columns)
      : traits_(quant::traits(which.format)),
        packing_(which.packing),
        rows_(rows),
        columns_(columns),
        file_(1 + rows * row_bytes()) {}

  std::byte *block(uint64_t row, uint64_t block) {
    return file_.data() + 1 + row * row_bytes() + block * traits_.block_bytes;
  }
  const std::byte *row(uint64_t row) const { return file_.data() + 1 + row * row_bytes(); }
  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }
  uint64_t blocks() const { return columns_ / traits_.block_weights; }
  size_t row_bytes() const { return quant::row_bytes(traits_, columns_); }
  const quant::FormatTraits &traits() const { return traits_; }

  // Call after the blocks are filled. For Packing::kTrits and kTernary, codes of 3 become 2.
  PackedMatrix pack() {
    if (!is_repacked(traits_.format)) return {traits_.format, rows_, columns_, row(0)};
    if (packing_ == Packing::kTrits || packing_ == Packing::kTernary) make_ternary();
    const size_t bytes = packed_bytes(traits_.format, rows_, columns_, packing_);
    packed_ = aligned_bytes(bytes);
    std::memset(packed_.get(), 0xA5, bytes);
    pack_tiles({traits_.format, rows_, columns_, row(0), packed_.get(), 0, tile_count(rows_), packing_});
    return {traits_.format, rows_, columns_, packed_.get(), packing_};
  }

 private:
  void make_ternary();

  const quant::FormatTraits &traits_;
  Packing packing_;
  uint64_t rows_;
  uint64_t columns_;
  std::vector<std::byte> file_;
  std::unique_ptr<std::byte[], Free> packed_;
};

// Where a block of integer codes has its scales: offsets in bytes.
struct ScalePlaces {
  size_t d = 0;
  std::optional<size_t> minimum = {};  // m or dmin, a half
  bool d_is_float = false;
};

inline ScalePlaces scale_places(Format format) {
  switch (format) {
    case Format::kTQ1_0_G128:
      return {.d = 26};
    case Format::kTQ1_0:
      return {.d = 52};
    case Format::kTQ2_0:
      return {.d = 64};
    case Format::kQ4_1:
    case Format::kQ5_1:
    case Format::kQ4_K:
    case Format::kQ5_K:
      return {.d = 0, .minimum = 2};
    case Format::kQ2_K:
      return {.d = 80, .minimum = 82};
    case Format::kQ3_K:
      return {.d = 108};
    case Format::kQ6_K:
      return {.d = 208};
    case Format::kQ8_K:
      return {.d = 0, .d_is_float = true};
    default:
      return {};
  }
}

inline void Matrix::make_ternary() {
  if (!traits_.count_code3) return;
  const size_t d = scale_places(traits_.format).d;
  for (uint64_t i = 0; i < rows_ * blocks(); ++i) {
    std::byte *bytes = block(0, i);
    for (size_t at = 0; at < traits_.block_bytes; ++at) {
      const bool is_scale = at == d || at == d + 1;
      if (!is_scale) bytes[at] ^= bytes[at] & (bytes[at] >> 1) & std::byte{0x55};
    }
  }
}

inline void store_half(std::byte *to, uint16_t half) { std::memcpy(to, &half, sizeof half); }

// d from the bits of a half.
inline void set_d(Format format, std::byte *block, uint16_t half) {
  const ScalePlaces places = scale_places(format);
  if (!places.d_is_float) return store_half(block + places.d, half);
  const float d = quant::half_to_float(half);
  std::memcpy(block + places.d, &d, sizeof d);
}

// m or dmin, if the format has one.
inline void set_minimum(Format format, std::byte *block, uint16_t half) {
  if (const auto at = scale_places(format).minimum) store_half(block + *at, half);
}

inline float get_d(Format format, const std::byte *block) {
  const ScalePlaces places = scale_places(format);
  if (places.d_is_float) {
    float d;
    std::memcpy(&d, block + places.d, sizeof d);
    return d;
  }
  uint16_t half;
  std::memcpy(&half, block + places.d, sizeof half);
  return quant::half_to_float(half);
}

// Whether activations are quantised for it.
inline bool has_integer_codes(Format format) { return activation_layout(format).block > 0; }

// Random codes of every value, random scales; floats from a normal distribution.
inline void fill_random(Matrix &matrix, std::mt19937 &random) {
  std::normal_distribution<float> normal(0.0f, 0.05f);
  const quant::FormatTraits &traits = matrix.traits();
  for (uint64_t row = 0; row < matrix.rows(); ++row) {
    for (uint64_t i = 0; i < matrix.blocks(); ++i) {
      std::byte *block = matrix.block(row, i);
      if (has_integer_codes(traits.format)) {
        for (uint32_t byte = 0; byte < traits.block_bytes; ++byte) block[byte] = static_cast<std::byte>(random());
        set_d(traits.format, block, quant::float_to_half(normal(random)));
        set_minimum(traits.format, block, quant::float_to_half(normal(random)));
      } else {
        std::vector<float> values(traits.block_weights);
        for (float &value : values) value = normal(random);
        traits.encode(values.data(), block, values.size());
      }
    }
  }
}

inline std::vector<float> random_vectors(size_t size, std::mt19937 &random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float &value : values) value = normal(random) * (random() % 8 == 0 ? 20.0f : 1.0f);
  return values;
}

// One block of activations as kernels.h pins it.
struct QuantizedBlock {
  std::vector<int> codes;
  std::vector<int> multipliers;  // of groups
  float scale = 0;
};

inline float largest_magnitude(std::span<const float> x) {
  float amax = 0;
  for (const float value : x) amax = std::max(amax, std::abs(value));
  return amax;
}

inline QuantizedBlock expected_block(std::span<const float> x, uint32_t most_multiplier) {
  const size_t groups = x.size() / kActivationGroup;
  QuantizedBlock block{.codes = std::vector<int>(x.size()), .multipliers = std::vector<int>(groups)};
  if (!std::all_of(x.begin(), x.end(), [](float value) { return std::isfinite(value); })) {
    block.scale = std::numeric_limits<float>::quiet_NaN();
    return block;
  }
  const float amax = largest_magnitude(x);
  if (amax < (groups == 1 ? 0x1p-118f : 0x1p-104f)) return block;
  const auto most = static_cast<float>(most_multiplier);
  block.scale = groups == 1 ? amax / 127.0f : amax / (127.0f * most);
  for (size_t group = 0; group < groups; ++group) {
    const std::span<const float> values = x.subspan(group * kActivationGroup, kActivationGroup);
    float inverse = 127.0f / amax;
    block.multipliers[group] = 1;
    if (groups > 1) {
      const float m = std::min(most, std::ceil(largest_magnitude(values) * (most / amax)));
      block.multipliers[group] = static_cast<int>(m);
      inverse = m > 0 ? 1.0f / (block.scale * m) : 0.0f;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      block.codes[group * kActivationGroup + i] = static_cast<int>(std::nearbyint(values[i] * inverse));
    }
  }
  return block;
}

// The activations of a format: columns that share a float scale, and the largest integer of a group in them.
struct ActivationBlock {
  size_t columns;
  uint32_t most_multiplier;
};
inline ActivationBlock activation_block(Format format) {
  const size_t columns = quant::traits(format).block_weights;
  if (columns == 32) return {columns, 1};
  if (format == Format::kQ8_K) return {columns, 255};
  if (format == Format::kIQ4_XS) return {columns, 16};
  return {columns, format >= Format::kQ2_K && format <= Format::kQ6_K ? 16u : 1023u};
}

// sum of a weight's integer times the activation's, over a block, with the weights that it has for these d and minimum.
inline int64_t integer_dot(const quant::FormatTraits &traits, const std::byte *block, uint16_t d, uint16_t minimum,
                           const QuantizedBlock &x) {
  std::vector<std::byte> changed(block, block + traits.block_bytes);
  set_d(traits.format, changed.data(), d);
  set_minimum(traits.format, changed.data(), minimum);
  std::vector<float> weights(traits.block_weights);
  traits.decode(changed.data(), weights.data(), weights.size());
  int64_t sum = 0;
  for (size_t i = 0; i < x.codes.size(); ++i) {
    sum += static_cast<int64_t>(weights[i]) * x.codes[i] * x.multipliers[i / kActivationGroup];
  }
  return sum;
}

// One element of y = W x for a repacked format, by kernels.h.
inline float expected_codes_dot(const quant::FormatTraits &traits, const std::byte *row, std::span<const float> x) {
  constexpr uint16_t kZero = 0, kOne = 0x3C00;
  float y = 0;
  const ActivationBlock activations = activation_block(traits.format);
  for (size_t first = 0; first < x.size(); first += activations.columns, row += traits.block_bytes) {
    const QuantizedBlock block = expected_block(x.subspan(first, activations.columns), activations.most_multiplier);
    const int64_t isum = integer_dot(traits, row, kOne, kZero, block);
    y = std::fma(static_cast<float>(isum), get_d(traits.format, row) * block.scale, y);
    if (const auto at = scale_places(traits.format).minimum) {
      uint16_t minimum;
      std::memcpy(&minimum, row + *at, sizeof minimum);
      const int64_t msum = integer_dot(traits, row, kZero, kOne, block);
      y = std::fma(static_cast<float>(msum), quant::half_to_float(minimum) * block.scale, y);
    }
  }
  return y;
}

// The same for a float format: 16 lanes and a tree.
inline float expected_float_dot(const quant::FormatTraits &traits, const std::byte *row, std::span<const float> x) {
  std::vector<float> weights(x.size());
  traits.decode(row, weights.data(), weights.size());
  float lanes[16] = {};
  for (size_t i = 0; i < x.size(); ++i) lanes[i % 16] = std::fma(weights[i], x[i], lanes[i % 16]);
  for (size_t half = 8; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

inline float half_at(const std::byte *at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return quant::half_to_float(half);
}

// The same for FP8: a block's codes in order, then its scale.
inline float expected_f8_dot(const quant::FormatTraits &traits, const std::byte *row, std::span<const float> x) {
  const int too_small = traits.format == Format::kF8_E4M3 ? 120 : 112;
  uint32_t most = 0;
  for (const float value : x) most = std::max(most, std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu);
  const int k = 227 - std::max(1, static_cast<int>(most >> 23));
  const auto times_power = [](float value, int e) { return std::ldexp(std::ldexp(value, e >> 1), e - (e >> 1)); };
  float y = 0;
  for (size_t first = 0; first < x.size(); first += 32, row += traits.block_bytes) {
    std::byte codes[34];
    std::memcpy(codes, row, sizeof codes);
    const uint16_t one = 0x3C00;
    std::memcpy(codes + 32, &one, sizeof one);
    float weights[32], scale = half_at(row + 32), sum = 0;
    traits.decode(codes, weights, 32);
    for (size_t i = 0; i < 32; ++i) {
      if (!std::isfinite(weights[i])) scale = std::numeric_limits<float>::quiet_NaN();
      sum = std::fma(std::ldexp(weights[i], -too_small), times_power(x[first + i], k), sum);
    }
    y = std::fma(sum, scale, y);
  }
  return times_power(y, too_small - k);
}

inline bool is_f8(Format format) { return format == Format::kF8_E4M3 || format == Format::kF8_E5M2; }

inline float expected_dot(const quant::FormatTraits &traits, const std::byte *row, std::span<const float> x) {
  if (is_f8(traits.format)) return expected_f8_dot(traits, row, x);
  return has_integer_codes(traits.format) ? expected_codes_dot(traits, row, x) : expected_float_dot(traits, row, x);
}

// Bits, with every NaN alike: what the kernels promise.
inline uint32_t pinned_bits(float value) { return std::isnan(value) ? 0x7FC00000u : std::bit_cast<uint32_t>(value); }

struct Rows {
  uint64_t first;
  uint64_t last;
};

// Quantises all columns of n vectors.
inline void quantize_rows(const KernelTable &kernels, std::span<const float> x, uint32_t n, ActivationLayout layout,
                          std::byte *rows, int16_t *tables = nullptr) {
  const uint64_t columns = x.size() / n;
  kernels.quantize({.x = x.data(),
                    .x_stride = columns,
                    .n = n,
                    .columns = columns,
                    .layout = layout,
                    .begin = 0,
                    .end = columns,
                    .rows = rows,
                    .tables = tables});
}

// The vectors of a prepared multiplication in panels, if the kernels want that.
inline auto panels_of(const KernelTable &kernels, const MatmulArgs &args) {
  const PanelKernel &kernel = kernels.panels;
  const PanelKind *kind = kernel.kind_of && !args.tables ? kernel.kind_of(*args.matrix, args.n) : nullptr;
  if (!kind) return decltype(aligned_bytes(0))(nullptr);
  const uint64_t columns = args.matrix->columns, bytes = panels_bytes(*kind, args.n, columns);
  EXPECT_LE(bytes, panels_room(kernel, args.n, columns));
  auto panels = aligned_bytes(bytes);
  std::memset(panels.get(), 0xA5, bytes);
  kind->fill({.quantized_rows = args.quantized_rows,
              .x = args.x,
              .x_stride = args.x_stride,
              .n = args.n,
              .columns = columns,
              .begin = 0,
              .end = panel_steps(*kind, args.n, columns),
              .panels = panels.get()});
  return panels;
}

// Runs a prepared multiplication; y (n, width), with nothing written beside it.
inline std::vector<float> results_once(const KernelTable &kernels, MatmulArgs args, bool has_scratch = true) {
  constexpr float kGuard = -1234.5f;
  const uint64_t width = args.last_row - args.first_row;
  std::vector<float> y(args.n * (width + 1), kGuard);
  args.y = y.data();
  args.y_stride = width + 1;
  const size_t scratch_bytes = has_scratch ? kernels.scratch_bytes : 0;
  const auto scratch = aligned_bytes(scratch_bytes);
  if (scratch_bytes > 0) std::memset(scratch.get(), 0xA5, scratch_bytes);
  args.scratch = scratch_bytes > 0 ? scratch.get() : nullptr;
  const auto panels = panels_of(kernels, args);
  args.panels = has_scratch ? panels.get() : nullptr;
  kernels.matmul(args);
  std::vector<float> result;
  for (uint32_t i = 0; i < args.n; ++i) {
    result.insert(result.end(), y.begin() + i * (width + 1), y.begin() + i * (width + 1) + width);
    EXPECT_EQ(y[i * (width + 1) + width], kGuard) << "wrote past the row of vector " << i;
  }
  return result;
}

// Vectors up to which kernels ask for weights in different ways; of FP8 any number.
constexpr uint32_t kMostAskedFor = 9;

// The same however weights are asked for; and without scratch, where it may be missing.
inline std::vector<float> results_of(const KernelTable &kernels, MatmulArgs args) {
  const std::vector<float> results = results_once(kernels, args);
  if (kernels.scratch_bytes > 0 && (args.tables || args.matrix->packing != Packing::kTrits)) {
    const std::vector<float> without = results_once(kernels, args, false);
    EXPECT_EQ(std::memcmp(results.data(), without.data(), results.size() * sizeof(float)), 0)
        << "results depend on scratch";
  }
  if (args.n > kMostAskedFor && !is_f8(args.matrix->format)) return results;
  for (const Prefetch how : {Prefetch::kFirstLevel, Prefetch::kSecondLevelLate, Prefetch::kSecondLevelTwoStreams}) {
    args.prefetch = how;
    const std::vector<float> again = results_once(kernels, args);
    EXPECT_EQ(std::memcmp(results.data(), again.data(), results.size() * sizeof(float)), 0)
        << "results depend on how weights are asked for";
  }
  return results;
}

// The same product, prepared without tables, of vectors abreast.
inline std::vector<float> results_abreast(const KernelTable &kernels, const MatmulArgs &args) {
  constexpr float kGuard = -1234.5f;
  const uint64_t width = args.last_row - args.first_row;
  std::vector<float> y(args.n * (width + 1), kGuard);
  const auto scratch = aligned_bytes(kAbreastScratchBytes);
  std::memset(scratch.get(), 0xA5, kAbreastScratchBytes);
  const AbreastRows rows = {args.matrix, args.first_row, args.last_row, y.data()};
  kernels.abreast.multiply({.rows = {&rows, 1},
                            .n = args.n,
                            .quantized_rows = args.quantized_rows,
                            .y_stride = width + 1,
                            .scratch = scratch.get()});
  std::vector<float> result;
  for (uint32_t i = 0; i < args.n; ++i) {
    result.insert(result.end(), y.begin() + i * (width + 1), y.begin() + i * (width + 1) + width);
    EXPECT_EQ(y[i * (width + 1) + width], kGuard) << "wrote past the row of vector " << i;
  }
  return result;
}

// Runs a tier on rows [first, last) of a matrix: (n, last - first). Where the tier can also look sums up in tables, or
// take vectors abreast, it does, with the same bytes. `then`: what is said to be read after the matrix.
inline std::vector<float> run_matmul(const KernelTable &kernels, const PackedMatrix &matrix, Rows rows,
                                     std::span<const float> x, ReadingPlace then = {}) {
  const uint64_t columns = matrix.columns;
  const uint32_t n = static_cast<uint32_t>(x.size() / columns);
  MatmulArgs args = {.matrix = &matrix,
                     .first_row = rows.first,
                     .last_row = rows.last,
                     .n = n,
                     .x = x.data(),
                     .x_stride = columns,
                     .quantized_rows = nullptr,
                     .tables = nullptr,
                     .y = nullptr,
                     .y_stride = 0,
                     .then = then};
  const ActivationLayout layout = activation_layout(matrix);
  if (layout.block == 0) return results_of(kernels, args);
  const auto quantized = aligned_bytes(n * quantized_row_bytes(layout, columns));
  quantize_rows(kernels, x, n, layout, quantized.get());
  args.quantized_rows = quantized.get();
  const std::vector<float> abreast =
      kernels.takes_abreast(matrix) ? results_abreast(kernels, args) : std::vector<float>();
  const auto expect_same_abreast = [&](const std::vector<float> &results) {
    const bool is_same = abreast.empty() || std::memcmp(abreast.data(), results.data(), results.size() * 4) == 0;
    EXPECT_TRUE(is_same) << "vectors abreast give other bytes";
  };
  const bool has_codes = matrix.packing == Packing::kUsual || matrix.packing == Packing::kTernary;
  const bool multiplies = has_codes || n > kernels.most_looked_up(layout.tables);
  const std::vector<float> multiplied = multiplies ? results_of(kernels, args) : std::vector<float>();
  const bool looks_up =
      kernels.table_elements(layout.tables) > 0 && matrix.packing == kernels.packing_of(matrix.format);
  if (!looks_up) {
    expect_same_abreast(multiplied);
    return multiplied;
  }
  std::vector<int16_t> tables(n * columns / kActivationGroup * kernels.table_elements(layout.tables));
  const auto rows_for_tables = aligned_bytes(n * quantized_row_bytes(layout, columns));
  quantize_rows(kernels, x, n, layout, rows_for_tables.get(), tables.data());
  args.quantized_rows = rows_for_tables.get();
  args.tables = tables.data();
  const std::vector<float> looked_up = results_of(kernels, args);
  expect_same_abreast(looked_up);
  if (!multiplies) return looked_up;
  EXPECT_EQ(std::memcmp(multiplied.data(), looked_up.data(), multiplied.size() * sizeof(float)), 0)
      << "looking sums up gives other bytes than multiplying";
  return looked_up;
}

inline ::testing::AssertionResult same_bytes(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(expected[i])) {
      return ::testing::AssertionFailure() << "element " << i << ": " << actual[i] << ", expected " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace bonsai::cpu
