#include "host/runtime/kv_cache.h"

#include <algorithm>
#include <cstring>

namespace bonsai::host {
namespace {

// A KV type is laid out as the weight format of its name.
quant::Format format_of(bonsai_kv_dtype dtype) {
  switch (dtype) {
    case BONSAI_KV_Q8_0:
      return quant::Format::kQ8_0;
    case BONSAI_KV_F32:
      return quant::Format::kF32;
    default:
      return quant::Format::kF16;
  }
}

}  // namespace

KvCache::KvCache(const ExecutorConfig &config, const model::Config &model)
    : format_(quant::traits(format_of(config.kv_dtype))),
      layers_(model.layers),
      kv_heads_(model.kv_heads),
      head_dim_(model.head_dim),
      n_blocks_(config.n_blocks),
      block_size_(config.block_size),
      head_bytes_(quant::row_bytes(format_, head_dim_)),
      block_bytes_(head_bytes_ * block_size_ * kv_heads_),
      data_(block_bytes_ * n_blocks_ * 2 * layers_) {}

size_t KvCache::block_offset(uint32_t layer, Kind kind, uint32_t block) const {
  return ((size_t{layer} * 2 + static_cast<size_t>(kind)) * n_blocks_ + block) * block_bytes_;
}

void KvCache::store(uint32_t layer, Kind kind, uint32_t block, uint32_t slot, const float *heads) {
  std::byte *to = data_.data() + block_offset(layer, kind, block) + slot * head_bytes_;
  for (uint32_t head = 0; head < kv_heads_; ++head) {
    format_.encode(heads + size_t{head} * head_dim_, to, head_dim_);
    to += head_bytes_ * block_size_;
  }
}

void KvCache::load(uint32_t layer, Kind kind, uint32_t kv_head, std::span<const uint32_t> blocks, uint32_t n_positions,
                   float *out) const {
  for (uint32_t position = 0; position < n_positions; position += block_size_) {
    const uint32_t count = std::min(block_size_, n_positions - position);
    const size_t offset =
        block_offset(layer, kind, blocks[position / block_size_]) + head_bytes_ * block_size_ * kv_head;
    format_.decode(data_.data() + offset, out + size_t{position} * head_dim_, size_t{count} * head_dim_);
  }
}

template <class Visit>
void KvCache::each_head(std::span<const uint32_t> blocks, uint32_t n_tokens, const Visit &visit) const {
  size_t exported = 0;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    for (const Kind kind : {Kind::kKeys, Kind::kValues}) {
      for (uint32_t position = 0; position < n_tokens; ++position) {
        const size_t first =
            block_offset(layer, kind, blocks[position / block_size_]) + position % block_size_ * head_bytes_;
        for (uint32_t head = 0; head < kv_heads_; ++head, exported += head_bytes_) {
          visit(first + head * head_bytes_ * block_size_, exported);
        }
      }
    }
  }
}

void KvCache::export_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, std::byte *data) const {
  each_head(blocks, n_tokens,
            [&](size_t here, size_t exported) { std::memcpy(data + exported, data_.data() + here, head_bytes_); });
}

void KvCache::import_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, const std::byte *data) {
  each_head(blocks, n_tokens,
            [&](size_t here, size_t exported) { std::memcpy(data_.data() + here, data + exported, head_bytes_); });
}

void KvCache::copy_block(uint32_t source, uint32_t destination) {
  if (source == destination) return;
  for (uint32_t layer = 0; layer < layers_; ++layer) {
    for (const Kind kind : {Kind::kKeys, Kind::kValues}) {
      std::memcpy(data_.data() + block_offset(layer, kind, destination),
                  data_.data() + block_offset(layer, kind, source), block_bytes_);
    }
  }
}

}  // namespace bonsai::host
