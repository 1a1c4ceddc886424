// Single rows of signs times one vector of int8 activations, from its codes rather than its tables: what matmul gives
// for these rows, bit for bit, at less than the price of the 32 rows that a lookup serves. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/lookup_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A row's signs in a group, from the first piece of its word on.
template <CodeLayout kLayout>
uint32_t load_signs(const uint8_t *from) {
  constexpr SignPieces kPieces = SignPieces::of(kLayout);
  uint32_t word = 0;
  for (size_t i = 0; i < kPieces.count(); ++i) {
    uint32_t piece = 0;
    memcpy(&piece, from + i * kPieces.stride, kPieces.bytes);
    word |= piece << 8 * kPieces.bytes * i;
  }
  return word;
}

template <CodeLayout kLayout, class Lookup>
float multiply_row_of_signs(const PackedMatrix &matrix, uint64_t row, ConstQuantizedRow x) {
  constexpr uint32_t kGroups = kLayout.activations.groups();
  constexpr size_t kGroupStride = size_t{64} * kLayout.strip_tiles;
  const uint64_t blocks = matrix.columns / kLayout.columns(), tile = row / kTileRows, in_tile = row % kTileRows;
  const TilePlace place = TilePlace::find(kLayout, blocks, tile);
  const auto *data = reinterpret_cast<const uint8_t *>(matrix.data);
  const uint8_t *d = data + place.scales + in_tile * kLayout.scale_bytes();
  const uint8_t *words = data + place.codes + SignPieces::of(kLayout).place(row % (2 * kTileRows));
  float y = 0.0f;
  for (uint64_t block = 0; block < blocks; ++block) {
    uint32_t signs[kGroups];
    int32_t sums[kGroups];
    for (uint32_t group = 0; group < kGroups; ++group) {
      signs[group] = load_signs<kLayout>(words + group * kGroupStride);
    }
    Lookup::sum_row(signs, x.codes, sums);
    int32_t isum = 0;
    for (uint32_t group = 0; group < kGroups; ++group) isum += sums[group] * *x.multipliers[group].even();
    y = __builtin_fmaf(static_cast<float>(isum), Lookup::load_half(d) * *x.scales, y);
    d += place.stride;
    words += place.stride;
    x = x.from(1, kLayout.activations);
  }
  return y == y ? y : __builtin_nanf("");
}

void multiply_few(const FewRowsArgs &args) {
  if constexpr (SignLookup::kExists) {
    const ConstQuantizedRow x(args.quantized_row, args.matrix->columns, kSignsLayout.activations);
    for (uint32_t i = 0; i < args.n; ++i) {
      args.y[i] = multiply_row_of_signs<kSignsLayout, SignLookup>(*args.matrix, args.rows[i], x);
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
