// Type id 42: Q2_0_G64 in ggml's files, TQ2_0_G128 in PrismML's older ones.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/result.h"
#include "core/quant/format.h"

namespace bonsai::gguf {

constexpr uint32_t kType42 = 42;

// A tensor of type 42, before its meaning is known.
struct Type42Tensor {
  std::string_view name;
  uint64_t type_at;  // byte offset of its type field, for messages
  uint64_t columns;
  uint64_t rows;    // rows * columns does not overflow
  uint64_t extent;  // bytes from its data to the next tensor's, or to the end of the file
};

struct Type42Meaning {
  quant::Format format;
  bool decided;  // false: every tensor fits both, and ggml's meaning was taken
};

// The one meaning that all of a file's tensors of type 42 share. A meaning fits a tensor when its size, padded to less
// than `alignment`, fills the extent. A tensor that fits neither, as more than padding lies behind it, takes what
// others decide, if it has room for that. Fails when none decides for it, or when two tensors contradict each other.
Result<Type42Meaning> resolve_type_42(std::span<const Type42Tensor> tensors, uint64_t alignment);

}  // namespace bonsai::gguf
