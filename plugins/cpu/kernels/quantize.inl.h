// Activations to int8 codes in the order that dot_group (codes_matmul.inl.h) reads them. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kMaxGroup = 128;
constexpr int32_t kInfinityBits = 0x7F800000;
constexpr int32_t kSmallestAmaxBits = 0x04800000;  // 2^-118

// Where one row's parts lie: see quantized_row_bytes.
struct QuantizedRowView {
  int8_t *codes;
  float *scales;
  int32_t *sums;

  QuantizedRowView(std::byte *row, uint64_t columns, uint32_t group) {
    codes = reinterpret_cast<int8_t *>(row);
    scales = reinterpret_cast<float *>(row + columns);
    sums = reinterpret_cast<int32_t *>(row + columns) + columns / group;
  }
};

// Byte j of word w is the code of column kStride * (4 * (w / kStride) + j) + w % kStride: each byte of a word of
// weights holds kStride consecutive columns, and a step takes one column from each byte.
template <int kStride>
void narrow(const int32_t *codes, uint32_t n, int8_t *to) {
  for (uint32_t i = 0; i < n; i += 4 * kStride, to += 4 * kStride) {
    for (uint32_t k = 0; k < kStride; ++k) {
      const auto byte = [&](uint32_t j) { return static_cast<uint32_t>(codes[i + j * kStride + k] & 0xFF) << 8 * j; };
      const uint32_t word = byte(0) | byte(1) | byte(2) | byte(3);
      memcpy(to + 4 * k, &word, sizeof word);
    }
  }
}

// Q4_0's nibbles: weight i and weight 16 + i share a byte.
inline void narrow_nibbles(const int32_t *codes, uint32_t n, int8_t *to) {
  for (uint32_t i = 0; i < n; i += 32) {
    for (uint32_t v = 0; v < 4; ++v) {
      for (uint32_t k = 0; k < 2; ++k, to += 4) {
        for (uint32_t j = 0; j < 4; ++j) to[j] = static_cast<int8_t>(codes[i + 16 * k + 4 * v + j]);
      }
    }
  }
}

inline void narrow_to_order(uint32_t code_bits, const int32_t *codes, uint32_t n, int8_t *to) {
  switch (code_bits) {
    case 1:
      return narrow<8>(codes, n, to);
    case 2:
      return narrow<4>(codes, n, to);
    case 4:
      return narrow_nibbles(codes, n, to);
    default:
      return narrow<1>(codes, n, to);
  }
}

// The bits of the largest magnitude. As integers, magnitudes are ordered: finite, infinite, NaN.
inline int32_t amax_bits(const float *x, uint32_t n) {
  const I32x16 magnitude = splat_i32(INT32_MAX);
  I32x16 largest = splat_i32(0);
  for (uint32_t i = 0; i < n; i += 16) largest = max(largest, bit_and(bits_of(load(x + i)), magnitude));
  return reduce_max(largest);
}

inline void quantize_group(const float *x, ActivationLayout layout, int8_t *codes, float *scale, int32_t *sum) {
  const int32_t bits = amax_bits(x, layout.group);
  if (bits < kSmallestAmaxBits || bits >= kInfinityBits) {
    *scale = bits < kSmallestAmaxBits ? 0.0f : __builtin_nanf("");
    *sum = 0;
    memset(codes, 0, layout.group);
    return;
  }
  float amax;
  memcpy(&amax, &bits, sizeof amax);
  const F32x16 inverse = splat(127.0f / amax);
  alignas(64) int32_t rounded[kMaxGroup];
  I32x16 total = splat_i32(0);
  for (uint32_t i = 0; i < layout.group; i += 16) {
    const I32x16 code = to_i32(mul(load(x + i), inverse));
    total = add(total, code);
    store_i32(rounded + i, code);
  }
  *scale = amax / 127.0f;
  *sum = reduce_add(total);
  narrow_to_order(layout.code_bits, rounded, layout.group, codes);
}

void quantize(const QuantizeArgs &args) {
  const ActivationLayout layout = args.layout;
  const size_t row_bytes = quantized_row_bytes(layout, args.columns);
  for (uint32_t i = 0; i < args.n; ++i) {
    const float *x = args.x + i * args.x_stride;
    const QuantizedRowView row(args.rows + i * row_bytes, args.columns, layout.group);
    for (uint64_t group = 0; group < args.columns / layout.group; ++group) {
      const uint64_t column = group * layout.group;
      quantize_group(x + column, layout, row.codes + column, row.scales + group, row.sums + group);
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
