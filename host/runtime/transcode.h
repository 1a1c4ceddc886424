// Changing a weight's format without changing a weight, for devices that do not take the file's own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::host {

// The formats that hold every value of `format` exactly, the smallest first; empty if there is none but itself.
// F16 and BF16 become F32. TQ2_0_G128 becomes Q2_0_G64 (each half of a block gets its scale); the other direction would
// need two neighbouring groups of 64 to have one scale.
std::span<const quant::Format> lossless_targets(quant::Format format);

// `blocks`, whole blocks of `from`, in the format `to`, which must be among lossless_targets(from).
std::vector<std::byte> transcode(std::span<const std::byte> blocks, quant::Format from, quant::Format to);

}  // namespace bonsai::host
