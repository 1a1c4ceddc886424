// Which formats, in which packings, the kernel tests go through, and what they are called.
#pragma once

#include "tests/plugins/cpu/kernels_support.h"

namespace bonsai::cpu {

inline std::string packed_name_of(PackedFormat which) {
  const std::string name = name_of(quant::traits(which.format).name);
  switch (which.packing) {
    case Packing::kTrits:
      return name + "_trits";
    case Packing::kTernary:
      return name + "_ternary";
    case Packing::kSignBytes:
      return name + "_bytes";
    case Packing::kUsual:
      break;
  }
  return name;
}

inline std::vector<Format> formats_that(bool (*wanted)(const quant::FormatTraits &)) {
  std::vector<Format> formats;
  for (const quant::FormatTraits &traits : quant::formats()) {
    if (has_kernels(traits.format) && wanted(traits)) formats.push_back(traits.format);
  }
  return formats;
}

inline std::vector<Format> all_formats() {
  return formats_that([](const auto &) { return true; });
}
inline std::vector<Format> code_formats() {
  return formats_that([](const auto &traits) { return has_integer_codes(traits.format); });
}
inline std::vector<Format> float_formats() {
  return formats_that([](const auto &traits) { return traits.block_weights == 1; });
}
inline std::vector<Format> f8_formats() { return {Format::kF8_E4M3, Format::kF8_E5M2}; }
inline std::vector<Format> half_formats() {
  return formats_that([](const auto &traits) { return traits.block_bytes == 2; });
}

// A format, and as often again as it may be packed otherwise.
inline std::vector<PackedFormat> packings_of(const std::vector<Format> &formats) {
  std::vector<PackedFormat> all(formats.begin(), formats.end());
  for (const Format format : formats) {
    if (may_be_ternary(format)) all.emplace_back(format, Packing::kTrits);
    if (may_be_ternary(format)) all.emplace_back(format, Packing::kTernary);
    if (format == Format::kQ1_0_G128) all.emplace_back(format, Packing::kSignBytes);
  }
  return all;
}

}  // namespace bonsai::cpu
