#include "plugins/common/session_config.h"

#include <algorithm>

namespace bonsai::plugin {
namespace {

constexpr uint32_t kMaxBatch = 1u << 20;
constexpr uint32_t kMaxBlocks = 1u << 28;
constexpr uint32_t kGroup = 32;       // of Q8_0, along head_dim
constexpr uint32_t kGroupBytes = 34;  // f16 scale, 32 int8

void check_size(uint32_t size, uint32_t most, const char *name) {
  if (size == 0) reject("config->{} is 0, expected at least 1", name);
  if (size > most) refuse("config->{} is {}, expected at most {}", name, size, most);
}

}  // namespace

void check_config(const bonsai_session_config &config, const ModelShape &model) {
  if (std::find(kKvDtypes.begin(), kKvDtypes.end(), config.kv_dtype) == kKvDtypes.end()) {
    refuse("config->kv_dtype is {}, expected 0 to 2", config.kv_dtype);
  }
  if (config.kv_dtype == BONSAI_KV_Q8_0 && model.head_dim % kGroup != 0) {
    refuse("a Q8_0 KV cache needs a head_dim that is a multiple of {}, this model's is {}", kGroup, model.head_dim);
  }
  if (std::find(kBlockSizes.begin(), kBlockSizes.end(), config.block_size) == kBlockSizes.end()) {
    reject("config->block_size is {}, expected 16, 32, 64 or 128", config.block_size);
  }
  check_size(config.n_blocks, kMaxBlocks, "n_blocks");
  check_size(config.max_tokens, kMaxBatch, "max_tokens");
  check_size(config.max_sequences, kMaxBatch, "max_sequences");
  check_size(config.max_blocks_per_sequence, kMaxBlocks, "max_blocks_per_sequence");
  if (model.has_head) check_size(config.max_outputs, kMaxBatch, "max_outputs");
  const uint32_t most_k = std::min(kMaxK, model.vocab);
  if (model.has_head && config.max_k > most_k) reject("config->max_k is {}, expected at most {}", config.max_k, most_k);
  if (config.reserved != 0) reject("config->reserved is {}, expected 0", config.reserved);
}

BatchLimits batch_limits(const bonsai_session_config &config, const ModelShape &model) {
  return {.max_tokens = config.max_tokens,
          .max_sequences = config.max_sequences,
          .max_blocks_per_sequence = config.max_blocks_per_sequence,
          .block_size = config.block_size,
          .n_blocks = config.n_blocks,
          .rope_positions = model.rope_positions};
}

uint32_t max_positions(const bonsai_session_config &config, const ModelShape &model) {
  const uint64_t table_positions = uint64_t{config.max_blocks_per_sequence} * config.block_size;
  return static_cast<uint32_t>(std::min<uint64_t>(table_positions, model.rope_positions));
}

uint64_t kv_head_bytes(bonsai_kv_dtype dtype, uint32_t head_dim) {
  switch (dtype) {
    case BONSAI_KV_F16:
      return uint64_t{head_dim} * 2;
    case BONSAI_KV_Q8_0:
      return uint64_t{head_dim} / kGroup * kGroupBytes;
    default:
      return uint64_t{head_dim} * 4;
  }
}

}  // namespace bonsai::plugin
