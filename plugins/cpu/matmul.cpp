#include "plugins/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <optional>

#include "plugins/common/buffer.h"
#include "plugins/cpu/matmul_abreast.h"
#include "plugins/cpu/quantized_vectors.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Quantised vectors that a matrix is multiplied with in one go stay in a core's second-level cache. Of floats, pieces
// are copied into the first-level one (float_matmul.inl.h): they need not.
constexpr uint64_t kFloatBlockBytes = 4096 * 1024;

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

// -------- Sectors

bool has_one_layout(std::span<const MatrixRows> rows) {
  const ActivationLayout layout = activation_layout(*rows[0].matrix);
  return std::all_of(rows.begin(), rows.end(),
                     [&](const MatrixRows &other) { return activation_layout(*other.matrix) == layout; });
}

// Sectors [first, last) of a slice.
MatrixRows part_of(const MatrixRows &slice, const Sectors &sectors, uint64_t first, uint64_t last) {
  const uint64_t rows = (slice.last_row - slice.first_row) / sectors.n;
  return {.matrix = slice.matrix,
          .first_row = slice.first_row + first * rows,
          .last_row = slice.first_row + last * rows,
          .output = slice.output + first * rows};
}

// Where reading begins with a sector.
const std::byte *first_of_sector(std::span<const MatrixRows> rows, const Sectors &sectors, uint64_t sector) {
  return tile_begin(*rows[0].matrix, part_of(rows[0], sectors, sector, sector).first_row / kTileRows);
}

// What a worker reads first of the next product.
const std::byte *first_of_next(const Threads &threads, const Product &product, int worker) {
  const std::span<const MatrixRows> next = product.next;
  if (next.empty()) return nullptr;
  const Sectors &sectors = product.next_sectors;
  if (has_sectors_for(next, sectors, threads.count())) {
    return first_of_sector(next, sectors, threads.first_of(sectors.n, 1, worker));
  }
  const ActivationLayout layout = activation_layout(*next[0].matrix);
  return find_tile(next, layout, threads.first_of(count_tiles(next, layout), kTileGrain, worker));
}

