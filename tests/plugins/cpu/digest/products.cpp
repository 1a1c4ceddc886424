// Packing, quantisation and matrix products, in every format.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include "core/quant/format.h"
#include "tests/plugins/cpu/digest/digest.h"

namespace bonsai::cpu::digest {
namespace {

using quant::Format;

// What a matrix is filled with.
enum class Weights {
  kRandom,  // encoded
  kTiny,    // encoded; products are subnormal
  kFlat,    // encoded, all of one magnitude: the largest codes
  kBytes,   // random bytes: all codes and every kind of scale
};
constexpr Weights kAllWeights[] = {Weights::kRandom, Weights::kTiny, Weights::kFlat, Weights::kBytes};

// A matrix in the file's blocks at an odd address, and packed.
struct Matrix {
  std::vector<std::byte> file;
  AlignedBytes packed;
  PackedMatrix view;
};

float weight(Weights kind, Random &random) {
  switch (kind) {
    case Weights::kFlat:
      return random.bits() % 8 == 0 ? -0.5f : 0.5f;
    case Weights::kTiny:
      return random.value(-20);
    default:
      return random.value(-4);
  }
}

Matrix make_matrix(Format format, uint64_t rows, uint64_t columns, Weights kind, Random &random) {
  const quant::FormatTraits &traits = quant::traits(format);
  const size_t file_bytes = rows * quant::row_bytes(traits, columns);
  Matrix matrix = {.file = std::vector<std::byte>(1 + file_bytes),
                   .packed = AlignedBytes(is_repacked(format) ? packed_bytes(format, rows, columns) : 0),
                   .view = {format, rows, columns, nullptr}};
  std::byte *file = matrix.file.data() + 1;
  if (kind == Weights::kBytes) {
    for (size_t i = 0; i < file_bytes; ++i) file[i] = static_cast<std::byte>(random.bits());
  } else {
    std::vector<float> weights(rows * columns);
    for (float &one : weights) one = weight(kind, random);
    traits.encode(weights.data(), file, weights.size());
  }
  if (!is_repacked(format)) {
    matrix.view.data = file;
  } else {
    pack_tiles({format, rows, columns, file, matrix.packed.data(), 0, tile_count(rows)});
    matrix.view.data = matrix.packed.data();
  }
  return matrix;
}

// The same matrix, packed in another way.
Matrix repack(const Matrix &matrix, Packing packing) {
  const Format format = matrix.view.format;
  const uint64_t rows = matrix.view.rows, columns = matrix.view.columns;
  Matrix other = {.file = matrix.file,
                  .packed = AlignedBytes(packed_bytes(format, rows, columns, packing)),
                  .view = {format, rows, columns, nullptr, packing}};
  pack_tiles({format, rows, columns, other.file.data() + 1, other.packed.data(), 0, tile_count(rows), packing});
  other.view.data = other.packed.data();
  return other;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Vectors of every kind: usual ones, subnormal products, overflow, largest codes, halves between codes, infinity, NaN,
// the smallest that have codes, groups of different magnitudes.
constexpr uint32_t kVectors = 10;

std::vector<float> make_vectors(uint64_t columns, Random &random) {
  std::vector<float> x(kVectors * columns);
  for (uint64_t i = 0; i < columns; ++i) {
    const auto at = [&](uint32_t vector) -> float & { return x[vector * columns + i]; };
    at(0) = random.value(0);
    at(1) = random.value(-112);
    at(2) = random.value(123);
    at(3) = 127.0f;
    at(4) = i % 2 ? 127.0f : -127.0f;
    at(5) = i % 32 == 0 ? 127.0f : static_cast<float>(static_cast<int>(random.bits() % 254) - 127) + 0.5f;
    at(6) = i == columns / 2 ? kInfinity : random.value(0);
    at(7) = i == columns / 3 ? -kNaN : random.value(0);
    at(8) = i % 64 < 32 ? random.value(-130) : random.value(i % 1024 < 512 ? -104 : -118);
    at(9) = random.value(-static_cast<int>(i / 32 * 5 % 16));
  }
  return x;
}

// Quantised activations, with the tables that the tier may want.
struct Quantized {
  AlignedBytes rows;
  std::vector<int16_t> tables;
};

Quantized quantize(const KernelTable &kernels, ActivationLayout layout, std::span<const float> x, uint32_t n,
                   bool looks_up = false) {
  const uint64_t columns = x.size() / n;
  Quantized quantized = {.rows = AlignedBytes(n * quantized_row_bytes(layout, columns)),
                         .tables = std::vector<int16_t>(
                             looks_up ? n * columns / kActivationGroup * kernels.table_elements(layout.tables) : 0)};
  kernels.quantize({.x = x.data(),
                    .x_stride = columns,
                    .n = n,
                    .columns = columns,
                    .layout = layout,
                    .begin = 0,
                    .end = columns,
                    .rows = quantized.rows.data(),
                    .tables = looks_up ? quantized.tables.data() : nullptr});
  return quantized;
}

struct RowRange {
  uint64_t first, last;
};

void add_product(Results &results, const KernelTable &kernels, MatmulArgs args) {
  const uint64_t width = args.last_row - args.first_row;
  std::vector<float> y(args.n * width, -1234.5f);
  args.y = y.data();
  args.y_stride = width;
  struct alignas(64) Line {
    std::byte of[64];
  };
  std::vector<Line> scratch(kernels.scratch_bytes / sizeof(Line));
  args.scratch = scratch.empty() ? nullptr : scratch[0].of;
  const PanelKind *kind =
      kernels.panels.kind_of && !args.tables ? kernels.panels.kind_of(*args.matrix, args.n) : nullptr;
  std::vector<Line> panels(kind ? panels_bytes(*kind, args.n, args.matrix->columns) / sizeof(Line) : 0);
  if (kind) {
    args.panels = panels[0].of;
    kind->fill({.quantized_rows = args.quantized_rows,
                .x = args.x,
                .x_stride = args.x_stride,
                .n = args.n,
                .columns = args.matrix->columns,
                .begin = 0,
                .end = panel_steps(*kind, args.n, args.matrix->columns),
                .panels = panels[0].of});
  }
  kernels.matmul(args);
  for (const float value : y) results.add(value);
}

void add_products(Results &results, const KernelTable &kernels, const Matrix &matrix, RowRange rows,
                  std::span<const float> x) {
  const uint32_t n = static_cast<uint32_t>(x.size() / matrix.view.columns);
  MatmulArgs args = {.matrix = &matrix.view,
                     .first_row = rows.first,
                     .last_row = rows.last,
                     .n = n,
                     .x = x.data(),
                     .x_stride = matrix.view.columns,
                     .quantized_rows = nullptr,
                     .tables = nullptr,
                     .y = nullptr,
                     .y_stride = 0};
  const ActivationLayout layout = activation_layout(matrix.view);
  if (layout.block == 0) return add_product(results, kernels, args);
  Quantized quantized = quantize(kernels, layout, x, n);
  args.quantized_rows = quantized.rows.data();
  add_product(results, kernels, args);
  // Once more with tables; a tier without them repeats itself, so that all give equally many results.
  std::optional<Matrix> for_tables;
  if (kernels.table_elements(layout.tables) > 0) {
    args.matrix = &for_tables.emplace(repack(matrix, kernels.packing_of(matrix.view.format))).view;
    quantized = quantize(kernels, layout, x, n, true);
    args.quantized_rows = quantized.rows.data();
    args.tables = quantized.tables.data();
  }
  add_product(results, kernels, args);
}

std::vector<uint64_t> some_columns(Format format) {
  const uint64_t block = quant::traits(format).block_weights;
  if (block == 1) return {1, 7, 16, 33, 83};
  return {block, 3 * block};
}

Results run_matmul(const KernelTable &kernels, Format format) {
  Results results;
  Random random(static_cast<uint32_t>(format) + 1);
  constexpr uint64_t kRowsForMany = 37;
  for (const Weights kind : kAllWeights) {
    for (const uint64_t rows : {uint64_t{1}, kRowsForMany, uint64_t{150}}) {
      for (const uint64_t columns : some_columns(format)) {
        const Matrix matrix = make_matrix(format, rows, columns, kind, random);
        const std::vector<float> x = make_vectors(columns, random);
        for (const uint32_t n : {1u, 2u, 3u, 5u, kVectors}) {
          add_products(results, kernels, matrix, {0, rows}, std::span(x).last(n * columns));
          add_products(results, kernels, matrix, {rows / 3, rows - rows / 5}, std::span(x).first(n * columns));
        }
        if (rows != kRowsForMany) continue;
        // As many as every tier goes its own way with.
        std::vector<float> many;
        for (int i = 0; i < 5; ++i) many.insert(many.end(), x.begin(), x.end());
        add_products(results, kernels, matrix, {0, rows}, many);
      }
    }
  }
  return results;
}

// The tiers share packing and decoding: these are for the comparison of architectures.
Results run_packing(const KernelTable &, Format format) {
  Results results;
  Random random(static_cast<uint32_t>(format) + 101);
  for (const Weights kind : kAllWeights) {
    const uint64_t columns = some_columns(format).back();
    Matrix matrix = make_matrix(format, 37, columns, kind, random);
    results.add(std::span<const std::byte>(matrix.file).subspan(1));
    results.add(matrix.packed.bytes());
    std::vector<float> values(columns);
    for (uint64_t row = 0; row < 37; ++row) {
      decode_row(matrix.view, row, values);
      for (const float value : values) results.add_any_nan(value);
    }
  }
  return results;
}

Results run_quantize(const KernelTable &kernels, Format format) {
  Results results;
  Random random(static_cast<uint32_t>(format) + 201);
  const ActivationLayout layout = activation_layout(format);
  for (const uint64_t blocks : {1u, 2u, 7u, 2048 / layout.block + 3}) {
    const std::vector<float> x = make_vectors(blocks * layout.block, random);
    results.add(quantize(kernels, layout, x, kVectors).rows.bytes());
  }
  return results;
}

}  // namespace

std::vector<Section> product_sections() {
  std::vector<Section> sections;
  for (const quant::FormatTraits &traits : quant::formats()) {
    if (!has_kernels(traits.format)) continue;
    const std::string name(traits.name);
    sections.push_back({"packing " + name, run_packing, traits.format});
    if (activation_layout(traits.format).block > 0)
      sections.push_back({"quantize for " + name, run_quantize, traits.format});
    sections.push_back({"matmul " + name, run_matmul, traits.format});
  }
  return sections;
}

}  // namespace bonsai::cpu::digest
