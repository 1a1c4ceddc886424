// The shapes of the Qwen3 models that Bonsai's are made from.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace bonsai::synth {

struct Shape {
  std::string_view name;  // as --shape spells it
  uint32_t hidden;
  uint32_t ffn;
  uint32_t layers;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t head_dim;
  uint32_t vocab;
  uint32_t context;
  double rope_base;
  bool tied;
};

std::span<const Shape> shapes();
// nullptr when there is no such shape.
const Shape *find_shape(std::string_view name);

}  // namespace bonsai::synth
