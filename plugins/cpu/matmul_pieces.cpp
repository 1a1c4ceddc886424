#include "plugins/cpu/matmul_pieces.h"

#include <algorithm>

namespace bonsai::cpu {
namespace {

// Whole strips, whose results for 32 vectors take a sixteenth of a usual second-level cache.
constexpr uint64_t kPieceTiles = kPieceRows / kTileRows;

// From row to row of a piece: no multiple of 4 KiB, so that rows do not share the first-level cache's sets.
constexpr uint64_t kPieceStride = (kPieceTiles + 1) * kTileRows;

// Tiles whose bounds are looked at together, by one least result.
constexpr uint64_t kRunTiles = 4;
constexpr uint64_t kRunRows = kRunTiles * kTileRows;

// Rows of a run that are computed by themselves: beyond these, all of it takes less. And what one costs, in rows of a
// run that is computed as a whole.
constexpr uint32_t kMostFewRows = 10;
constexpr uint64_t kFewRowCost = 6;

// Bounds that are looked at together: a cache line of them.
constexpr uint32_t kLookedAt = 16;

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

}  // namespace

uint64_t count_pieces(std::span<const MatrixRows> rows) {
  uint64_t n = 0;
  for (const MatrixRows &part : rows) n += pieces_of(part);
  return n;
}

uint64_t piece_elements(uint32_t n) { return n * kPieceStride; }

uint64_t count_pieces(std::span<const MatrixRows> all, ActivationLayout layout) {
  uint64_t n = 0;
  for (const MatrixRows &rows : all) n += activation_layout(*rows.matrix) == layout ? pieces_of(rows) : 0;
  return n;
}

ReadingPlace find_piece(std::span<const MatrixRows> all, ActivationLayout layout, uint64_t piece) {
  for (const MatrixRows &rows : all) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const uint64_t pieces = pieces_of(rows);
    if (piece < pieces) {
      const TileRange tiles = tiles_of_piece(rows, piece);
      return reading_place(*rows.matrix, tiles.first, tiles.last - tiles.first);
    }
    piece -= pieces;
  }
  return {};
}

PieceWorker::BoundedVectors::BoundedVectors(const Product &product) {
  for (uint32_t i = 0; i < product.n; ++i) {
    if (!product.sink->selects(product.first_vector + i)) pauses_[i].left = kForEver;
  }
}

void PieceWorker::BoundedVectors::pass(uint32_t i, uint64_t cost, uint64_t rows) {
  Pause &pause = pauses_[i];
  if (pause.left > 0) {
    if (pause.left != kForEver) --pause.left;
  } else if (2 * cost > rows) {
    pause.left = pause.length;
    pause.length = std::min(2 * pause.length, kLongest);
  }
}

PieceWorker::PieceWorker(const WorkerPart &part, float *y) : part_(part), y_(y) {
  if (part.vectors.bounds) bounded_.emplace(part.product);
}

float *PieceWorker::y_of(uint32_t vector) const { return y_ + vector * kPieceStride; }

void PieceWorker::multiply(UnitRange pieces, ReadingPlace then) {
  uint64_t passed = 0, index = 0;  // pieces: of this layout, and of all
  for (const MatrixRows &rows : part_.product.rows) {
    const uint64_t n = pieces_of(rows);
    if (activation_layout(*rows.matrix) == part_.vectors.layout) {
      const uint64_t last = std::min(pieces.end, passed + n);
      for (uint64_t i = std::max(pieces.begin, passed); i < last; ++i) {
        multiply_piece({.rows = rows,
                        .tiles = tiles_of_piece(rows, i - passed),
                        .index = index + i - passed,
                        .then = i + 1 == pieces.end ? then : ReadingPlace()});
      }
      passed += n;
    }
    index += n;
  }
}

void PieceWorker::multiply_piece(const Piece &piece) {
  const uint32_t n = part_.product.n;
  if (!bounded_) return multiply_vectors(piece, 0, n);
  const auto has_pair = [&](uint32_t pair) {
    return bounded_->has(2 * pair) || (2 * pair + 1 < n && bounded_->has(2 * pair + 1));
  };
  each_run((n + 1) / 2, has_pair,
           [&](uint32_t first, uint32_t last) { bound(piece, 2 * first, std::min(2 * last, n)); });
  each_run(
      n, [&](uint32_t i) { return !bounded_->has(i); },
      [&](uint32_t first, uint32_t last) { multiply_vectors(piece, first, last); });
  for (uint32_t i = 0; i < n; ++i) {
    if (bounded_->has(i)) {
      multiply_wanted(piece, i);
    } else {
      bounded_->pass(i);
    }
  }
}

