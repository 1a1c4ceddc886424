#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "core/quant/format.h"
#include "host/bench/work.h"
#include "plugins/cpu/kernels/kernels.h"
#include "tools/bench/activations.h"
#include "tools/bench/cases.h"
#include "tools/bench/memory.h"
#include "tools/synth/random_weights.h"

namespace bonsai::kernel_bench {
namespace {

using cpu::PackedMatrix;
using quant::Format;

struct Shape {
  uint64_t rows, columns;
};

constexpr Shape kModelShapes[] = {{2048, 2048}, {6144, 2048}, {2048, 6144}};  // Bonsai-1.7B: q and o, gate and up, down
constexpr uint32_t kVectors[] = {1, 8, 32, 128};
constexpr uint32_t kMostVectors = 128;
constexpr uint32_t kPromptVectors = 8;  // from here on arithmetic is the limit
constexpr uint64_t kCacheBytes = 256 * 1024;

// As many whole tiles of 2,048 columns as a second-level cache holds beside the activations.
Shape cache_shape(Format format) {
  const uint64_t columns = 2048, some_rows = 128;
  const uint64_t rows = kCacheBytes * some_rows / cpu::packed_bytes(format, some_rows, columns);
  return {rows / cpu::kTileRows * cpu::kTileRows, columns};
}

struct Case {
  const cpu::KernelTable *kernels;
  Format format;
  Shape shape;
  Place place;
  uint32_t n;
  bool abreast = false;  // multiplied so, instead of what else the tier does

  cpu::Packing packing() const { return kernels->packing_of(format); }
  std::string name() const {
    return fmt::format("matmul/{}/{}/{}x{}/n:{}/{}{}", quant::traits(format).name, kernels->name, shape.rows,
                       shape.columns, n, name_of(place), abreast ? "/abreast" : "");
  }
};

// A working set of equal matrices: what they hold does not matter to a cache, nor to a kernel as long as it is valid.
class Matrices {
 public:
  Matrices(Format format, cpu::Packing packing, Shape shape, uint64_t n)
      : format_(format),
        packing_(packing),
        shape_(shape),
        n_(n),
        stride_((cpu::packed_bytes(format, shape.rows, shape.columns, packing) + 63) / 64 * 64),
        memory_(n * stride_ + cpu::kPackedAlignment) {
    std::vector<std::byte> file(shape.rows * quant::row_bytes(quant::traits(format), shape.columns));
    synth::WeightPool(quant::traits(format), 0.02f, 1).fill(file, 2);
    if (cpu::is_repacked(format))
      cpu::pack_tiles(
          {format, shape.rows, shape.columns, file.data(), memory_.data(), 0, cpu::tile_count(shape.rows), packing});
    else
      std::memcpy(memory_.data(), file.data(), file.size());
    for (uint64_t i = 1; i < n; ++i) std::memcpy(memory_.data() + i * stride_, memory_.data(), stride_);
  }

  PackedMatrix operator[](uint64_t i) const {
    return {format_, shape_.rows, shape_.columns, memory_.data() + i * stride_, packing_};
  }
  uint64_t size() const { return n_; }
  bool holds(Format format, cpu::Packing packing, Shape shape, uint64_t n) const {
    return format == format_ && packing == packing_ && shape.rows == shape_.rows && shape.columns == shape_.columns &&
           n == n_;
  }

 private:
  Format format_;
  cpu::Packing packing_;
  Shape shape_;
  uint64_t n_;
  size_t stride_;
  Memory memory_;
};

// The matrices of the case that ran last: the next one mostly has the same.
class LatestMatrices {
 public:
  const Matrices &get(const Case &a_case, const Limits &limits) {
    const Shape shape = a_case.shape;
    const uint64_t bytes = cpu::packed_bytes(a_case.format, shape.rows, shape.columns, a_case.packing());
    const uint64_t n = pieces(a_case.place, bytes, limits.memory_bytes);
    if (!latest_ || !latest_->holds(a_case.format, a_case.packing(), shape, n)) {
      latest_.reset();  // the old ones go first
      latest_ = std::make_unique<Matrices>(a_case.format, a_case.packing(), shape, n);
    }
    return *latest_;
  }

 private:
  std::unique_ptr<Matrices> latest_;
};

// The vectors that a matrix is multiplied with, quantised by the tier itself if the format wants that, and the results.
class Vectors {
 public:
  explicit Vectors(const Case &a_case)
      : a_case_(a_case),
        x_(kMostVectors * a_case.shape.columns * sizeof(float)),
        y_(kMostVectors * a_case.shape.rows * sizeof(float)) {
    fill_random(x_.as<float>(), a_case.n * a_case.shape.columns, 3);
    if (a_case.abreast) {
      scratch_.emplace(cpu::kAbreastScratchBytes);
    } else if (a_case.kernels->scratch_bytes > 0) {
      scratch_.emplace(a_case.kernels->scratch_bytes);
    }
    const cpu::ActivationLayout layout = cpu::code_layout(a_case.format, a_case.packing()).activations;
    if (layout.block != 0) quantize(layout);
    if (!a_case.abreast) fill_panels();
  }

