// Faults of the faulty backend that show only where its caller has another floating-point environment than most.
#pragma once

#include <bonsai/backend.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace bonsai::test {

// Rounded to multiples of 2^-12 as the caller rounds: to nearest, float32's bound is kept.
inline std::vector<float> rounded_vectors(const float *x, uint64_t n) {
  std::vector<float> rounded(x, x + n);
  for (float &value : rounded) value = std::nearbyint(value * 0x1p12f) * 0x1p-12f;
  return rounded;
}

// A part of Q8_0 whose scales were decoded by way of a float32 that is subnormal where the f16 is: they are 0 where the
// caller takes subnormals for zero.
inline std::vector<std::byte> with_decoded_scales(const bonsai_weight_part &part) {
  constexpr size_t kBlockBytes = 34;
  const auto *data = static_cast<const std::byte *>(part.data);
  std::vector<std::byte> bytes(data, data + part.data_bytes);
  for (size_t at = 0; at + kBlockBytes <= bytes.size(); at += kBlockBytes) {
    uint16_t half;
    std::memcpy(&half, &bytes[at], sizeof half);
    volatile float scale = std::bit_cast<float>((half & 0x7FFFu) << 13);
    scale = scale * 0x1p112f;
    if (scale == 0) std::memset(&bytes[at], 0, sizeof half);
  }
  return bytes;
}

}  // namespace bonsai::test
