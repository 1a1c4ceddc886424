// A KV pool in this machine's memory, written and read by the ABI's rounding and the pool's layout, one number at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "plugins/cuda/kernels/kv_arguments.h"

namespace bonsai::cuda {

std::string dtype_name(uint32_t dtype);  // "F16"

// A head rounded to a KV dtype, as kv_export writes it (core/quant's encoder); and its values.
std::vector<uint8_t> encode_head(uint32_t dtype, std::span<const float> head);
std::vector<float> decode_head(uint32_t dtype, std::span<const uint8_t> canonical);

class Pool {
 public:
  // All bytes are 0xFF, which no store writes: NaNs, codes of 127 and scales that are NaNs.
  Pool(const KvPool &shape, uint32_t layers);

  const KvPool &shape() const { return shape_; }
  uint32_t layers() const { return layers_; }

  // One head of one token, in the canonical layout.
  void write(const KvPlane &plane, uint32_t slot, std::span<const uint8_t> canonical);
  std::vector<uint8_t> read(const KvPlane &plane, uint32_t slot) const;

  std::span<const uint8_t> block(uint32_t layer, uint32_t block) const;

 private:
  uint8_t *strip(const KvPlane &plane, uint32_t slot) const;
  uint32_t offset(const KvPlane &plane, uint32_t slot, uint32_t d) const;

  std::vector<Quad> memory_;
  KvPool shape_;
  uint32_t layers_;
};

}  // namespace bonsai::cuda
