#include "plugins/cpu/matmul.h"

#include <algorithm>

#include "plugins/common/buffer.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

constexpr uint64_t kSmallestGroup = 32;

// Vectors whose sums are looked up in one go: as many as have their tables, of up to 28 bytes a column each, in a part
// of a core's second-level cache.
constexpr uint64_t kTableBytes = 256 * 1024;
constexpr uint64_t kFewestLookupVectors = 4, kMostLookupVectors = 32;

// Threads that quantise for themselves what they multiply with, rather than a part of it for all. What one core has
// written takes another one longer to read, and the first one again longer to write anew, than to compute: of one
// vector in any case, and of tables until each would compute longer than all together wait (docs/cpu-kernels.md).
constexpr int kMostAloneWithOne = 32;
constexpr int kMostAloneWithTables = 6;

// Quantised vectors that a matrix is multiplied with in one go stay in a core's second-level cache. Of floats, pieces
// are copied into the first-level one (float_matmul.inl.h): they need not.
constexpr uint64_t kQuantizedBlockBytes = 256 * 1024;
constexpr uint64_t kFloatBlockBytes = 4096 * 1024;

// Elements of a vector's tables.
uint64_t elements_of_tables(const KernelTable &kernels, ActivationLayout layout, uint64_t columns) {
  return columns / kLookupColumns * kernels.table_elements(layout.tables);
}

// Vectors of a product that are quantised and multiplied together.
uint32_t vectors_at_once(const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  const uint64_t bytes = elements_of_tables(kernels, layout, product.columns) * sizeof(int16_t);
  if (bytes == 0) return product.n;
  const uint64_t most = std::clamp(kTableBytes / bytes / 4 * 4, kFewestLookupVectors, kMostLookupVectors);
  return static_cast<uint32_t>(std::min<uint64_t>(product.n, most));
}

// The quantised vectors of a product: rows, then tables if the kernels want them.
struct QuantizedVectors {
  ActivationLayout layout;  // group 0: they stay float
  uint64_t row_bytes;
  std::byte *rows;
  uint64_t table_elements;  // of a vector; 0 if it has none
  int16_t *tables;          // (n, table_elements) or nullptr

  // Room for `most` vectors. `copy`: of several that lie behind each other.
  QuantizedVectors(const KernelTable &kernels, const Product &product, ActivationLayout layout, uint32_t most,
                   uint64_t copy = 0)
      : layout(layout),
        row_bytes(layout.group != 0 ? quantized_row_bytes(layout, product.columns) : 0),
        rows(product.activations),
        table_elements(elements_of_tables(kernels, layout, product.columns)),
        tables(nullptr) {
    rows += copy * most * (row_bytes + table_elements * sizeof(int16_t));
    if (table_elements > 0) tables = reinterpret_cast<int16_t *>(rows + most * row_bytes);
  }
};

// Columns of one vector that are worth handing to another thread.
constexpr uint64_t kQuantizeGrain = 1024;

// Threads share the vectors, or the columns of one if there are not enough.
void quantize(Threads &threads, const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors) {
  const uint64_t columns = product.columns;
  const uint64_t pieces = product.n == 1 ? (columns + kQuantizeGrain - 1) / kQuantizeGrain : 1;
  const size_t grain = pieces > 1 ? 1 : rows_worth_a_thread(columns);
  threads.each_range(product.n * pieces, grain, [&](size_t begin, size_t end, int) {
    const size_t first = begin / pieces, last = (end + pieces - 1) / pieces;
    kernels.quantize({.x = product.x + first * columns,
                      .x_stride = columns,
                      .n = static_cast<uint32_t>(last - first),
                      .columns = columns,
                      .layout = vectors.layout,
                      .begin = begin % pieces * kQuantizeGrain,
                      .end = pieces > 1 ? std::min(columns, end * kQuantizeGrain) : columns,
                      .rows = vectors.rows + first * vectors.row_bytes,
                      .tables = vectors.tables ? vectors.tables + first * vectors.table_elements : nullptr});
  });
}

struct TileRange {
  uint64_t first, last;
};

