// How all layers of a single token are launched at once (kernels/token_layers.cu).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plugins/cuda/kernels/token_arguments.h"
#include "plugins/cuda/layout/matmul_plan.h"

namespace bonsai::cuda {

inline constexpr const char *kTokenKernel = "token_layers";

// What the plan depends on of a model whose layers have all their weights in one format.
struct TokenShape {
  quant::Format format;
  uint64_t hidden, qkv_rows, q_rows, ffn;
  uint32_t kv_dtype;                // BONSAI_KV_F16, ...
  uint32_t padded_head_dim;         // of kernels/kv_layout.cuh
  uint32_t attention_shared_bytes;  // dynamic, of attend_narrow
};

struct TokenPlan {
  std::string unit;        // "token_layers.Q1_0_G128.F16_128"
  std::string timed_unit;  // "token_layers_timed.Q1_0_G128.F16_128", which notes times
  uint32_t blocks;         // one on each multiprocessor
  uint32_t shared_bytes;
  LayerProductShapes products;
};

// Nothing where there is no such kernel, for the format, the head or the device, or the device has no room for it.
std::optional<TokenPlan> plan_token(const TokenShape &shape, const MatmulDevice &device);

}  // namespace bonsai::cuda