// What a worker does of one matrix.
struct MatrixShare {
  const MatrixRows &rows;
  TileRange tiles;
  const std::byte *then;  // what it reads next
  int worker;
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
  const bool quantized = vectors.layout.block != 0;
  const uint64_t vector_bytes = quantized ? vectors.row_bytes : product.columns * sizeof(float);
  const uint64_t block_bytes = quantized ? kernels.vector_bytes : kFloatBlockBytes;
  const uint64_t block = vectors.tables ? product.n : std::max<uint64_t>(8, block_bytes / vector_bytes / 8 * 8);
  const RowRange rows = rows_of(share.rows, share.tiles);
  for (uint64_t i = 0; i < product.n; i += block) {
    kernels.matmul({.matrix = share.rows.matrix,
                    .first_row = rows.first,
                    .last_row = rows.last,
                    .n = static_cast<uint32_t>(std::min<uint64_t>(block, product.n - i)),
                    .x = product.x + i * product.x_stride,
                    .x_stride = product.x_stride,
                    .quantized_rows = quantized ? vectors.rows + i * vector_bytes : nullptr,
                    .tables = vectors.tables,
                    .y = results.y + i * results.stride,
                    .y_stride = results.stride,
                    .then = share.then,
                    .prefetch = kernels.prefetch,
                    .scratch = product.activations.many_of(share.worker)});
  }
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

// What threads share of a product: `n` tiles, pieces or sectors, whole grains of them to begin
// with, how many are taken at a time at least, and what a worker does with its own in the end.
struct Units {
  uint64_t n, grain, least;
  const SectorStep *then = nullptr;
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
void divide_in_parts(Threads &threads, const Product &product, uint32_t at_once, const Units &units,
                     const VectorsOf &vectors_of, const Body &body) {
  threads.each_range(units.n, units.grain, [&](uint64_t begin, uint64_t end, int worker) {
    each_part(product, at_once, [&](const Product &part, bool is_last) {
      const std::byte *then = is_last ? first_of_next(threads, product, worker) : nullptr;
      body(Share{part, vectors_of(part, worker), begin, end, worker, then});
    });
    if (units.then) (*units.then)(begin, end, worker);
  });
}

// The same where all vectors are multiplied at once: then it is open which units a worker does. place_of(unit): where
// their weights begin.
template <class VectorsOf, class PlaceOf, class Body>
void divide(Threads &threads, const Product &product, uint32_t at_once, const Units &units, const VectorsOf &vectors_of,
            const PlaceOf &place_of, const Body &body) {
  const bool is_divisible = product.n <= at_once && units.n <= SharedRanges::kMostUnits;
  if (!is_divisible) return divide_in_parts(threads, product, at_once, units, vectors_of, body);
  threads.each_turns(units.n, units.grain, units.least, [&](SharedRanges::Turns &turns, int worker) {
    std::optional<QuantizedVectors> vectors;
    while (const std::optional<UnitRange> range = turns.take()) {
      if (!vectors) vectors = vectors_of(product, worker);
      const std::optional<uint64_t> next = turns.next();
      const std::byte *then = next ? place_of(*next) : first_of_next(threads, product, worker);
      body(Share{product, *vectors, range->begin, range->end, worker, then});
      if (units.then) (*units.then)(range->begin, range->end, worker);
    }
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
      multiply_matrix(kernels, product, share.vectors, {rows, part, then, share.worker},
                      {product.y + output_of(rows, part), product.y_stride});
    }
    passed += tiles.last - tiles.first;
  }
}

// Of every matrix, the rows of a share of the sectors.
void multiply_sectors(const KernelTable &kernels, const Share &share) {
  const Product &product = share.part;
  const auto part = [&](size_t slice) { return part_of(product.rows[slice], product.sectors, share.begin, share.end); };
  const auto begin_of = [&](const MatrixRows &rows) { return tile_begin(*rows.matrix, rows.first_row / kTileRows); };
  for (size_t i = 0; i < product.rows.size(); ++i) {
    const MatrixRows rows = part(i);
    const std::byte *then = i + 1 < product.rows.size() ? begin_of(part(i + 1)) : share.then;
    multiply_matrix(kernels, product, share.vectors, {rows, tiles_of(rows), then, share.worker},
                    {product.y + rows.output, product.y_stride});
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

// Where reading begins with a piece, counted the same way.
const std::byte *find_piece(std::span<const MatrixRows> all, ActivationLayout layout, uint64_t piece) {
  for (const MatrixRows &rows : all) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const uint64_t pieces = pieces_of(rows);
    if (piece < pieces) return tile_begin(*rows.matrix, tiles_of_piece(rows, piece).first);
    piece -= pieces;
  }
  return nullptr;
}

// A piece of a product's rows, whose results go through y (n, kPieceStride) to the sink.
struct Piece {
  const MatrixRows &rows;
  TileRange tiles;
  uint64_t index;
  const std::byte *then;
  float *y;

  // Of some of its tiles.
  ProductPiece part(TileRange of) const {
    const RowRange range = rows_of(rows, of);
    return {index, output_of(rows, of), range.last - range.first};
  }
  ProductPiece whole() const { return part(tiles); }
};

// Vectors [first, last) times all of a piece.
void multiply_piece(const KernelTable &kernels, const Share &share, const Piece &piece, uint32_t first, uint32_t last) {
  const Product part = part_of(share.part, first, last);
  const Results results = {piece.y + first * kPieceStride, kPieceStride};
  multiply_matrix(kernels, part, share.vectors.from(first), {piece.rows, piece.tiles, piece.then, share.worker},
                  results);
  part.sink->take(share.worker, piece.whole(), {part.first_vector, part.n, results.y, results.stride});
}

// Of which vectors a worker bounds the next piece's results before it computes any. At first it does not, as there is
// nothing that they could be too small for; nor for some pieces after one whose wanted results took half of what all of
// them would have: the bounds take the other half.
class BoundedVectors {
 public:
  explicit BoundedVectors(const Product &product) {
    for (uint32_t i = 0; i < product.n; ++i) {
      if (!product.sink->selects(product.first_vector + i)) pauses_[i].left = kForEver;
    }
  }

  bool has(uint32_t i) const { return pauses_[i].left == 0; }

  // A piece; if its results were bounded, what the wanted ones cost in rows, and how many it has.
  void pass(uint32_t i, uint64_t cost = 0, uint64_t rows = 0) {
    Pause &pause = pauses_[i];
    if (pause.left > 0) {
      if (pause.left != kForEver) --pause.left;
    } else if (2 * cost > rows) {
      pause.left = pause.length;
      pause.length = std::min(2 * pause.length, kLongest);
    }
  }

 private:
  static constexpr uint32_t kForEver = UINT32_MAX, kLongest = 16;
  struct Pause {
    uint32_t left = 1, length = 1;
  };
  std::array<Pause, kMostLookupVectors> pauses_;
};

// Tiles whose bounds are looked at together, by one least result.
constexpr uint64_t kRunTiles = 4;
constexpr uint64_t kRunRows = kRunTiles * kTileRows;

// Rows of a run that are computed by themselves: beyond these, all of it takes less. And what one costs, in rows of a
// run that is computed as a whole.
constexpr uint32_t kMostFewRows = 10;
constexpr uint64_t kFewRowCost = 6;

// Bounds that are looked at together: a cache line of them.
constexpr uint32_t kLookedAt = 16;

// Lists the places of bounds above `least`; how many these are.
uint32_t list_above(std::span<const float> bounds, float least, std::array<uint32_t, kRunRows> &places) {
  uint32_t n = 0;
  for (uint32_t first = 0; first < bounds.size(); first += kLookedAt) {
    const std::span<const float> some = bounds.subspan(first, std::min<size_t>(kLookedAt, bounds.size() - first));
    uint32_t above = 0;
    for (const float bound : some) above += bound > least;
    for (uint32_t i = 0; i < some.size() && above > 0; ++i) {
      places[n] = first + i;
      n += some[i] > least;
    }
  }
  return n;
}

// Rows of a run at these places, one by one.
void multiply_few(const KernelTable &kernels, const Share &share, const Product &part, const QuantizedVectors &vectors,
                  const Piece &piece, TileRange tiles, std::span<const uint32_t> places) {
  std::array<uint64_t, kMostFewRows> rows;
  std::array<float, kMostFewRows> results;
  const uint64_t first = rows_of(piece.rows, tiles).first;
  std::transform(places.begin(), places.end(), rows.begin(), [first](uint32_t place) { return first + place; });
  kernels.multiply_few({.matrix = piece.rows.matrix,
                        .rows = rows.data(),
                        .n = static_cast<uint32_t>(places.size()),
                        .quantized_row = vectors.rows,
                        .y = results.data()});
  const ProductPiece run = piece.part(tiles);
  for (size_t i = 0; i < places.size(); ++i) {
    part.sink->take(share.worker, {run.index, run.first_output + places[i], 1},
                    {part.first_vector, 1, &results[i], kPieceStride});
  }
}

// The results of a run that may be above `least`, in the place of their bounds; what they cost, in rows of a whole run.
uint64_t multiply_run(const KernelTable &kernels, const Share &share, const Product &part,
                      const QuantizedVectors &vectors, const Piece &piece, TileRange tiles, std::optional<float> least,
                      std::span<float> y) {
  std::array<uint32_t, kRunRows> places;
  const uint32_t n = least ? list_above(y, *least, places) : static_cast<uint32_t>(y.size());
  if (least && n <= kMostFewRows) {
    multiply_few(kernels, share, part, vectors, piece, tiles, std::span(places).first(n));
    return n * kFewRowCost;
  }
  multiply_matrix(kernels, part, vectors, {piece.rows, tiles, nullptr, share.worker}, {y.data(), kPieceStride});
  part.sink->take(share.worker, piece.part(tiles), {part.first_vector, 1, y.data(), kPieceStride});
  return y.size();
}

// One vector's results of a piece, whose bounds lie in its place of y: those that the sink wants.
void multiply_wanted(const KernelTable &kernels, const Share &share, const Piece &piece, uint32_t i,
                     BoundedVectors &bounded) {
  const Product part = part_of(share.part, i, i + 1);
  const QuantizedVectors vectors = share.vectors.from(i);
  const ProductPiece whole = piece.whole();
  const std::span<float> y(piece.y + i * kPieceStride, whole.outputs);
  part.sink->take_bounds(share.worker, part.first_vector, whole, y);
  const auto least_of = [&](uint64_t place) {
    return part.sink->least(share.worker, part.first_vector, whole.first_output + place);
  };
  std::optional<float> least = least_of(0);
  uint64_t cost = 0, place = 0;
  for (uint64_t tile = piece.tiles.first / kRunTiles * kRunTiles; tile < piece.tiles.last; tile += kRunTiles) {
    const TileRange tiles = {std::max(tile, piece.tiles.first), std::min(tile + kRunTiles, piece.tiles.last)};
    const std::span<float> run = y.subspan(place, piece.part(tiles).outputs);
    place += run.size();
    if (least && kernels.max_value(run.data(), run.size()) <= *least) continue;
    cost += multiply_run(kernels, share, part, vectors, piece, tiles, least, run);
    least = least_of(place);
  }
  bounded.pass(i, cost, whole.outputs);
}

// Calls body(first, last) for vectors [first, last), as many as possible, of which matches(i) is true.
template <class Matches, class Body>
void each_run(uint32_t n, const Matches &matches, const Body &body) {
  for (uint32_t first = 0; first < n;) {
    uint32_t last = first;
    while (last < n && matches(last)) ++last;
    if (first < last) body(first, last);
    first = last + 1;
  }
}

void multiply_piece_bounded(const KernelTable &kernels, const Share &share, const Piece &piece,
                            BoundedVectors &bounded) {
  const Product &product = share.part;
  const RowRange range = rows_of(piece.rows, piece.tiles);
  const auto has_pair = [&](uint32_t pair) {
    return bounded.has(2 * pair) || (2 * pair + 1 < product.n && bounded.has(2 * pair + 1));
  };
  each_run((product.n + 1) / 2, has_pair, [&](uint32_t first, uint32_t last) {
    const QuantizedVectors vectors = share.vectors.from(2 * first);
    kernels.bound({.matrix = piece.rows.matrix,
                   .first_row = range.first,
                   .last_row = range.last,
                   .n = std::min(2 * last, product.n) - 2 * first,
                   .x = nullptr,
                   .x_stride = 0,
                   .quantized_rows = nullptr,
                   .tables = nullptr,
                   .y = piece.y + 2 * first * kPieceStride,
                   .y_stride = kPieceStride,
                   .then = piece.then,
                   .prefetch = kernels.prefetch},
                  {vectors.bound_tables, vectors.bounds});
  });
  each_run(
      product.n, [&](uint32_t i) { return !bounded.has(i); },
      [&](uint32_t first, uint32_t last) { multiply_piece(kernels, share, piece, first, last); });
  for (uint32_t i = 0; i < product.n; ++i) {
    if (bounded.has(i)) {
      multiply_wanted(kernels, share, piece, i, bounded);
    } else {
      bounded.pass(i);
    }
  }
}

// As multiply_tiles, of pieces, which go through y (piece_elements) to the sink.
void multiply_pieces(const KernelTable &kernels, ActivationLayout layout, const Share &share, float *y) {
  const Product &product = share.part;
  std::optional<BoundedVectors> bounded;
  if (share.vectors.bounds) bounded.emplace(product);
  uint64_t passed = 0, index = 0;  // pieces: of this layout, and of all
  for (const MatrixRows &rows : product.rows) {
    const uint64_t pieces = pieces_of(rows);
    if (activation_layout(*rows.matrix) == layout) {
      const uint64_t last = std::min(share.end, passed + pieces);
      for (uint64_t i = std::max(share.begin, passed); i < last; ++i) {
        const Piece piece = {.rows = rows,
                             .tiles = tiles_of_piece(rows, i - passed),
                             .index = index + i - passed,
                             .then = i + 1 == share.end ? share.then : nullptr,
                             .y = y};
        if (bounded) {
          multiply_piece_bounded(kernels, share, piece, *bounded);
        } else {
          multiply_piece(kernels, share, piece, 0, product.n);
        }
      }
      passed += pieces;
    }
    index += pieces;
  }
}

// -------- All of a product

// How many units a worker takes at a time at least, each of so many rows, of a slice as few as `fewest_rows`. To read
// them takes long beside what it takes to get going, and many vectors are copied for each part (panels.inl.h).
uint64_t least_units(const Product &product, uint64_t rows, uint64_t fewest_rows) {
  constexpr uint32_t kFewVectors = 8;
  constexpr uint64_t kBytes = 128 * 1024, kRowsOfMany = 512;
  const auto enough = [](uint64_t all, uint64_t unit) { return (all + unit - 1) / unit; };
  if (product.n > kFewVectors) return enough(kRowsOfMany, fewest_rows);
  const PackedMatrix &matrix = *product.rows[0].matrix;
  return enough(kBytes, rows * quant::row_bytes(quant::traits(matrix.format), matrix.columns));
}

// Tiles likewise, in whole strips.
uint64_t least_tiles(const Product &product) {
  uint64_t strip = kTileGrain;
  for (const MatrixRows &rows : product.rows) {
    strip = std::max<uint64_t>(strip, code_layout(rows.matrix->format, rows.matrix->packing).strip_tiles);
  }
  return strip * least_units(product, strip * kTileRows, strip * kTileRows);
}

uint64_t least_sectors(const Product &product) {
  uint64_t rows = 0, fewest = UINT64_MAX;
  for (const MatrixRows &slice : product.rows) {
    const uint64_t n = (slice.last_row - slice.first_row) / product.sectors.n;
    rows += n;
    fewest = std::min(fewest, n);
  }
  return least_units(product, rows, fewest);
}

template <class VectorsOf>
void multiply_rows(Threads &threads, const KernelTable &kernels, const Product &product, const QuantizationPlan &plan,
                   const VectorsOf &vectors_of) {
  if (product.sink) {
    const uint64_t least = least_units(product, kPieceRows, kPieceRows);
    const Units units = {count_pieces(product.rows, plan.layout), 1, least};
    divide(
        threads, product, plan.at_once, units, vectors_of,
        [&](uint64_t piece) { return find_piece(product.rows, plan.layout, piece); },
        [&](const Share &share) {
          float *y = product.y + static_cast<uint64_t>(share.worker) * piece_elements(product.n);
          multiply_pieces(kernels, plan.layout, share, y);
        });
  } else if (has_sectors_for(product.rows, product.sectors, threads.count())) {
    const Units units = {product.sectors.n, 1, least_sectors(product), product.then};
    divide(
        threads, product, plan.at_once, units, vectors_of,
        [&](uint64_t sector) { return first_of_sector(product.rows, product.sectors, sector); },
        [&](const Share &share) { multiply_sectors(kernels, share); });
  } else {
    const Units units = {count_tiles(product.rows, plan.layout), kTileGrain, least_tiles(product)};
    divide(
        threads, product, plan.at_once, units, vectors_of,
        [&](uint64_t tile) { return find_tile(product.rows, plan.layout, tile); },
        [&](const Share &share) { multiply_tiles(kernels, plan.layout, share); });
  }
}

void multiply_alone(Threads &threads, const KernelTable &kernels, const Product &product,
                    const QuantizationPlan &plan) {
  multiply_rows(threads, kernels, product, plan, [&](const Product &part, int worker) {
    const QuantizedVectors vectors(part, plan, static_cast<uint64_t>(worker));
    quantize(kernels, part, vectors);
    return vectors;
  });
}

void multiply_together(Threads &threads, const KernelTable &kernels, const Product &product,
                       const QuantizationPlan &plan) {
  each_part(product, plan.at_once, [&](Product part, bool is_last) {
    if (!is_last) part.then = nullptr;
    const QuantizedVectors vectors(part, plan);
    quantize(threads, kernels, part, vectors);
    multiply_rows(threads, kernels, part, plan, [&](const Product &, int) { return vectors; });
  });
}

}  // namespace

uint64_t count_pieces(std::span<const MatrixRows> rows) {
  uint64_t n = 0;
  for (const MatrixRows &part : rows) n += pieces_of(part);
  return n;
}

uint64_t piece_elements(uint32_t n) { return n * kPieceStride; }

uint64_t bytes_of_rows(std::span<const MatrixRows> rows) {
  uint64_t bytes = 0;
  for (const MatrixRows &part : rows) {
    bytes +=
        (part.last_row - part.first_row) * quant::row_bytes(quant::traits(part.matrix->format), part.matrix->columns);
  }
  return bytes;
}

bool has_sectors_for(std::span<const MatrixRows> rows, const Sectors &sectors, int threads) {
  constexpr uint64_t kEnough = 16;  // for each thread: one more or less makes no difference
  const auto workers = static_cast<uint64_t>(threads);
  if (sectors.n == 0 || rows.size() != sectors.slices || !has_one_layout(rows)) return false;
  if (sectors.n % workers != 0 && sectors.n < kEnough * workers) return false;
  return std::all_of(rows.begin(), rows.end(), [&](const MatrixRows &slice) {
    return slice.first_row % kTileRows == 0 && (slice.last_row - slice.first_row) % (sectors.n * kTileRows) == 0;
  });
}

void multiply(Threads &threads, const KernelTable &kernels, const Product &product) {
  for (size_t i = 0; i < product.rows.size(); ++i) {
    const ActivationLayout layout = activation_layout(*product.rows[i].matrix);
    const auto takes_same = [&](const MatrixRows &rows) { return activation_layout(*rows.matrix) == layout; };
    if (std::any_of(product.rows.begin(), product.rows.begin() + i, takes_same)) continue;
    const uint32_t abreast = count_abreast(threads, kernels, product, layout);
    if (abreast > 0) {
      multiply_abreast(threads, kernels, part_of(product, 0, abreast), layout);
      if (abreast == product.n) {
        if (product.then) threads.each_range(product.sectors.n, 1, *product.then);
        continue;
      }
    }
    const Product rest = part_of(product, abreast, product.n);
    const QuantizationPlan plan(kernels, rest, layout, threads.count());
    if (plan.alone) {
      multiply_alone(threads, kernels, rest, plan);
    } else {
      multiply_together(threads, kernels, rest, plan);
    }
  }
}

}  // namespace bonsai::cpu
