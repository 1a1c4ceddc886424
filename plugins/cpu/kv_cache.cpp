#include "plugins/cpu/kv_cache.h"

#include <array>
#include <cstring>

#include "core/quant/format.h"
#include "plugins/common/session_config.h"

namespace bonsai::cpu {
namespace {

uint64_t element_bytes(bonsai_kv_dtype dtype) { return dtype == BONSAI_KV_F16 ? sizeof(uint16_t) : sizeof(float); }

uint64_t stored_row_bytes(const KvShape &shape) {
  if (shape.dtype == BONSAI_KV_Q8_0) return shape.head_dim + shape.head_dim / KvCache::kGroup * sizeof(float);
  return round_up(shape.head_dim, KvCache::kLanes) * element_bytes(shape.dtype);
}

}  // namespace

KvCache::KvCache(const KvShape &shape)
    : shape_(shape),
      row_bytes_(stored_row_bytes(shape)),
      head_bytes_(head_bytes(shape)),
      pool_(bytes(shape), "the KV cache") {}

uint64_t KvCache::head_bytes(const KvShape &shape) { return kv_head_bytes(shape.dtype, shape.head_dim); }

uint64_t KvCache::bytes(const KvShape &shape) {
  const uint64_t rows = uint64_t{shape.layers} * shape.blocks * 2 * shape.kv_heads * shape.block_size;
  return Buffer<std::byte>::bytes(rows * stored_row_bytes(shape));
}

void KvCache::store(const KernelTable &kernels, std::byte *row, const float *values) const {
  if (shape_.dtype == BONSAI_KV_Q8_0) {
    std::array<std::byte, kMaxHeadDim / kGroup * kGroupBytes> head;
    quant::traits(quant::Format::kQ8_0).encode(values, head.data(), shape_.head_dim);
    return import_row(row, head.data());
  }
  if (shape_.dtype == BONSAI_KV_F16) {
    kernels.to_half({.x = values, .n = shape_.head_dim, .y = reinterpret_cast<uint16_t *>(row)});
  } else {
    std::memcpy(row, values, head_bytes_);
  }
  std::memset(row + head_bytes_, 0, row_bytes_ - head_bytes_);
}

void KvCache::export_row(const std::byte *row, std::byte *head) const {
  if (shape_.dtype != BONSAI_KV_Q8_0) {
    std::memcpy(head, row, head_bytes_);
    return;
  }
  const std::byte *scales = row + shape_.head_dim;
  for (uint32_t i = 0; i < shape_.head_dim; i += kGroup, scales += sizeof(float), head += kGroupBytes) {
    float scale;
    std::memcpy(&scale, scales, sizeof scale);
    const uint16_t half = quant::float_to_half(scale);
    std::memcpy(head, &half, sizeof half);
    std::memcpy(head + sizeof half, row + i, kGroup);
  }
}

void KvCache::import_row(std::byte *row, const std::byte *head) const {
  if (shape_.dtype != BONSAI_KV_Q8_0) {
    std::memcpy(row, head, head_bytes_);
    std::memset(row + head_bytes_, 0, row_bytes_ - head_bytes_);
    return;
  }
  std::byte *scales = row + shape_.head_dim;
  for (uint32_t i = 0; i < shape_.head_dim; i += kGroup, scales += sizeof(float), head += kGroupBytes) {
    uint16_t half;
    std::memcpy(&half, head, sizeof half);
    const float scale = quant::half_to_float(half);
    std::memcpy(scales, &scale, sizeof scale);
    std::memcpy(row + i, head + sizeof half, kGroup);
  }
}

void KvCache::copy_block(uint32_t source, uint32_t destination) {
  if (source == destination) return;
  const uint64_t block_bytes = 2 * shape_.kv_heads * uint64_t{shape_.block_size} * row_bytes_;
  for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
    std::memcpy(row(layer, destination, 0, 0), row(layer, source, 0, 0), block_bytes);
  }
}

template <class Visit>
void KvCache::each_row(std::span<const uint32_t> blocks, uint32_t n_tokens, const Visit &visit) const {
  const uint32_t kv_heads = shape_.kv_heads;
  uint64_t offset = 0;
  for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
    for (uint32_t first_plane : {0u, kv_heads}) {  // keys, then values
      for (uint32_t token = 0; token < n_tokens; ++token) {
        const uint32_t block = blocks[token / shape_.block_size];
        for (uint32_t head = 0; head < kv_heads; ++head, offset += head_bytes_) {
          visit(row(layer, block, first_plane + head, token % shape_.block_size), offset);
        }
      }
    }
  }
}

void KvCache::export_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, std::byte *data) const {
  each_row(blocks, n_tokens, [&](const std::byte *row, uint64_t offset) { export_row(row, data + offset); });
}

void KvCache::import_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, const std::byte *data) {
  each_row(blocks, n_tokens, [&](std::byte *row, uint64_t offset) { import_row(row, data + offset); });
}

}  // namespace bonsai::cpu
