// The activations of a product, quantised as its matrices take them, where they lie in the caller's scratch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/threads.h"
#include "plugins/cpu/vector_panels.h"

namespace bonsai::cpu {

// Vectors whose sums are looked up in one go, at most.
constexpr uint32_t kMostLookupVectors = 32;

// How the vectors of a product are quantised for the matrices that take them in one layout.
struct QuantizationPlan {
  ActivationLayout layout;  // block 0: they stay float
  bool bounded;             // results are bounded before they are computed (kernels/bounds.h)
  uint64_t table_elements;  // of a vector; 0: sums are not looked up
  VectorPanels panels;      // to be filled, if any; then sums are not looked up
  bool alone;               // every thread quantises for itself all that it multiplies with
  uint32_t at_once;         // vectors that are quantised and multiplied together

  QuantizationPlan(const KernelTable &kernels, const Product &product, ActivationLayout layout, int threads);
  static QuantizationPlan without_tables(ActivationLayout layout, uint32_t n) { return {layout, n}; }

 private:
  QuantizationPlan(ActivationLayout layout, uint32_t n)
      : layout(layout), bounded(false), table_elements(0), panels(), alone(false), at_once(n) {}
};

// The quantised vectors of a product: rows, then tables if the kernels want them, then tables of bounds.
struct QuantizedVectors {
  ActivationLayout layout;  // block 0: they stay float
  uint64_t row_bytes;
  std::byte *rows;
  uint64_t table_elements;  // of a vector; 0 if it has none
  int16_t *tables;          // (n, table_elements) or nullptr
  uint64_t bounds_of_vector;
  int16_t *bound_tables;  // as BoundTables has them, or nullptr
  UnitBound *bounds;
  VectorPanels panels;  // of all, if any

  // Room for as many as the plan has at once, in a worker's part of the scratch; the first one's if there is but one.
  QuantizedVectors(const Product &product, const QuantizationPlan &plan, uint64_t worker = 0);

  // The same from a vector on, with bounds an even one, and without panels, which are of all vectors.
  QuantizedVectors from(uint32_t vector) const {
    QuantizedVectors rest = *this;
    rest.rows += vector * row_bytes;
    rest.panels = {};
    if (tables) rest.tables += vector * table_elements;
    if (bound_tables) {
      rest.bound_tables += vector / 2 * table_elements;
      rest.bounds += vector * bounds_of_vector;
    }
    return rest;
  }
};

// Vectors [first, last) of a product.
Product part_of(const Product &product, uint32_t first, uint32_t last);

// Quantises all vectors of a product, which have no panels, and makes their tables.
void quantize(const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors);

// The same, and fills their panels, on all threads, which share the vectors, or the columns of one if there are not
// enough.
void quantize(Threads &threads, const KernelTable &kernels, const Product &product, const QuantizedVectors &vectors);

}  // namespace bonsai::cpu
