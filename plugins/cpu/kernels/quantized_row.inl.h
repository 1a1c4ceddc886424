// Where the parts of a row of quantised activations lie. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <type_traits>

#include "plugins/cpu/kernels/packed_matrix.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// See quantized_row_bytes. `Byte` is std::byte, or const.
template <class Byte>
struct RowParts {
  template <class T>
  using Part = std::conditional_t<std::is_const_v<Byte>, const T, T>;

  Part<int8_t> *codes;
  Part<float> *scales;
  Part<GroupMultiplier> *multipliers;  // if layout.most_multiplier > 0
  Part<int16_t> *sums;                 // at most 16 codes of 127 each, times 16, or 32 of them
  Part<int32_t> *wide_sums;            // instead, if layout.has_wide_sums()

  RowParts(Byte *row, uint64_t columns, ActivationLayout layout) {
    codes = reinterpret_cast<Part<int8_t> *>(row);
    Byte *behind = row + columns;
    scales = reinterpret_cast<Part<float> *>(behind);
    behind += columns / layout.block * sizeof(float);
    multipliers = reinterpret_cast<Part<GroupMultiplier> *>(behind);
    if (layout.most_multiplier > 0) behind += columns / kActivationGroup * sizeof(GroupMultiplier);
    sums = reinterpret_cast<Part<int16_t> *>(behind);
    wide_sums = reinterpret_cast<Part<int32_t> *>(behind);
  }

  // The same from a block on.
  RowParts from(uint64_t block, ActivationLayout layout) const {
    RowParts rest = *this;
    rest.codes += block * layout.block;
    rest.scales += block;
    rest.multipliers += block * layout.groups();
    rest.sums += block * (layout.block / layout.sum_columns);
    rest.wide_sums += block * (layout.block / layout.sum_columns);
    return rest;
  }
};

using QuantizedRow = RowParts<std::byte>;
using ConstQuantizedRow = RowParts<const std::byte>;

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
