#include "core/quant/format.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "core/quant/codec.h"
#include "core/quant/float_blocks.h"
#include "core/quant/legacy_blocks.h"
#include "core/quant/low_bit_blocks.h"

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