// Vectors [first, last) times all of a piece.
void PieceWorker::multiply_vectors(const Piece &piece, uint32_t first, uint32_t last) const {
  const WorkerPart part = part_.of(first, last);
  const Results results = {y_of(first), kPieceStride};
  multiply_matrix(part, {piece.rows, piece.tiles, piece.then}, results);
  const Product &product = part.product;
  product.sink->take(part.worker, piece.whole(), {product.first_vector, product.n, results.y, results.stride});
}

// The bounds of a piece's results for vectors [first, last), of which the first is even, in the place of the results.
void PieceWorker::bound(const Piece &piece, uint32_t first, uint32_t last) const {
  const RowRange range = rows_of(piece.rows, piece.tiles);
  const QuantizedVectors vectors = part_.vectors.from(first);
  part_.kernels.bound({.matrix = piece.rows.matrix,
                       .first_row = range.first,
                       .last_row = range.last,
                       .n = last - first,
                       .x = nullptr,
                       .x_stride = 0,
                       .quantized_rows = nullptr,
                       .tables = nullptr,
                       .y = y_of(first),
                       .y_stride = kPieceStride,
                       .then = piece.then,
                       .prefetch = part_.kernels.prefetch},
                      {vectors.bound_tables, vectors.bounds});
}

// One vector's results of a piece, whose bounds lie in their place: those that the sink wants.
void PieceWorker::multiply_wanted(const Piece &piece, uint32_t vector) {
  const WorkerPart part = part_.of(vector, vector + 1);
  const ProductPiece whole = piece.whole();
  const std::span<float> y(y_of(vector), whole.outputs);
  ProductSink &sink = *part.product.sink;
  const uint32_t of_sink = part.product.first_vector;
  sink.take_bounds(part.worker, of_sink, whole, y);
  const auto least_of = [&](uint64_t place) { return sink.least(part.worker, of_sink, whole.first_output + place); };
  std::optional<float> least = least_of(0);
  uint64_t cost = 0, place = 0;
  for (uint64_t tile = piece.tiles.first / kRunTiles * kRunTiles; tile < piece.tiles.last; tile += kRunTiles) {
    const TileRange tiles = {std::max(tile, piece.tiles.first), std::min(tile + kRunTiles, piece.tiles.last)};
    const std::span<float> run = y.subspan(place, piece.part(tiles).outputs);
    place += run.size();
    if (least && part.kernels.max_value(run.data(), run.size()) <= *least) continue;
    cost += multiply_run(part, piece, tiles, least, run);
    least = least_of(place);
  }
  bounded_->pass(vector, cost, whole.outputs);
}

// The results of a run that may be above `least`, in the place of their bounds; what they cost, in rows of a whole run.
uint64_t PieceWorker::multiply_run(const WorkerPart &part, const Piece &piece, TileRange tiles,
                                   std::optional<float> least, std::span<float> y) {
  std::array<uint32_t, kRunRows> places;
  const uint32_t n = least ? list_above(y, *least, places) : static_cast<uint32_t>(y.size());
  if (least && n <= kMostFewRows) {
    multiply_few(part, piece, tiles, std::span(places).first(n));
    return n * kFewRowCost;
  }
  multiply_matrix(part, {piece.rows, tiles, {}}, {y.data(), kPieceStride});
  const ProductPiece run = piece.part(tiles);
  part.product.sink->take(part.worker, run, {part.product.first_vector, 1, y.data(), kPieceStride});
  return y.size();
}

// Rows of a run at these places, one by one.
void PieceWorker::multiply_few(const WorkerPart &part, const Piece &piece, TileRange tiles,
                               std::span<const uint32_t> places) {
  std::array<uint64_t, kMostFewRows> rows;
  std::array<float, kMostFewRows> results;
  const uint64_t first = rows_of(piece.rows, tiles).first;
  std::transform(places.begin(), places.end(), rows.begin(), [first](uint32_t place) { return first + place; });
  part.kernels.multiply_few({.matrix = piece.rows.matrix,
                             .rows = rows.data(),
                             .n = static_cast<uint32_t>(places.size()),
                             .quantized_row = part.vectors.rows,
                             .y = results.data()});
  const ProductPiece run = piece.part(tiles);
  for (size_t i = 0; i < places.size(); ++i) {
    part.product.sink->take(part.worker, {run.index, run.first_output + places[i], 1},
                            {part.product.first_vector, 1, &results[i], kPieceStride});
  }
}

}  // namespace bonsai::cpu
