// Upper bounds of products with signs whose sums are looked up in tables, for about half of what the products take. Who
// wants the largest few results needs only those exactly that the bounds do not rule out.
//
// A bound is a sum of the same looked-up values, each rounded up to a multiple of a unit, so that a byte holds it: two
// vectors share a table, and one lookup serves both.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu {

// Groups of activations that share a unit, and their columns: a block of weights.
constexpr uint32_t kBoundGroups = 4;
constexpr uint64_t kBoundColumns = 128;

// Beyond, the roundings of floats might add up to more than the bounds leave room for.
constexpr uint64_t kMostBoundColumns = 65536;

// How the bytes of one vector's kBoundColumns are read.
struct UnitBound {
  float unit;     // what 1 stands for, times the weights' scale. NaN: the bound is infinite
  int32_t start;  // added to the sum of the bytes: not less than the sum of the activations then, in units
  float spread;   // the same less this, times the weights' scale, is not more than it
};

// Of n vectors; the last one of an odd number goes with itself.
struct BoundTables {
  const int16_t *tables;    // (ceil(n / 2), columns / 32, KernelTable::table_elements)
  const UnitBound *bounds;  // (2 ceil(n / 2), columns / kBoundColumns)
};

// The values of a table, and how they become bytes (kernels/bounds_matmul.inl.h).
struct TableRange {
  int32_t least, greatest;
};
struct TableNarrowing {
  int32_t least;
  uint16_t factor;
};

struct TabulateBoundsArgs {
  const std::byte *rows;  // (n, quantized_row_bytes): as quantize made them, with its tables
  const int16_t *tables;  // (n, columns / 32, KernelTable::table_elements)
  uint32_t n;
  uint64_t columns;  // a multiple of kBoundColumns, and not more than kMostBoundColumns
  ActivationLayout layout;
  int16_t *bound_tables;  // written: what BoundTables holds
  UnitBound *bounds;
};

}  // namespace bonsai::cpu