  void multiply(const PackedMatrix &matrix) const {
    if (!a_case_.abreast) return a_case_.kernels->matmul(args(matrix));
    const cpu::AbreastRows rows = {&matrix, 0, a_case_.shape.rows, y_.as<float>()};
    a_case_.kernels->abreast.multiply({.rows = {&rows, 1},
                                       .n = a_case_.n,
                                       .quantized_rows = quantized_->data(),
                                       .y_stride = a_case_.shape.rows,
                                       .scratch = scratch_->data()});
  }

 private:
  void quantize(const cpu::ActivationLayout &layout) {
    const cpu::KernelTable &kernels = *a_case_.kernels;
    const uint64_t columns = a_case_.shape.columns;
    quantized_.emplace(a_case_.n * cpu::quantized_row_bytes(layout, columns));
    cpu::QuantizeArgs args = whole_rows(layout, x_.as<float>(), a_case_.n, columns, quantized_->data());
    const size_t elements = kernels.table_elements(layout.tables);
    if (!a_case_.abreast && elements > 0 && a_case_.n <= kernels.most_looked_up(layout.tables)) {
      tables_.emplace(a_case_.n * columns / cpu::kActivationGroup * elements * sizeof(int16_t));
      args.tables = tables_->as<int16_t>();
    }
    kernels.quantize(args);
  }

  // As for all rows of a product, before any is computed.
  void fill_panels() {
    const cpu::PanelKernel &kernel = a_case_.kernels->panels;
    const PackedMatrix matrix = {.format = a_case_.format, .packing = a_case_.packing()};
    const cpu::PanelKind *kind = kernel.kind_of ? kernel.kind_of(matrix, a_case_.n) : nullptr;
    if (!kind) return;
    const uint64_t columns = a_case_.shape.columns;
    panels_.emplace(cpu::panels_bytes(*kind, a_case_.n, columns));
    kind->fill({.quantized_rows = quantized_ ? quantized_->data() : nullptr,
                .x = x_.as<float>(),
                .x_stride = columns,
                .n = a_case_.n,
                .columns = columns,
                .begin = 0,
                .end = cpu::panel_steps(*kind, a_case_.n, columns),
                .panels = panels_->data()});
  }

  cpu::MatmulArgs args(const PackedMatrix &matrix) const {
    return {.matrix = &matrix,
            .first_row = 0,
            .last_row = a_case_.shape.rows,
            .n = a_case_.n,
            .x = x_.as<float>(),
            .x_stride = a_case_.shape.columns,
            .quantized_rows = quantized_ ? quantized_->data() : nullptr,
            .tables = tables_ ? tables_->as<int16_t>() : nullptr,
            .y = y_.as<float>(),
            .y_stride = a_case_.shape.rows,
            .prefetch = cpu::best_prefetch(),
            .scratch = scratch_ ? scratch_->data() : nullptr,
            .panels = panels_ ? panels_->data() : nullptr};
  }

  const Case &a_case_;
  Memory x_, y_;
  std::optional<Memory> quantized_, tables_, scratch_, panels_;
};

void run(benchmark::State &state, const Case &a_case, const Limits &limits, LatestMatrices &latest) {
  const Matrices &matrices = latest.get(a_case, limits);
  const Vectors vectors(a_case);
  Round round(matrices.size());
  const Stopwatch stopwatch;
  for (auto _ : state) {
    vectors.multiply(matrices[round.next()]);
    benchmark::ClobberMemory();
  }
  const uint64_t weights = a_case.shape.rows * a_case.shape.columns;
  Counters counters(state, limits, stopwatch);
  counters.items("weights/s", weights);
  counters.bytes(cpu::packed_bytes(a_case.format, a_case.shape.rows, a_case.shape.columns, a_case.packing()));
  if (a_case.n >= kPromptVectors) counters.operations(2 * weights * a_case.n, bench::arithmetic_of(a_case.format));
}

}  // namespace

void add_matmul_cases(const std::shared_ptr<const Limits> &limits) {
  const auto latest = std::make_shared<LatestMatrices>();
  const auto add = [&](Format format, Shape shape, Place place) {
    for (const cpu::KernelTable *kernels : cpu::runnable_kernels()) {
      for (const uint32_t n : kVectors) {
        Case a_case = {kernels, format, shape, place, n};
        const auto add_case = [&] {
          benchmark::RegisterBenchmark(a_case.name().c_str(),
                                       [=](benchmark::State &state) { run(state, a_case, *limits, *latest); });
        };
        add_case();
        const PackedMatrix matrix = {.format = format, .packing = a_case.packing()};
        a_case.abreast = n >= cpu::kAbreastVectors && kernels->takes_abreast(matrix);
        if (a_case.abreast) add_case();
      }
    }
  };
  for (const quant::FormatTraits &traits : quant::formats()) {
    if (!cpu::has_kernels(traits.format)) continue;
    for (const Shape shape : kModelShapes) add(traits.format, shape, Place::kMemory);
    add(traits.format, cache_shape(traits.format), Place::kCache);
  }
}

}  // namespace bonsai::kernel_bench
