// Products whose results go to a sink, in pieces of at most kPieceRows rows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "plugins/cpu/matmul.h"
#include "plugins/cpu/matmul_part.h"
#include "plugins/cpu/quantized_vectors.h"
#include "plugins/cpu/shared_ranges.h"

namespace bonsai::cpu {

// The pieces of matrices that take their activations in `layout`, which are counted through; where reading begins with
// one of them, nowhere if there are fewer.
uint64_t count_pieces(std::span<const MatrixRows> rows, ActivationLayout layout);
ReadingPlace find_piece(std::span<const MatrixRows> rows, ActivationLayout layout, uint64_t piece);

// A worker, and the pieces that it computes.
class PieceWorker {
 public:
  // `y`: piece_elements() of the part's vectors, of this worker alone.
  PieceWorker(const WorkerPart &part, float *y);

  // Gives these pieces' results to the sink. `then`: what the worker reads next, if that is known.
  void multiply(UnitRange pieces, ReadingPlace then);

 private:
  // A piece of a product's rows, whose results go through y_ to the sink.
  struct Piece {
    const MatrixRows &rows;
    TileRange tiles;
    uint64_t index;
    ReadingPlace then;

    // Of some of its tiles.
    ProductPiece part(TileRange of) const {
      const RowRange range = rows_of(rows, of);
      return {index, output_of(rows, of), range.last - range.first};
    }
    ProductPiece whole() const { return part(tiles); }
  };

  // Of which vectors the next piece's results are bounded before any is computed. At first none's are, as there is
  // nothing that they could be too small for; nor for some pieces after one whose wanted results took half of what all
  // of them would have: the bounds take the other half.
  class BoundedVectors {
   public:
    explicit BoundedVectors(const Product &product);

    bool has(uint32_t i) const { return pauses_[i].left == 0; }

    // A piece; if its results were bounded, what the wanted ones cost in rows, and how many it has.
    void pass(uint32_t i, uint64_t cost = 0, uint64_t rows = 0);

   private:
    static constexpr uint32_t kForEver = UINT32_MAX, kLongest = 16;
    struct Pause {
      uint32_t left = 1, length = 1;
    };
    std::array<Pause, kMostLookupVectors> pauses_;
  };

  float *y_of(uint32_t vector) const;
  void multiply_piece(const Piece &piece);
  void multiply_vectors(const Piece &piece, uint32_t first, uint32_t last) const;
  void bound(const Piece &piece, uint32_t first, uint32_t last) const;
  void multiply_wanted(const Piece &piece, uint32_t vector);
  static uint64_t multiply_run(const WorkerPart &part, const Piece &piece, TileRange tiles, std::optional<float> least,
                               std::span<float> y);
  static void multiply_few(const WorkerPart &part, const Piece &piece, TileRange tiles,
                           std::span<const uint32_t> places);

  const WorkerPart &part_;
  float *y_;  // (n, kPieceStride)
  std::optional<BoundedVectors> bounded_;
};

}  // namespace bonsai::cpu
