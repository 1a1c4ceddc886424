// GGUF's types of tokens (tokenizer.ggml.token_type).
#pragma once

#include <cstdint>

namespace bonsai::text {

constexpr int32_t kUndefined = 0;
constexpr int32_t kNormal = 1;
constexpr int32_t kUnknown = 2;
constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;
constexpr int32_t kUnused = 5;
constexpr int32_t kByte = 6;

}  // namespace bonsai::text
