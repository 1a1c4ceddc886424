#include "plugins/cpu/quantized_vectors.h"

#include <algorithm>

#include "plugins/common/buffer.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Vectors whose sums are looked up in one go: as many as have their tables, of up to 28 bytes a column each, in a part
// of a core's second-level cache.
constexpr uint64_t kTableBytes = 256 * 1024;
constexpr uint64_t kFewestLookupVectors = 4;

// Where results are bounded first, two vectors share what is read all the time.
constexpr uint64_t kBoundedTableBytes = 2 * kTableBytes;

// Fewer vectors wait for the weights rather than for arithmetic; of fewer rows, too many are among the largest.
constexpr uint32_t kFewestBoundedVectors = 4;
constexpr uint64_t kFewestBoundedRows = 16 * kPieceRows;

// Threads that quantise for themselves what they multiply with, rather than a part of it for all. What one core has
// written takes another one longer to read, and the first one again longer to write anew, than to compute: of one
// vector in any case (docs/cpu-decoding.md, "Between the products"), and of tables until each would compute longer than
// all together wait (docs/cpu-prompts.md, "Tables of one's own").
constexpr int kMostAloneWithOne = 32;
constexpr int kMostAloneWithTables = 6;

// Elements of each vector's tables; 0 if the kernels are to multiply without.
uint64_t elements_of_tables(const KernelTable &kernels, const Product &product, ActivationLayout layout, bool bounded,
                            const VectorPanels &panels) {
  // Weights that are packed for tables are multiplied without from panels only, if that is how the kernels do it.
  const bool may_multiply = !kernels.panels.kind_of || !panels.empty();
  if (may_multiply && product.n > kernels.most_looked_up(layout.tables) && !bounded) return 0;
  return product.columns / kActivationGroup * kernels.table_elements(layout.tables);
}

// Whether results of these matrices are bounded before they are computed.
bool is_bounded(const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  if (!product.sink || product.n < kFewestBoundedVectors || product.columns > kMostBoundColumns) return false;
  if (!kernels.has_bounds(layout.tables)) return false;
  uint64_t rows = 0;
  for (const MatrixRows &part : product.rows) {
    if (activation_layout(*part.matrix) == layout) rows += part.last_row - part.first_row;
  }
  if (rows < kFewestBoundedRows) return false;
  for (uint32_t i = 0; i < product.n; ++i) {
    if (product.sink->selects(product.first_vector + i)) return true;
  }
  return false;
}

// Whether every thread quantises for itself all that it multiplies with.
bool quantizes_alone(int threads, const Product &product, ActivationLayout layout, uint64_t table_elements) {
  if (layout.block == 0) return false;
  if (product.n == 1) return threads <= kMostAloneWithOne;
  return table_elements > 0 && threads <= kMostAloneWithTables;
}

// Once the vectors are quantised.
void tabulate_bounds(const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors) {
  kernels.tabulate_bounds({.rows = vectors.rows,
                           .tables = vectors.tables,
                           .n = product.n,
                           .columns = product.columns,
                           .layout = vectors.layout,
                           .bound_tables = vectors.bound_tables,
                           .bounds = vectors.bounds});
}

// Workers' scratch begins on pages of their own: hardware prefetchers end there.
constexpr uint64_t kPage = 4096;

// Columns of one vector that are worth handing to another thread.
constexpr uint64_t kQuantizeGrain = 1024;

}  // namespace

QuantizationPlan::QuantizationPlan(const KernelTable &kernels, const Product &product, ActivationLayout layout,
                                   int threads)
    : layout(layout),
      bounded(is_bounded(kernels, product, layout)),
      table_elements(elements_of_tables(kernels, product, layout, bounded, {kernels, product, layout})),
      panels(table_elements == 0 ? VectorPanels(kernels, product, layout) : VectorPanels()),
      alone(panels.empty() && quantizes_alone(threads, product, layout, table_elements)),
      at_once(product.n) {
  const uint64_t bytes = table_elements * sizeof(int16_t);
  if (bytes == 0) return;
  const uint64_t in_cache = bounded ? kBoundedTableBytes : kTableBytes;
  const uint64_t most = std::clamp(in_cache / bytes / 4 * 4, kFewestLookupVectors, uint64_t{kMostLookupVectors});
  at_once = static_cast<uint32_t>(std::min<uint64_t>(product.n, most));
}

QuantizedVectors::QuantizedVectors(const Product &product, const QuantizationPlan &plan, uint64_t worker)
    : layout(plan.layout),
      row_bytes(layout.block != 0 ? quantized_row_bytes(layout, product.columns) : 0),
      rows(product.activations.data + worker * product.activations.of_worker),
      table_elements(plan.table_elements),
      tables(nullptr),
      bounds_of_vector(plan.bounded ? product.columns / kBoundColumns : 0),
      bound_tables(nullptr),
      bounds(nullptr),
      panels(plan.panels) {
  const uint64_t of_rows = plan.at_once * row_bytes;
  const uint64_t of_tables = plan.at_once * table_elements * sizeof(int16_t);
  const uint64_t pairs = plan.bounded ? (plan.at_once + 1) / 2 : 0;
  const uint64_t of_bound_tables = pairs * table_elements * sizeof(int16_t);
  if (table_elements > 0) tables = reinterpret_cast<int16_t *>(rows + of_rows);
  if (pairs > 0) {
    bound_tables = reinterpret_cast<int16_t *>(rows + of_rows + of_tables);
    bounds = reinterpret_cast<UnitBound *>(rows + of_rows + of_tables + of_bound_tables);
  }
}

