#include "tools/common/formats.h"

#include <fmt/format.h>

#include <algorithm>

namespace bonsai::tools {

std::string format_names() {
  std::string names;
  for (const quant::FormatTraits &format : quant::formats()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", format.name);
  }
  return names;
}

namespace {

bool divides(uint64_t columns, const quant::FormatTraits &format) { return columns % format.block_weights == 0; }

// Of the K-quants' numbers, those of the variants without larger types mixed in ("S").
std::optional<uint32_t> file_type_of(quant::Format format) {
  switch (format) {
    case quant::Format::kF32:
      return 0;
    case quant::Format::kF16:
      return 1;
    case quant::Format::kQ4_0:
      return 2;
    case quant::Format::kQ4_1:
      return 3;
    case quant::Format::kQ8_0:
      return 7;
    case quant::Format::kQ5_0:
      return 8;
    case quant::Format::kQ5_1:
      return 9;
    case quant::Format::kQ2_K:
      return 10;
    case quant::Format::kQ3_K:
      return 11;
    case quant::Format::kQ4_K:
      return 14;
    case quant::Format::kQ5_K:
      return 16;
    case quant::Format::kQ6_K:
      return 18;
    case quant::Format::kIQ4_NL:
      return 25;
    case quant::Format::kIQ4_XS:
      return 30;
    case quant::Format::kBF16:
      return 32;
    case quant::Format::kTQ1_0:
      return 36;
    case quant::Format::kTQ2_0:
      return 37;
    case quant::Format::kQ1_0_G128:
      return 40;
    case quant::Format::kQ2_0_G64:
      return 41;
    default:
      return std::nullopt;
  }
}

}  // namespace

const quant::FormatTraits &format_for_rows(std::string_view tensor, uint64_t columns, const quant::FormatTraits &wanted,
                                           NoticesByKind &fallbacks) {
  if (divides(columns, wanted)) return wanted;
  const quant::FormatTraits &q8_0 = quant::traits(quant::Format::kQ8_0);
  const quant::FormatTraits &fallback = divides(columns, q8_0) ? q8_0 : quant::traits(quant::Format::kF16);
  fallbacks.add(tensor, fmt::format("rows of {} do not divide into {}'s blocks of {}; written as {}", columns,
                                    wanted.name, wanted.block_weights, fallback.name));
  return fallback;
}

std::optional<uint32_t> file_type(const std::map<quant::Format, uint64_t> &matrix_weights) {
  const auto fewer = [](const auto &a, const auto &b) { return a.second < b.second; };
  const auto most = std::max_element(matrix_weights.begin(), matrix_weights.end(), fewer);
  return file_type_of(most == matrix_weights.end() ? quant::Format::kF32 : most->first);
}

}  // namespace bonsai::tools
