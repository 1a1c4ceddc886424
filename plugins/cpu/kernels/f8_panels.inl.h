// Panels of vectors that weights of FP8 are multiplied with (panels.h), as panel_f8.inl.h reads them: six of them side
// by side, column by column, normalized as kernels.h says and divided by what weights are lifted by. Part of a tier:
// see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/f8_matmul.inl.h"
#include "plugins/cpu/kernels/panel_sizes.h"
#include "plugins/cpu/kernels/panels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// As many vectors as registers hold two sums of for each of two tiles: a block's, and all so far.
constexpr uint32_t kF8PanelVectors = 6;

// The power of two that weights are multiplied by, and vectors divided: codes that are subnormal make floats that are,
// and some processors take much longer for such factors.
constexpr int kF8Lift = 4;

// What a panel begins with.
struct alignas(kPackedAlignment) F8PanelHead {
  int32_t exponents[kF8PanelVectors];  // kernels.h's k of each vector
  int32_t takes_lifted;  // whether no vector has values so small beside its largest that the lift would cost them bits
};

// A panel: its head, and columns of vectors side by side, whole blocks of them.
template <class Byte>
class F8Panel {
 public:
  using Head = std::conditional_t<std::is_const_v<Byte>, const F8PanelHead, F8PanelHead>;
  using Column = std::conditional_t<std::is_const_v<Byte>, const float, float>[kF8PanelVectors];

  F8Panel(Byte *panels, uint64_t columns, uint32_t panel) : begin_(panels + panel * bytes(columns)) {}

  static constexpr size_t bytes(uint64_t columns) { return sizeof(F8PanelHead) + columns * sizeof(Column); }
  static_assert(kF8Columns * sizeof(Column) % kPackedAlignment == 0);

  Head &head() const { return *reinterpret_cast<Head *>(begin_); }
  Column *columns() const { return reinterpret_cast<Column *>(begin_ + sizeof(F8PanelHead)); }

 private:
  Byte *begin_;
};

// The vector's smallest magnitude but 0, as the integer that its bits are; 0 if there is none.
inline int32_t smallest_magnitude(const float *x, uint64_t columns) {
  const I32x16 magnitude = splat_i32(INT32_MAX), least = splat_i32(INT32_MIN);
  I32x16 most = least;  // of INT32_MIN - magnitude, which wraps around but for 0
  for (uint64_t i = 0; i < columns; i += 16) most = max(most, sub(least, bit_and(bits_of(load(x + i)), magnitude)));
  return static_cast<int32_t>((uint32_t{1} << 31) - static_cast<uint32_t>(reduce_max(most)));
}

// exponent: the vector's, to normalize it.
inline bool takes_lifted(const float *x, uint64_t columns, int exponent) {
  constexpr int kMantissaOfFloat = 23, kLeast = -126 + kF8Lift;  // exponents
  const int32_t smallest = smallest_magnitude(x, columns);
  if (smallest == 0) return true;
  const int field = smallest >> kMantissaOfFloat, of_smallest = field > 0 ? field - 127 : -126 - kMantissaOfFloat;
  return of_smallest + exponent >= kLeast;
}

// See FillPanelsArgs. What lies beyond the last vector is of no account, but a number: that vector again.
inline void fill_f8_panels(const FillPanelsArgs &args) {
  const uint64_t steps = steps_of_panel(args.columns);
  for (uint64_t step = args.begin; step < args.end; ++step) {
    const auto panel = static_cast<uint32_t>(step / steps);
    const F8Panel<std::byte> to(args.panels, args.columns, panel);
    const uint64_t first = step % steps * kPassColumns, last = std::min(first + kPassColumns, args.columns);
    if (first == 0) to.head().takes_lifted = 1;
    for (uint32_t t = 0; t < kF8PanelVectors; ++t) {
      const float *x = args.x + std::min(panel * kF8PanelVectors + t, args.n - 1) * args.x_stride;
      const int exponent = exponent_to_normalize(x, args.columns);  // not from the head: its step may come later
      if (first == 0) {
        to.head().exponents[t] = exponent;
        if (!takes_lifted(x, args.columns, exponent)) to.head().takes_lifted = 0;
      }
      for (uint64_t i = first; i < last; i += 16) {
        alignas(kPackedAlignment) float values[16];
        store(values, mul(times_power_of_two(load(x + i), exponent), power_of_two(-kF8Lift)));
        for (uint32_t j = 0; j < 16; ++j) to.columns()[i + j][t] = values[j];
      }
    }
  }
}

constexpr PanelKind kF8PanelKind = {.vectors = kF8PanelVectors,
                                    .block_columns = kF8Columns,
                                    .block_bytes = kF8PanelVectors * kF8Columns * sizeof(float),
                                    .head_bytes = sizeof(F8PanelHead),
                                    .fill = fill_f8_panels};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
