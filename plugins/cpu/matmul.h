// Matrix products over stacked matrices of mixed formats, on all threads of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/base/function_ref.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

// Rows [first_row, last_row) of a matrix, and the output element that the first of them is.
struct MatrixRows {
  const PackedMatrix *matrix;
  uint64_t first_row;
  uint64_t last_row;
  uint64_t output;
};

constexpr uint64_t kPieceRows = 512;

// At most so many rows of one of a product's matrices, fewer where it begins or ends, and where only some are wanted.
struct ProductPiece {
  uint64_t index;  // in the order of Product::rows; of what this is a part of
  uint64_t first_output, outputs;
};

// Takes a product's results in pieces, each while it is in the cache of the core that computed it. A sink that selects
// the largest few of a vector's results need not take them all: it may be shown what they are at most, and say which
// rows it wants (kernels/bounds.h).
class ProductSink {
 public:
  // y: (n, outputs), `stride` elements from row to row, for vectors [first, first + n). The sink may change it.
  struct Results {
    uint32_t first, n;
    float *y;
    uint64_t stride;
  };
  // Called by all workers at once. Together the pieces are every output of every vector, in any order, but for those of
  // vectors that are selected from that least() has said are not wanted.
  virtual void take(int worker, const ProductPiece &piece, const Results &results) = 0;

  // Whether the sink wants only some of a vector's results, which it can tell by bounds.
  virtual bool selects(uint32_t /*vector*/) const { return false; }
  // Bounds of a piece's results for one vector, before any of them is taken. The sink may change them as it will change
  // the results: none is larger than its bound then.
  virtual void take_bounds(int /*worker*/, uint32_t /*vector*/, const ProductPiece &, std::span<float> /*bounds*/) {}
  // Results of outputs from `first_output` on that are no larger are not wanted; nothing: any may be. It rises with
  // what a worker's calls of take() have brought.
  virtual std::optional<float> least(int /*worker*/, uint32_t /*vector*/, uint64_t /*first_output*/) const {
    return std::nullopt;
  }

 protected:
  ~ProductSink() = default;
};

// A product's rows are slices, one below the other, which consist of equal parts that belong together: head i of q, of
// k and of v. A worker that computes a sector of one slice computes that of all of them, and has the results in its
// cache for what comes next.
struct Sectors {
  uint64_t n = 0;  // of every slice; 0: there are none
  size_t slices = 0;
};

// What comes next: a step on sectors [first, last) of all vectors' results, which a worker does once for all or for
// some after the other. It must leave the product's x alone.
using SectorStep = FunctionRef<void(uint64_t first, uint64_t last, int worker)>;

// Scratch for quantised vectors, and for panels of these or of floats, aligned to a cache line. Every worker's part of
// it is at its place in all products that share it: what another core has written takes long to be written anew.
struct ActivationScratch {
  std::byte *data;
  uint64_t of_worker;            // bytes from one's to the next one's
  std::byte *abreast = nullptr;  // every worker's kAbreastScratchBytes; nullptr: no vectors are multiplied abreast
  std::byte *many = nullptr;  // every worker's many_bytes, which is KernelTable::scratch_bytes; nullptr: there is none
  uint64_t many_bytes = 0;
  std::byte *panels = nullptr;  // of all vectors, which workers share; nullptr: there is no room for them
  uint64_t panels_bytes = 0;

  std::byte *many_of(int worker) const { return many ? many + static_cast<uint64_t>(worker) * many_bytes : nullptr; }
};

struct Product {
  std::span<const MatrixRows> rows;  // all of `columns` columns
  uint64_t columns;
  uint32_t n;                     // vectors
  const float *x;                 // (n, x_stride)
  uint64_t x_stride;              // elements from row to row of x, `columns` of which count
  float *y;                       // (n, y_stride); with a sink, (threads, piece_elements(n)): scratch
  uint64_t y_stride;              // elements from row to row of y
  ActivationScratch activations;  // activation_room(n, columns, threads), or of more vectors or columns
  Sectors sectors = {};
  const SectorStep *then = nullptr;       // on all sectors; only where has_sectors_for() the threads
  std::span<const MatrixRows> next = {};  // of the product that comes after this one: asked for in time
  Sectors next_sectors = {};
  ProductSink *sink = nullptr;  // takes the results instead of y
  uint32_t first_vector = 0;    // what the sink counts these vectors from
};

// The pieces of a product, however many threads there are.
uint64_t count_pieces(std::span<const MatrixRows> rows);

// What one worker's piece of n vectors takes.
uint64_t piece_elements(uint32_t n);

// What kernels take for many vectors, beside what all take.
struct KernelNeeds {
  AbreastKernel abreast = {};
  uint64_t many_bytes = 0;  // KernelTable::scratch_bytes
  PanelKernel panels = {};

  KernelNeeds() = default;
  explicit KernelNeeds(const KernelTable &kernels);
};

// What so many threads need for n quantised vectors at most, in any format's layout, tables of sums included; and, with
// kernels that multiply vectors abreast, for that, if there can be enough of them; and many_bytes for each; and for the
// vectors' panels, whatever the formats are: of all kinds that a product's matrices want, as long as one kind of as
// many columns as they have altogether would fit.
struct ActivationRoom {
  uint64_t bytes, of_worker;
  uint64_t abreast_at = 0, many_at = 0, panels_at = 0;  // from the beginning; 0: there is none
  uint64_t many_bytes = 0, panels_bytes = 0;

  ActivationScratch in(std::byte *memory) const {
    const auto place = [&](uint64_t at) { return at > 0 ? memory + at : nullptr; };
    return {memory, of_worker, place(abreast_at), place(many_at), many_bytes, place(panels_at), panels_bytes};
  }
};
ActivationRoom activation_room(uint64_t n, uint64_t columns, int threads, const KernelNeeds &needs = {});

// What the weights of these rows occupy in the file's format.
uint64_t bytes_of_rows(std::span<const MatrixRows> rows);

// Whether so many threads can have whole sectors of a product: a slice is one matrix, all take the same activations,
// sectors are whole tiles, and no thread gets much more than another.
bool has_sectors_for(std::span<const MatrixRows> rows, const Sectors &sectors, int threads);

// y[i][rows.output + r] = W[r] x[i], to y or to the sink. Matrices that take the same activations share their
// quantisation.
void multiply(Threads &threads, const KernelTable &kernels, const Product &product);

}  // namespace bonsai::cpu
