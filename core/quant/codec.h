// How a format joins the table: a codec says what one block is, and the loops over blocks are written here, once.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "core/quant/format.h"

namespace bonsai::quant {

static_assert(std::endian::native == std::endian::little, "blocks are little-endian and read in place");

// A codec has
//   static constexpr uint32_t kWeights, kBytes;                        // one block
//   static void decode(const std::byte *block, float *weights);        // kWeights values
//   static void encode(const float *weights, std::byte *block);
// and may have
//   static bool finite(const std::byte *block);                        // whether all decoded weights are; otherwise
//   the
//                                                                      // block is decoded to find out
//   static uint64_t count_code3(const std::byte *block);               // for codes 0 to 2 that have room for a fourth

template <class T>
T load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte *to, T value) {
  std::memcpy(to, &value, sizeof value);
}

inline float load_half(const std::byte *from) { return half_to_float(load<uint16_t>(from)); }
inline void store_half(std::byte *to, float value) { store(to, float_to_half(value)); }

// Whether the half stored at `from` is neither infinite nor NaN.
inline bool half_is_finite(const std::byte *from) { return (load<uint16_t>(from) & 0x7C00) != 0x7C00; }

template <class Codec>
void decode_blocks(const std::byte *blocks, float *weights, size_t n) {
  for (size_t i = 0; i < n; i += Codec::kWeights, blocks += Codec::kBytes) Codec::decode(blocks, weights + i);
}

template <class Codec>
void encode_blocks(const float *weights, std::byte *blocks, size_t n) {
  for (size_t i = 0; i < n; i += Codec::kWeights, blocks += Codec::kBytes) Codec::encode(weights + i, blocks);
}

template <class Codec>
bool block_is_finite(const std::byte *block) {
  if constexpr (requires { Codec::finite(block); }) {
    return Codec::finite(block);
  } else {
    float weights[Codec::kWeights];
    Codec::decode(block, weights);
    for (const float weight : weights) {
      if (!std::isfinite(weight)) return false;
    }
    return true;
  }
}

template <class Codec>
uint64_t count_nonfinite_blocks(const std::byte *blocks, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i += Codec::kWeights, blocks += Codec::kBytes) count += !block_is_finite<Codec>(blocks);
  return count;
}

template <class Codec>
uint64_t count_code3_in_blocks(const std::byte *blocks, size_t n) {
  uint64_t count = 0;
  for (size_t i = 0; i < n; i += Codec::kWeights, blocks += Codec::kBytes) count += Codec::count_code3(blocks);
  return count;
}

// The row of the table for one codec.
template <class Codec>
constexpr FormatTraits make_traits(Format format, std::string_view name, uint32_t gguf_type,
                                   std::string_view gguf_name) {
  FormatTraits traits{.format = format,
                      .name = name,
                      .gguf_type = gguf_type,
                      .gguf_name = gguf_name,
                      .block_weights = Codec::kWeights,
                      .block_bytes = Codec::kBytes,
                      .decode = decode_blocks<Codec>,
                      .encode = encode_blocks<Codec>,
                      .count_nonfinite = count_nonfinite_blocks<Codec>,
                      .count_code3 = nullptr};
  if constexpr (requires(const std::byte *block) { Codec::count_code3(block); }) {
    traits.count_code3 = count_code3_in_blocks<Codec>;
  }
  return traits;
}

}  // namespace bonsai::quant
