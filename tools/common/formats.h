// How the tools name weight formats to people and to other programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/quant/format.h"
#include "tools/common/notices_by_kind.h"

namespace bonsai::tools {

// "F32, F16, ...": what --type takes.
std::string format_names();

// The format of a matrix: `wanted`, or where rows of so many columns do not divide into its blocks, Q8_0 or else F16.
// Then `fallbacks` hears of the tensor.
const quant::FormatTraits &format_for_rows(std::string_view tensor, uint64_t columns, const quant::FormatTraits &wanted,
                                           NoticesByKind &fallbacks);

// llama.cpp's general.file_type: the number of the format that most weights of the matrices have, F32 where there are
// none; nullopt where that has no number.
std::optional<uint32_t> file_type(const std::map<quant::Format, uint64_t> &matrix_weights);

}  // namespace bonsai::tools