Product part_of(const Product &product, uint32_t first, uint32_t last) {
  Product part = product;
  part.n = last - first;
  part.x += first * product.x_stride;
  if (product.sink) {
    part.first_vector += first;
  } else {
    part.y += first * product.y_stride;
  }
  return part;
}

void quantize(const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors) {
  kernels.quantize({.x = product.x,
                    .x_stride = product.x_stride,
                    .n = product.n,
                    .columns = product.columns,
                    .layout = vectors.layout,
                    .begin = 0,
                    .end = product.columns,
                    .rows = vectors.rows,
                    .tables = vectors.tables});
  if (vectors.bounds) tabulate_bounds(kernels, product, vectors);
}

void quantize(Threads &threads, const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors) {
  if (vectors.layout.block == 0) return vectors.panels.fill(threads, product, nullptr);
  const uint64_t columns = product.columns;
  const uint64_t pieces = product.n == 1 ? (columns + kQuantizeGrain - 1) / kQuantizeGrain : 1;
  const size_t grain = pieces > 1 ? 1 : rows_worth_a_thread(columns);
  threads.each_range(product.n * pieces, grain, [&](size_t begin, size_t end, int) {
    const size_t first = begin / pieces, last = (end + pieces - 1) / pieces;
    kernels.quantize({.x = product.x + first * product.x_stride,
                      .x_stride = product.x_stride,
                      .n = static_cast<uint32_t>(last - first),
                      .columns = columns,
                      .layout = vectors.layout,
                      .begin = begin % pieces * kQuantizeGrain,
                      .end = pieces > 1 ? std::min(columns, end * kQuantizeGrain) : columns,
                      .rows = vectors.rows + first * vectors.row_bytes,
                      .tables = vectors.tables ? vectors.tables + first * vectors.table_elements : nullptr});
  });
  vectors.panels.fill(threads, product, vectors.rows);
  if (!vectors.bounds) return;
  threads.each_range((product.n + 1) / 2, 1, [&](size_t begin, size_t end, int) {
    const auto first = static_cast<uint32_t>(2 * begin), last = static_cast<uint32_t>(2 * end);
    tabulate_bounds(kernels, part_of(product, first, std::min(last, product.n)), vectors.from(first));
  });
}

KernelNeeds::KernelNeeds(const KernelTable &kernels)
    : abreast(kernels.abreast), many_bytes(kernels.scratch_bytes), panels(kernels.panels) {}

ActivationRoom activation_room(uint64_t n, uint64_t columns, int threads, const KernelNeeds &needs) {
  const uint64_t groups = columns / kActivationGroup + 1;
  const uint64_t row =
      round_up(columns + groups * (sizeof(float) + sizeof(GroupMultiplier) + sizeof(int32_t)), kPackedAlignment);
  const uint64_t table = groups * kMostLookupElements * sizeof(int16_t);
  const uint64_t rows = std::min<uint64_t>(n, kMostLookupVectors);
  const uint64_t tables = std::max(kBoundedTableBytes, std::min(n, kFewestLookupVectors) * table);
  const uint64_t bounds = (rows + 1) * (columns / kBoundColumns + 1) * sizeof(UnitBound) + kPackedAlignment;
  const uint64_t at_once = rows * row + tables + tables / 2 + bounds;
  const uint64_t of_worker = round_up(threads <= kMostAloneWithTables ? at_once : row + table, kPage);
  const uint64_t alone = threads <= kMostAloneWithOne ? static_cast<uint64_t>(threads) * of_worker : 0;
  ActivationRoom room = {.bytes = std::max({n * row, at_once, alone}), .of_worker = of_worker};
  if (needs.abreast.multiply && n >= needs.abreast.fewest_vectors) {
    room.abreast_at = round_up(room.bytes, kPage);
    room.bytes = room.abreast_at + static_cast<uint64_t>(threads) * kAbreastScratchBytes;
  }
  if (needs.many_bytes > 0) {
    room.many_at = round_up(room.bytes, kPage);
    room.many_bytes = needs.many_bytes;
    room.bytes = room.many_at + static_cast<uint64_t>(threads) * needs.many_bytes;
  }
  if (needs.panels.kind_of) {
    room.panels_at = round_up(room.bytes, kPage);
    room.panels_bytes = panels_room(needs.panels, static_cast<uint32_t>(n), columns);
    room.bytes = room.panels_at + room.panels_bytes;
  }
  return room;
}

}  // namespace bonsai::cpu
