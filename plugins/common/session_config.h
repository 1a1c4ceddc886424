// What sessions may be asked for: the same for every backend of this project.
#pragma once

#include <bonsai/backend.h>

#include <array>
#include <cstdint>

#include "plugins/common/batch_checker.h"
#include "plugins/common/model_shape.h"

namespace bonsai::plugin {

inline constexpr std::array<uint32_t, 4> kBlockSizes = {32, 16, 64, 128};
inline constexpr std::array<bonsai_kv_dtype, 3> kKvDtypes = {BONSAI_KV_F16, BONSAI_KV_Q8_0, BONSAI_KV_F32};
inline constexpr uint32_t kMaxK = 1024;

// Throws BONSAI_INVALID_ARGUMENT or BONSAI_UNSUPPORTED with the first thing that is wrong.
void check_config(const bonsai_session_config &config, const ModelShape &model);

// What the session's batches may be.
BatchLimits batch_limits(const bonsai_session_config &config, const ModelShape &model);

// Positions that a sequence can reach: what its row of the block table holds, and the RoPE tables cover.
uint32_t max_positions(const bonsai_session_config &config, const ModelShape &model);

// Bytes of one head of one token as kv_export writes it.
uint64_t kv_head_bytes(bonsai_kv_dtype dtype, uint32_t head_dim);

}  // namespace bonsai::plugin
