// How the tools name weight formats to people and to other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/quant/format.h"

namespace bonsai::tools {

// "F32, F16, ...": what --type takes.
std::string format_names();

// llama.cpp's general.file_type of a model whose matrices are mostly in `format`; nullopt where it has no number.
std::optional<uint32_t> file_type(quant::Format format);

}  // namespace bonsai::tools
