#include "tests/plugins/cuda/kv/pool.h"

#include <cstring>

#include "core/quant/format.h"

namespace bonsai::cuda {
namespace {

const quant::FormatTraits &traits_of(uint32_t dtype) {
  return quant::traits(dtype == kKvF16    ? quant::Format::kF16
                       : dtype == kKvQ8_0 ? quant::Format::kQ8_0
                                          : quant::Format::kF32);
}

uint32_t number_bytes(uint32_t dtype) { return dtype == kKvF16 ? 2 : 4; }

}  // namespace

std::string dtype_name(uint32_t dtype) { return std::string(traits_of(dtype).name); }

std::vector<uint8_t> encode_head(uint32_t dtype, std::span<const float> head) {
  std::vector<uint8_t> canonical(kv_row_bytes(dtype, static_cast<uint32_t>(head.size())));
  traits_of(dtype).encode(head.data(), reinterpret_cast<std::byte *>(canonical.data()), head.size());
  return canonical;
}

std::vector<float> decode_head(uint32_t dtype, std::span<const uint8_t> canonical) {
  const quant::FormatTraits &traits = traits_of(dtype);
  std::vector<float> head(canonical.size() / traits.block_bytes * traits.block_weights);
  traits.decode(reinterpret_cast<const std::byte *>(canonical.data()), head.data(), head.size());
  return head;
}

Pool::Pool(const KvPool &shape, uint32_t layers)
    : memory_(kv_pool_bytes(shape, layers) / sizeof(Quad), {~0u, ~0u, ~0u, ~0u}), shape_(shape), layers_(layers) {
  shape_.data = reinterpret_cast<uint8_t *>(memory_.data());
}

uint8_t *Pool::strip(const KvPlane &plane, uint32_t slot) const {
  const uint32_t bytes = strip_bytes(shape_.dtype, padded_head_dim(shape_.head_dim));
  return shape_.data + kv_plane_offset(shape_, plane) + slot / kStripSlots * bytes;
}

uint32_t Pool::offset(const KvPlane &plane, uint32_t slot, uint32_t d) const {
  const uint32_t in_strip = slot % kStripSlots;
  return plane.is_value ? value_offset(shape_.dtype, padded_head_dim(shape_.head_dim), in_strip, d)
                        : key_offset(shape_.dtype, in_strip, d);
}

void Pool::write(const KvPlane &plane, uint32_t slot, std::span<const uint8_t> canonical) {
  uint8_t *const to = strip(plane, slot);
  const uint32_t padded = padded_head_dim(shape_.head_dim);
  for (uint32_t d = 0; d < padded; ++d) {
    const bool given = d < shape_.head_dim;
    uint8_t *const place = to + offset(plane, slot, d);
    if (shape_.dtype != kKvQ8_0) {
      const uint32_t bytes = number_bytes(shape_.dtype);
      std::memset(place, 0, bytes);
      if (given) std::memcpy(place, &canonical[d * bytes], bytes);
      continue;
    }
    uint8_t *const scale = to + scale_offset(padded, slot % kStripSlots, d / kUnit);
    std::memset(scale, 0, 2);
    if (given) std::memcpy(scale, &canonical[d / kUnit * kGroupBytes], 2);
    *place = static_cast<uint8_t>(128 + (given ? canonical[d / kUnit * kGroupBytes + 2 + d % kUnit] : 0));
  }
}

std::vector<uint8_t> Pool::read(const KvPlane &plane, uint32_t slot) const {
  const uint8_t *const from = strip(plane, slot);
  std::vector<uint8_t> canonical(kv_row_bytes(shape_.dtype, shape_.head_dim));
  for (uint32_t d = 0; d < shape_.head_dim; ++d) {
    const uint8_t *const place = from + offset(plane, slot, d);
    if (shape_.dtype != kKvQ8_0) {
      const uint32_t bytes = number_bytes(shape_.dtype);
      std::memcpy(&canonical[d * bytes], place, bytes);
      continue;
    }
    const uint32_t scale = scale_offset(padded_head_dim(shape_.head_dim), slot % kStripSlots, d / kUnit);
    std::memcpy(&canonical[d / kUnit * kGroupBytes], from + scale, 2);
    canonical[d / kUnit * kGroupBytes + 2 + d % kUnit] = static_cast<uint8_t>(*place - 128);
  }
  return canonical;
}

std::span<const uint8_t> Pool::block(uint32_t layer, uint32_t block) const {
  return {shape_.data + kv_plane_offset(shape_, {layer, block, 0, 0}), kv_block_bytes(shape_)};
}

}  // namespace bonsai::cuda
