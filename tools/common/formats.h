// How the tools name weight formats to people and to other programs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/quant/format.h"

namespace bonsai::tools {

// "F32, F16, ...": what --type takes.
std::string format_names();

// llama.cpp's general.file_type: the number of the format that most weights of the matrices have, F32 where there are
// none; nullopt where that has no number.
std::optional<uint32_t> file_type(const std::map<quant::Format, uint64_t> &matrix_weights);

}  // namespace bonsai::tools
