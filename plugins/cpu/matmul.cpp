#include "plugins/cpu/matmul.h"

#include <algorithm>
#include <optional>

#include "plugins/cpu/kernels/strip_places.h"
#include "plugins/cpu/matmul_abreast.h"
#include "plugins/cpu/matmul_part.h"
#include "plugins/cpu/matmul_pieces.h"
#include "plugins/cpu/quantized_vectors.h"
#include "plugins/cpu/shared_ranges.h"

namespace bonsai::cpu {
namespace {

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

// Where reading begins with some tiles, counted the same way; nowhere if there are fewer.
ReadingPlace find_tiles(std::span<const MatrixRows> all, ActivationLayout layout, UnitRange units) {
  for (const MatrixRows &rows : all) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const TileRange tiles = tiles_of(rows);
    const uint64_t n = tiles.last - tiles.first;
    if (units.begin < n) {
      return reading_place(*rows.matrix, tiles.first + units.begin, std::min(units.end, n) - units.begin);
    }
    units = {units.begin - n, units.end - n};
  }
  return {};
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

// Where reading begins with some sectors of a slice.
ReadingPlace find_sectors(const MatrixRows &slice, const Sectors &sectors, UnitRange some) {
  const MatrixRows rows = part_of(slice, sectors, some.begin, some.end);
  return reading_place(*slice.matrix, rows.first_row / kTileRows, (rows.last_row - rows.first_row) / kTileRows);
}

// What a worker reads first of the next product: the beginning of what is its own there, of which it may take a part.
ReadingPlace first_of_next(const Threads &threads, const Product &product, int worker) {
  const std::span<const MatrixRows> next = product.next;
  if (next.empty()) return {};
  const auto own_of = [&](uint64_t n, uint64_t grain) {
    return UnitRange{threads.first_of(n, grain, worker), threads.first_of(n, grain, worker + 1)};
  };
  const Sectors &sectors = product.next_sectors;
  if (has_sectors_for(next, sectors, threads.count())) {
    return find_sectors(next[0], sectors, own_of(sectors.n, 1));
  }
  const ActivationLayout layout = activation_layout(*next[0].matrix);
  return find_tiles(next, layout, own_of(count_tiles(next, layout), kTileGrain));
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

// What threads share of a product: `n` tiles, pieces or sectors, whole grains of them to begin with, of which a worker
// takes `least` at a time or more, of at most so many vectors at once; where the weights of some begin; and what is
// done with those that a worker has.
struct Units {
  uint64_t n, grain, least;
  uint32_t at_once;
  FunctionRef<ReadingPlace(UnitRange units)> place_of;
  const SectorStep *then = nullptr;
};

// Units that a worker does one after the other, and what it reads next, if that is known.
struct Share {
  UnitRange units;
  ReadingPlace then;
};

// Calls work(share) for all units and vectors, `work` being what work_of(part) makes of worker_part_of(vectors,
// worker). Every worker does one range of the units, for some vectors after the other.
template <class PartOf, class WorkOf>
void divide_by_vectors(Threads &threads, const Product &product, const Units &units, const PartOf &worker_part_of,
                       const WorkOf &work_of) {
  threads.each_range(units.n, units.grain, [&](uint64_t begin, uint64_t end, int worker) {
    each_part(product, units.at_once, [&](const Product &some, bool is_last) {
      const WorkerPart part = worker_part_of(some, worker);
      work_of(part)({{begin, end}, is_last ? first_of_next(threads, product, worker) : ReadingPlace()});
    });
    if (units.then) (*units.then)(begin, end, worker);
  });
}

// The same. Where all vectors are multiplied at once, it is open which units a worker does.
template <class PartOf, class WorkOf>
void divide(Threads &threads, const Product &product, const Units &units, const PartOf &worker_part_of,
            const WorkOf &work_of) {
  if (product.n > units.at_once || units.n > SharedRanges::kMostUnits)
    return divide_by_vectors(threads, product, units, worker_part_of, work_of);
  threads.each_turns(units.n, units.grain, units.least, [&](SharedRanges::Turns &turns, int worker) {
    std::optional<UnitRange> range = turns.take();
    if (!range) return;
    const WorkerPart part = worker_part_of(product, worker);
    auto work = work_of(part);
    for (; range; range = turns.take()) {
      const std::optional<UnitRange> next = turns.next();
      work({*range, next ? units.place_of(*next) : first_of_next(threads, product, worker)});
      if (units.then) (*units.then)(range->begin, range->end, worker);
    }
  });
}

// Of every matrix that takes its activations as the part has them, the tiles of a share, which are counted through.
void multiply_tiles(const WorkerPart &part, const Share &share) {
  const Product &product = part.product;
  const ActivationLayout layout = part.vectors.layout;
  const auto [begin, end] = share.units;
  uint64_t passed = 0;
  for (const MatrixRows &rows : product.rows) {
    if (activation_layout(*rows.matrix) != layout) continue;
    const TileRange all = tiles_of(rows);
    const uint64_t first = std::max(begin, passed), last = std::min(end, passed + all.last - all.first);
    if (first < last) {
      const ReadingPlace then = last < end ? find_tiles(product.rows, layout, {last, end}) : share.then;
      const TileRange tiles = {all.first + first - passed, all.first + last - passed};
      multiply_matrix(part, {rows, tiles, then}, {product.y + output_of(rows, tiles), product.y_stride});
    }
    passed += all.last - all.first;
  }
}

// Of every matrix, the rows of a share of the sectors.
void multiply_sectors(const WorkerPart &part, const Share &share) {
  const Product &product = part.product;
  const auto [begin, end] = share.units;
  for (size_t i = 0; i < product.rows.size(); ++i) {
    const MatrixRows rows = part_of(product.rows[i], product.sectors, begin, end);
    const bool is_last = i + 1 == product.rows.size();
    const ReadingPlace then = is_last ? share.then : find_sectors(product.rows[i + 1], product.sectors, {begin, end});
    multiply_matrix(part, {rows, tiles_of(rows), then}, {product.y + rows.output, product.y_stride});
  }
}

// -------- How much is worth a turn

uint64_t round_up_quotient(uint64_t all, uint64_t part) { return part == 0 ? all : (all + part - 1) / part; }

// How many units a worker takes at a time at least. With few vectors, what takes long to read beside what a call takes
// to get going; with many, so many rows.
constexpr uint64_t kRowsOfCall = 128;
uint64_t least_of_bytes(uint64_t bytes_of_unit) { return round_up_quotient(128 * 1024, bytes_of_unit); }
constexpr uint32_t kFewVectors = 8;

uint64_t row_bytes(const PackedMatrix &matrix) {
  return quant::row_bytes(quant::traits(matrix.format), matrix.columns);
}

uint64_t round_up_to_multiple(uint64_t n, uint64_t of) { return round_up_quotient(n, of) * of; }

uint64_t strip_tiles(const PackedMatrix &matrix) { return code_layout(matrix.format, matrix.packing).strip_tiles; }

// Of tiles, whole strips: where it is more than one, as many as are read at once or a multiple.
uint64_t least_tiles(const Product &product, ActivationLayout layout) {
  uint64_t strip = kTileGrain, bytes = 0;
  for (const MatrixRows &rows : product.rows) {
    if (activation_layout(*rows.matrix) != layout) continue;
    strip = std::max(strip, strip_tiles(*rows.matrix));
    bytes = std::max(bytes, row_bytes(*rows.matrix));
  }
  const uint64_t rows = strip * kTileRows;
  const uint64_t least = product.n > kFewVectors ? round_up_quotient(kRowsOfCall, rows) : least_of_bytes(rows * bytes);
  return strip * (strip > kTileGrain && least > 1 ? round_up_to_multiple(least, kStripsAtOnce) : least);
}

uint64_t least_pieces(const Product &product, ActivationLayout layout) {
  const uint64_t tiles = least_tiles(product, layout);
  return round_up_quotient(tiles * kTileRows, kPieceRows);
}

// Short strips, which few vectors' kernels read side by side: one by itself is read before it comes at full speed.
uint64_t strips_at_once(const Product &product, const PackedMatrix &matrix) {
  constexpr uint64_t kShort = 64 * 1024;
  const uint64_t strip = strip_tiles(matrix);
  const bool is_short = strip * kTileRows * row_bytes(matrix) < kShort;
  return product.n <= kFewVectors && strip > kTileGrain && is_short ? kStripsAtOnce : 1;
}

// Of sectors, whole strips of every slice.
uint64_t least_sectors(const Product &product) {
  uint64_t bytes = 0, fewest = UINT64_MAX, of_strips = 1;
  for (const MatrixRows &slice : product.rows) {
    const uint64_t rows = (slice.last_row - slice.first_row) / product.sectors.n;
    const uint64_t tiles = strips_at_once(product, *slice.matrix) * strip_tiles(*slice.matrix);
    bytes += rows * row_bytes(*slice.matrix);
    fewest = std::min(fewest, rows);
    of_strips = std::max(of_strips, tiles * kTileRows / rows);
  }
  const uint64_t least = product.n > kFewVectors ? round_up_quotient(kRowsOfCall, fewest) : least_of_bytes(bytes);
  return round_up_to_multiple(least, of_strips);
}

// -------- All of a product

// worker_part_of(vectors, worker): the WorkerPart of some of the vectors, as many as the plan has at once at most.
template <class PartOf>
void multiply_rows(Threads &threads, const Product &product, const QuantizationPlan &plan,
                   const PartOf &worker_part_of) {
  const ActivationLayout layout = plan.layout;
  if (product.sink) {
    const auto place_of = [&](UnitRange pieces) { return find_piece(product.rows, layout, pieces.begin); };
    const Units units = {count_pieces(product.rows, layout), 1, least_pieces(product, layout), plan.at_once, place_of};
    divide(threads, product, units, worker_part_of, [&](const WorkerPart &part) {
      float *y = product.y + static_cast<uint64_t>(part.worker) * piece_elements(product.n);
      return [pieces = PieceWorker(part, y)](const Share &share) mutable { pieces.multiply(share.units, share.then); };
    });
  } else if (has_sectors_for(product.rows, product.sectors, threads.count())) {
    const auto place_of = [&](UnitRange some) { return find_sectors(product.rows[0], product.sectors, some); };
    const Units units = {product.sectors.n, 1, least_sectors(product), plan.at_once, place_of, product.then};
    divide(threads, product, units, worker_part_of,
           [](const WorkerPart &part) { return [&part](const Share &share) { multiply_sectors(part, share); }; });
  } else {
    const auto place_of = [&](UnitRange tiles) { return find_tiles(product.rows, layout, tiles); };
    const Units units = {count_tiles(product.rows, layout), kTileGrain, least_tiles(product, layout), plan.at_once,
                         place_of};
    divide(threads, product, units, worker_part_of,
           [](const WorkerPart &part) { return [&part](const Share &share) { multiply_tiles(part, share); }; });
  }
}

void multiply_alone(Threads &threads, const KernelTable &kernels, const Product &product,
                    const QuantizationPlan &plan) {
  multiply_rows(threads, product, plan, [&](const Product &some, int worker) {
    const QuantizedVectors vectors(some, plan, static_cast<uint64_t>(worker));
    quantize(kernels, some, vectors);
    return WorkerPart{kernels, some, vectors, worker};
  });
}

void multiply_together(Threads &threads, const KernelTable &kernels, const Product &product,
                       const QuantizationPlan &plan) {
  each_part(product, plan.at_once, [&](Product some, bool is_last) {
    if (!is_last) some.then = nullptr;
    const QuantizedVectors vectors(some, plan);
    quantize(threads, kernels, some, vectors);
    multiply_rows(threads, some, plan, [&](const Product &same, int worker) {
      return WorkerPart{kernels, same, vectors, worker};
    });
  });
}

}  // namespace

uint64_t bytes_of_rows(std::span<const MatrixRows> rows) {
  uint64_t bytes = 0;
  for (const MatrixRows &part : rows) bytes += (part.last_row - part.first_row) * row_bytes(*part.matrix);
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
