// The paged KV cache of models that the host composes itself: blocks of positions, for each layer K and V, stored in
// the session's KV type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/model/config.h"
#include "core/quant/format.h"
#include "host/runtime/executor.h"

namespace bonsai::host {

class KvCache {
 public:
  enum class Kind { kKeys = 0, kValues = 1 };

  // Allocates config.n_blocks blocks. The type must be one of BONSAI_KV_F16, Q8_0 (head_dim a multiple of 32) and F32.
  KvCache(const ExecutorConfig &config, const model::Config &model);

  // Stores K or V of one token, all heads (kv_heads * head_dim), rounded to the cache's type.
  void store(uint32_t layer, Kind kind, uint32_t block, uint32_t slot, const float *heads);

  // Decodes one head at positions [0, n_positions) of the sequence that lies in `blocks`: out is (n_positions,
  // head_dim).
  void load(uint32_t layer, Kind kind, uint32_t kv_head, std::span<const uint32_t> blocks, uint32_t n_positions,
            float *out) const;

  void copy_block(uint32_t source, uint32_t destination);

  // The canonical layout of kv_export, for positions [0, n_tokens) that lie in `blocks`.
  uint64_t exported_bytes(uint32_t n_tokens) const {
    return uint64_t{layers_} * 2 * kv_heads_ * head_bytes_ * n_tokens;
  }
  void export_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, std::byte *data) const;
  void import_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, const std::byte *data);

  uint64_t bytes() const { return data_.size(); }

 private:
  size_t block_offset(uint32_t layer, Kind kind, uint32_t block) const;
  // Calls visit(offset of a head here, offset in the canonical layout) for every head of the positions.
  template <class Visit>
  void each_head(std::span<const uint32_t> blocks, uint32_t n_tokens, const Visit &visit) const;

  const quant::FormatTraits &format_;
  uint32_t layers_, kv_heads_, head_dim_, n_blocks_, block_size_;
  size_t head_bytes_;            // one position of one head
  size_t block_bytes_;           // K or V of one block in one layer
  std::vector<std::byte> data_;  // (layers, K and V, n_blocks, kv_heads, block_size, head_bytes)
};

}  // namespace bonsai::host
