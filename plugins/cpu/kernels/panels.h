// Vectors in the order in which products of many of them read them: panels of some side by side, filled once for all
// rows of a matrix and all threads. panels.inl.h has what a panel's block of quantised vectors is, float_panels.inl.h
// what one of floats is, and f8_panels.inl.h one for weights of FP8.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/packed_matrix.h"

namespace bonsai::cpu {

// Quantised vectors of a panel: what is multiplied at once, two, four or six of them, divides it (panel_matmul.inl.h).
constexpr uint32_t kPanelVectors = 12;

// Panels are filled step by step, a panel's steps first. Different ones may be taken at the same time.
struct FillPanelsArgs {
  const std::byte *quantized_rows;  // (n, quantized_row_bytes), without tables; unused by vectors that stay floats
  const float *x;                   // (n, x_stride), used by these
  size_t x_stride;
  uint32_t n;
  uint64_t columns;
  uint64_t begin, end;  // steps, of panel_steps(kind, n, columns)
  std::byte *panels;    // panels_bytes(kind, n, columns), aligned to 64
};

// What the panels of one format's matrices are. Formats may have the same.
struct PanelKind {
  uint32_t vectors;        // of a panel; the last one may have fewer, in as much room
  uint32_t block_columns;  // of floats, the last block may have fewer, in as much room
  size_t block_bytes;      // of as many vectors
  size_t head_bytes = 0;   // before a panel's blocks, whole lines
  void (*fill)(const FillPanelsArgs &args);
};

// A tier's panels, if it multiplies from any.
struct PanelKernel {
  // Those with which n vectors are multiplied with a matrix; nullptr: none.
  const PanelKind *(*kind_of)(const PackedMatrix &matrix, uint32_t n) = nullptr;
  uint64_t most_bytes = 0;  // of a panel of quantised vectors, for 256 columns of any format
  const PanelKind *of_floats = nullptr, *of_f8 = nullptr;  // of vectors that stay floats, for all such formats
};

uint64_t panel_steps(const PanelKind &kind, uint32_t n, uint64_t columns);
uint64_t panels_bytes(const PanelKind &kind, uint32_t n, uint64_t columns);

// What panels of n vectors take at most.
uint64_t panels_room(const PanelKernel &kernel, uint32_t n, uint64_t columns);

}  // namespace bonsai::cpu