TileRange tiles_of(const MatrixRows &rows) {
  return {rows.first_row / kTileRows, (rows.last_row + kTileRows - 1) / kTileRows};
}

// Tiles that a thread takes at least: in strips, two of them share vectors.
constexpr uint64_t kTileGrain = 2;

// The matrices that take their activations in `layout`, of which multiply_tiles counts the tiles through.
uint64_t count_tiles(std::span<const MatrixRows> all, ActivationLayout layout) {
  uint64_t n = 0;
  for (const MatrixRows &rows : all) {
    if (activation_layout(*rows.matrix) == layout) n += tiles_of(rows).last - tiles_of(rows).first;
  }
  return n;
}

// Where reading begins with a tile, counted the same way; nullptr if there are fewer.
const std::byte *find_tile(std::span<const MatrixRows> all, ActivationLayout layout, uint64_t tile) {
  for (const MatrixRows &rows : all) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const TileRange tiles = tiles_of(rows);
    if (tile < tiles.last - tiles.first) return tile_begin(*rows.matrix, tiles.first + tile);
    tile -= tiles.last - tiles.first;
  }
  return nullptr;
}

// What a worker reads first of `next`.
const std::byte *first_of(const Threads &threads, std::span<const MatrixRows> next, int worker) {
  if (next.empty()) return nullptr;
  const ActivationLayout layout = activation_layout(*next[0].matrix);
  return find_tile(next, layout, threads.first_of(count_tiles(next, layout), kTileGrain, worker));
}

// What a worker does of one matrix.
struct MatrixShare {
  const MatrixRows &rows;
  TileRange tiles;
  const std::byte *then;  // what it reads next
};

// Where results go: of all vectors, the first row's to y[0].
struct Results {
  float *y;
  uint64_t stride;
};

struct RowRange {
  uint64_t first, last;
};

RowRange rows_of(const MatrixRows &rows, TileRange tiles) {
  return {std::max(rows.first_row, tiles.first * kTileRows), std::min(rows.last_row, tiles.last * kTileRows)};
}

uint64_t output_of(const MatrixRows &rows, TileRange tiles) {
  return rows.output + (rows_of(rows, tiles).first - rows.first_row);
}

// All vectors times a share's tiles.
void multiply_matrix(const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors,
                     const MatrixShare &share, Results results) {
  const bool quantized = vectors.layout.group != 0;
  const uint64_t vector_bytes = quantized ? vectors.row_bytes : product.columns * sizeof(float);
  const uint64_t block_bytes = quantized ? kQuantizedBlockBytes : kFloatBlockBytes;
  const uint64_t block = vectors.tables ? product.n : std::max<uint64_t>(8, block_bytes / vector_bytes / 8 * 8);
  const RowRange rows = rows_of(share.rows, share.tiles);
  for (uint64_t i = 0; i < product.n; i += block) {
    kernels.matmul({.matrix = share.rows.matrix,
                    .first_row = rows.first,
                    .last_row = rows.last,
                    .n = static_cast<uint32_t>(std::min<uint64_t>(block, product.n - i)),
                    .x = product.x + i * product.columns,
                    .x_stride = product.columns,
                    .quantized_rows = quantized ? vectors.rows + i * vector_bytes : nullptr,
                    .tables = vectors.tables,
                    .y = results.y + i * results.stride,
                    .y_stride = results.stride,
                    .then = share.then});
  }
}

// Vectors [first, last) of a product.
Product part_of(const Product &product, uint32_t first, uint32_t last) {
  Product part = product;
  part.n = last - first;
  part.x += first * product.columns;
  if (product.sink) {
    part.first_vector += first;
  } else {
    part.y += first * product.y_stride;
  }
  return part;
}

// Calls body(part, whether it is the last) for at most `at_once` vectors after the other.
template <class Body>
void each_part(const Product &product, uint32_t at_once, const Body &body) {
  for (uint32_t first = 0; first < product.n; first += at_once) {
    const uint32_t last = std::min(product.n, first + at_once);
    body(part_of(product, first, last), last == product.n);
  }
}

// -------- Dividing the work

// What threads share of a product: `n` tiles or pieces, whole grains of them.
struct Units {
  uint64_t n, grain;
};

