// Weight formats: one table that says how each is laid out, decoded and encoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bonsai::quant {

// The numbers equal the ABI's BONSAI_DTYPE_*; a test asserts it. New formats are appended.
enum class Format : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kQ8_0 = 3,
  kQ4_0 = 4,
  kQ1_0_G128 = 5,
  kTQ2_0_G128 = 6,
  kQ2_0_G64 = 7,
  kTQ1_0_G128 = 8,
  kTQ2_0 = 9,
  kTQ1_0 = 10,
  kF8_E4M3 = 11,
  kF8_E5M2 = 12,
  kQ4_1 = 13,
  kQ5_0 = 14,
  kQ5_1 = 15,
  kQ2_K = 16,
  kQ3_K = 17,
  kQ4_K = 18,
  kQ5_K = 19,
  kQ6_K = 20,
  kQ8_K = 21,
  kIQ4_NL = 22,
  kIQ4_XS = 23,
};

// What one format is. Rows are whole blocks; `n` below is in weights and a multiple of block_weights. No pointer needs
// any alignment.
struct FormatTraits {
  Format format;
  std::string_view name;       // as the tools spell it: "Q1_0_G128"; matched case-insensitively
  uint32_t gguf_type;          // the type id that we write; TQ2_0_G128 is 142
  std::string_view gguf_name;  // the spelling of GGUF tools: "Q1_0", "PQ2_0"
  uint32_t block_weights;      // weights in a block
  uint32_t block_bytes;
  // n weights from their blocks; bit-exact with ggml's reference dequantiser.
  void (*decode)(const std::byte *blocks, float *weights, size_t n);
  // blocks from n weights; byte-exact with ggml's reference quantiser (tests/data/quant-golden.json), except for FP8,
  // which ggml does not have, and for formats whose encoders are our own: Q2_K to Q6_K and Q8_K, which lose at most
  // 0.5 % more than with ggml's, and IQ4_NL and IQ4_XS, which nobody has compared.
  void (*encode)(const float *weights, std::byte *blocks, size_t n);
  // How many of the blocks hold an infinity or a NaN, in a scale or in a weight.
  uint64_t (*count_nonfinite)(const std::byte *blocks, size_t n);
  // How many of the 2-bit codes are 3, which a ternary kernel cannot represent. nullptr for formats that have no such
  // code.
  uint64_t (*count_code3)(const std::byte *blocks, size_t n);
};

// Every format, in the order of the enum.
std::span<const FormatTraits> formats();

// The traits of one format. `format` must be one of the enumerators.
const FormatTraits &traits(Format format);

// nullptr when the name (any case, either spelling) is not known.
const FormatTraits *find_format(std::string_view name);

// nullptr when the GGUF type id is not known or is ambiguous: id 42 is settled by gguf::resolve_type_42, not here.
const FormatTraits *find_gguf_type(uint32_t gguf_type);

// Bytes of a row of `columns` weights. Precondition: columns is a multiple of block_weights.
size_t row_bytes(const FormatTraits &format, size_t columns);

// IEEE 754 binary16 and bfloat16 <-> binary32; rounding to nearest even; NaN stays NaN (quiet), infinities and
// subnormals kept.
float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t value);
uint16_t float_to_bfloat16(float value);

}  // namespace bonsai::quant
