// What reader and writer must agree on.
#pragma once

#include <cstdint>
#include <string_view>

namespace bonsai::gguf {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::string_view kQuantizationKey = "general.quantization_version";
// OxiBonsai's files carry this string instead of a number: their blocks of 128 ternary weights end with the scale.
constexpr std::string_view kScaleLastMark = "TQ2_0_G128";
constexpr uint64_t kMostNameBytes = 65535;  // of a key or a tensor's name
constexpr uint32_t kMostDimensions = 4;

}  // namespace bonsai::gguf