// A range of units and a part of the vectors.
struct Share {
  const Product &part;
  const QuantizedVectors &vectors;
  uint64_t begin, end;
  int worker;
  const std::byte *then;  // what the worker reads next, if that is known
};

// Calls body(share) for all units and vectors: every worker does one range of the units, `at_once` vectors after the
// other, quantised by vectors_of(part, worker).
template <class VectorsOf, class Body>
void divide(Threads &threads, const Product &product, uint32_t at_once, Units units, const VectorsOf &vectors_of,
            const Body &body) {
  threads.each_range(units.n, units.grain, [&](uint64_t begin, uint64_t end, int worker) {
    each_part(product, at_once, [&](const Product &part, bool is_last) {
      const std::byte *then = is_last ? first_of(threads, product.next, worker) : nullptr;
      body(Share{part, vectors_of(part, worker), begin, end, worker, then});
    });
  });
}

// Of every matrix that takes its activations in `layout`, the tiles of a share, which are counted through.
void multiply_tiles(const KernelTable &kernels, ActivationLayout layout, const Share &share) {
  const Product &product = share.part;
  uint64_t passed = 0;
  for (const MatrixRows &rows : product.rows) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const TileRange tiles = tiles_of(rows);
    const uint64_t first = std::max(share.begin, passed), last = std::min(share.end, passed + tiles.last - tiles.first);
    if (first < last) {
      const std::byte *then = last < share.end ? find_tile(product.rows, layout, last) : share.then;
      const TileRange part = {tiles.first + first - passed, tiles.first + last - passed};
      multiply_matrix(kernels, product, share.vectors, {rows, part, then},
                      {product.y + output_of(rows, part), product.y_stride});
    }
    passed += tiles.last - tiles.first;
  }
}

// -------- In pieces

// Whole strips, whose results for 32 vectors take a sixteenth of a usual second-level cache.
constexpr uint64_t kPieceTiles = kPieceRows / kTileRows;

// From row to row of a piece: no multiple of 4 KiB, so that rows do not share the first-level cache's sets.
constexpr uint64_t kPieceStride = (kPieceTiles + 1) * kTileRows;

// Pieces begin on multiples of kPieceTiles.
uint64_t pieces_of(const MatrixRows &rows) {
  const TileRange tiles = tiles_of(rows);
  return (tiles.last + kPieceTiles - 1) / kPieceTiles - tiles.first / kPieceTiles;
}

TileRange tiles_of_piece(const MatrixRows &rows, uint64_t piece) {
  const TileRange tiles = tiles_of(rows);
  const uint64_t first = (tiles.first / kPieceTiles + piece) * kPieceTiles;
  return {std::max(tiles.first, first), std::min(tiles.last, first + kPieceTiles)};
}

uint64_t count_pieces(std::span<const MatrixRows> all, ActivationLayout layout) {
  uint64_t n = 0;
  for (const MatrixRows &rows : all) n += activation_layout(*rows.matrix) == layout ? pieces_of(rows) : 0;
  return n;
}

// As multiply_tiles, of pieces, which go through y (piece_elements) to the sink.
void multiply_pieces(const KernelTable &kernels, ActivationLayout layout, const Share &share, float *y) {
  const Product &product = share.part;
  uint64_t passed = 0, index = 0;  // pieces: of this layout, and of all
  for (const MatrixRows &rows : product.rows) {
    const uint64_t pieces = pieces_of(rows);
    if (activation_layout(*rows.matrix) == layout) {
      const uint64_t last = std::min(share.end, passed + pieces);
      for (uint64_t i = std::max(share.begin, passed); i < last; ++i) {
        const TileRange tiles = tiles_of_piece(rows, i - passed);
        const std::byte *then = i + 1 == share.end ? share.then : nullptr;
        multiply_matrix(kernels, product, share.vectors, {rows, tiles, then}, {y, kPieceStride});
        const RowRange range = rows_of(rows, tiles);
        product.sink->take(share.worker, {index + i - passed, output_of(rows, tiles), range.last - range.first},
                           {product.first_vector, product.n, y, kPieceStride});
      }
      passed += pieces;
    }
    index += pieces;
  }
}

// -------- All of a product

