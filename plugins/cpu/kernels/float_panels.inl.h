// Panels of vectors that stay floats (panels.h), as float_matmul.inl.h reads them: T of them side by side, a span of 16
// columns of each next to each other. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/panel_sizes.h"
#include "plugins/cpu/kernels/panels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint64_t kSpan = 16;

// `columns` of T vectors to (spans, T, kSpan), filled up with zeros. They lie `stride` elements apart, often a multiple
// of 4 KiB, where they would share a cache's sets.
template <int T>
void put_side_by_side(const float *x, size_t stride, uint64_t columns, float *to) {
  for (int t = 0; t < T; ++t, x += stride) {
    float *place = to + kSpan * t;
    uint64_t i = 0;
    for (; i + kSpan <= columns; i += kSpan, place += kSpan * T) store(place, load(x + i));
    if (i < columns) store(place, load_partial(x + i, columns - i));
  }
}

// Where the vectors from `token` on begin: every one takes whole spans.
template <class Float>
Float *float_panel(Float *panels, uint64_t columns, uint32_t token) {
  return panels + token * ((columns + kSpan - 1) / kSpan * kSpan);
}

// Eight vectors, of the last panel four and then two. A last one by itself is multiplied as it lies.
constexpr uint32_t kFloatPanelVectors = 8;

// See FillPanelsArgs.
inline void fill_float_panels(const FillPanelsArgs &args) {
  const uint64_t steps = steps_of_panel(args.columns);
  for (uint64_t step = args.begin; step < args.end; ++step) {
    auto token = static_cast<uint32_t>(step / steps) * kFloatPanelVectors;
    const uint32_t n = std::min(kFloatPanelVectors, args.n - token);
    const uint64_t column = step % steps * kPassColumns,
                   columns = std::min<uint64_t>(kPassColumns, args.columns - column);
    const auto put = [&]<uint32_t T>(std::integral_constant<uint32_t, T>) {
      if ((n & T) == 0) return;
      float *to = float_panel(reinterpret_cast<float *>(args.panels), args.columns, token) + column * T;
      put_side_by_side<T>(args.x + token * args.x_stride + column, args.x_stride, columns, to);
      token += T;
    };
    put(std::integral_constant<uint32_t, 8>());
    put(std::integral_constant<uint32_t, 4>());
    put(std::integral_constant<uint32_t, 2>());
  }
}

constexpr PanelKind kFloatPanelKind = {.vectors = kFloatPanelVectors,
                                       .block_columns = kSpan,
                                       .block_bytes = kFloatPanelVectors * kSpan * sizeof(float),
                                       .fill = fill_float_panels};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
