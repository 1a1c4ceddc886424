#include "core/quant/format.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/quant/codec.h"
#include "core/quant/float_blocks.h"
#include "core/quant/fp8_blocks.h"
#include "core/quant/iq4_blocks.h"
#include "core/quant/k_blocks.h"
#include "core/quant/legacy_blocks.h"
#include "core/quant/one_bit_blocks.h"
#include "core/quant/ternary_blocks.h"

namespace bonsai::quant {
namespace {

// In the order of the enum. A format is a codec and a line here.
constexpr std::array kFormats = {
    make_traits<F32>(Format::kF32, "F32", 0, "F32"),
    make_traits<F16>(Format::kF16, "F16", 1, "F16"),
    make_traits<BF16>(Format::kBF16, "BF16", 30, "BF16"),
    make_traits<Q8_0>(Format::kQ8_0, "Q8_0", 8, "Q8_0"),
    make_traits<Q4_0>(Format::kQ4_0, "Q4_0", 2, "Q4_0"),
    make_traits<Q1_0_G128>(Format::kQ1_0_G128, "Q1_0_G128", 41, "Q1_0"),
    make_traits<TQ2_0_G128>(Format::kTQ2_0_G128, "TQ2_0_G128", 142, "PQ2_0"),
    make_traits<Q2_0_G64>(Format::kQ2_0_G64, "Q2_0_G64", 42, "Q2_0"),
    make_traits<TQ1_0_G128>(Format::kTQ1_0_G128, "TQ1_0_G128", 143, "PTQ1_0"),
    make_traits<TQ2_0>(Format::kTQ2_0, "TQ2_0", 35, "TQ2_0"),
    make_traits<TQ1_0>(Format::kTQ1_0, "TQ1_0", 34, "TQ1_0"),
    make_traits<F8_E4M3>(Format::kF8_E4M3, "F8_E4M3", 43, "F8_E4M3"),
    make_traits<F8_E5M2>(Format::kF8_E5M2, "F8_E5M2", 44, "F8_E5M2"),
    make_traits<Q4_1>(Format::kQ4_1, "Q4_1", 3, "Q4_1"),
    make_traits<Q5_0>(Format::kQ5_0, "Q5_0", 6, "Q5_0"),
    make_traits<Q5_1>(Format::kQ5_1, "Q5_1", 7, "Q5_1"),
    make_traits<Q2_K>(Format::kQ2_K, "Q2_K", 10, "Q2_K"),
    make_traits<Q3_K>(Format::kQ3_K, "Q3_K", 11, "Q3_K"),
    make_traits<Q4_K>(Format::kQ4_K, "Q4_K", 12, "Q4_K"),
    make_traits<Q5_K>(Format::kQ5_K, "Q5_K", 13, "Q5_K"),
    make_traits<Q6_K>(Format::kQ6_K, "Q6_K", 14, "Q6_K"),
    make_traits<Q8_K>(Format::kQ8_K, "Q8_K", 15, "Q8_K"),
    make_traits<IQ4_NL>(Format::kIQ4_NL, "IQ4_NL", 20, "IQ4_NL"),
    make_traits<IQ4_XS>(Format::kIQ4_XS, "IQ4_XS", 23, "IQ4_XS"),
};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (static_cast<size_t>(kFormats[i].format) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

// Id 42 is Q2_0_G64 in ggml's files and TQ2_0_G128 in PrismML's older ones; only the file around it can tell.
constexpr uint32_t kAmbiguousType = 42;

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return to_lower(x) == to_lower(y); });
}

}  // namespace

std::span<const FormatTraits> formats() { return kFormats; }

const FormatTraits &traits(Format format) {
  assert(static_cast<size_t>(format) < kFormats.size());
  return kFormats[static_cast<size_t>(format)];
}

const FormatTraits *find_format(std::string_view name) {
  for (const FormatTraits &format : kFormats) {
    if (equal_ignoring_case(name, format.name) || equal_ignoring_case(name, format.gguf_name)) return &format;
  }
  return nullptr;
}

const FormatTraits *find_gguf_type(uint32_t gguf_type) {
  if (gguf_type == kAmbiguousType) return nullptr;
  for (const FormatTraits &format : kFormats) {
    if (format.gguf_type == gguf_type) return &format;
  }
  return nullptr;
}

size_t row_bytes(const FormatTraits &format, size_t columns) {
  assert(columns % format.block_weights == 0);
  return columns / format.block_weights * format.block_bytes;
}

}  // namespace bonsai::quant