template <class VectorsOf>
void multiply_rows(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout,
                   uint32_t at_once, const VectorsOf &vectors_of) {
  if (product.sink) {
    divide(threads, product, at_once, {count_pieces(product.rows, layout), 1}, vectors_of, [&](const Share &share) {
      float *y = product.y + static_cast<uint64_t>(share.worker) * piece_elements(product.n);
      multiply_pieces(kernels, layout, share, y);
    });
  } else {
    divide(threads, product, at_once, {count_tiles(product.rows, layout), kTileGrain}, vectors_of,
           [&](const Share &share) { multiply_tiles(kernels, layout, share); });
  }
}

// Whether every thread quantises for itself all that it multiplies with.
bool quantizes_alone(const KernelTable &kernels, const Threads &threads, const Product &product,
                     ActivationLayout layout) {
  if (layout.group == 0) return false;
  if (product.n == 1) return threads.count() <= kMostAloneWithOne;
  return elements_of_tables(kernels, layout, product.columns) > 0 && threads.count() <= kMostAloneWithTables;
}

void multiply_alone(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  const uint32_t at_once = vectors_at_once(kernels, product, layout);
  multiply_rows(threads, kernels, product, layout, at_once, [&](const Product &part, int worker) {
    const QuantizedVectors vectors(kernels, part, layout, at_once, static_cast<uint64_t>(worker));
    kernels.quantize({.x = part.x,
                      .x_stride = part.columns,
                      .n = part.n,
                      .columns = part.columns,
                      .layout = layout,
                      .begin = 0,
                      .end = part.columns,
                      .rows = vectors.rows,
                      .tables = vectors.tables});
    return vectors;
  });
}

void multiply_together(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  each_part(product, vectors_at_once(kernels, product, layout), [&](const Product &part, bool) {
    const QuantizedVectors vectors(kernels, part, layout, part.n);
    if (layout.group != 0) quantize(threads, kernels, part, vectors);
    multiply_rows(threads, kernels, part, layout, part.n, [&](const Product &, int) { return vectors; });
  });
}

}  // namespace

uint64_t count_pieces(std::span<const MatrixRows> rows) {
  uint64_t n = 0;
  for (const MatrixRows &part : rows) n += pieces_of(part);
  return n;
}

uint64_t piece_elements(uint32_t n) { return n * kPieceStride; }

uint64_t activation_bytes(uint64_t n, uint64_t columns, int threads) {
  const uint64_t groups = columns / kSmallestGroup + 1;
  const uint64_t row = round_up(columns + groups * (sizeof(float) + sizeof(int32_t)), kPackedAlignment);
  const uint64_t table = groups * kMostLookupElements * sizeof(int16_t);
  const uint64_t at_once =
      std::min(n, kMostLookupVectors) * row + std::max(kTableBytes, std::min(n, kFewestLookupVectors) * table);
  const uint64_t alone = threads <= kMostAloneWithTables ? static_cast<uint64_t>(threads) : 1;
  const uint64_t with_one = threads <= kMostAloneWithOne ? static_cast<uint64_t>(threads) : 1;
  return std::max({n * row, alone * at_once, with_one * (row + table)});
}

uint64_t bytes_of_rows(std::span<const MatrixRows> rows) {
  uint64_t bytes = 0;
  for (const MatrixRows &part : rows) {
    bytes +=
        (part.last_row - part.first_row) * quant::row_bytes(quant::traits(part.matrix->format), part.matrix->columns);
  }
  return bytes;
}

void multiply(Threads &threads, const KernelTable &kernels, const Product &product) {
  for (size_t i = 0; i < product.rows.size(); ++i) {
    const ActivationLayout layout = activation_layout(*product.rows[i].matrix);
    const auto takes_same = [&](const MatrixRows &rows) { return activation_layout(*rows.matrix) == layout; };
    if (std::any_of(product.rows.begin(), product.rows.begin() + i, takes_same)) continue;
    if (quantizes_alone(kernels, threads, product, layout)) {
      multiply_alone(threads, kernels, product, layout);
    } else {
      multiply_together(threads, kernels, product, layout);
    }
  }
}

}  // namespace bonsai::cpu
