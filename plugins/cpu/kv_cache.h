// The KV pool of a session: keys and values of every layer, in blocks that the host assigns to sequences.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "plugins/common/buffer.h"
#include "plugins/common/model_shape.h"
#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu {

using namespace plugin;

struct KvShape {
  bonsai_kv_dtype dtype = BONSAI_KV_F16;
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t block_size = 0;  // tokens in a block
  uint32_t blocks = 0;
};

// A row is one head's key or value of one token. Rows of floats are filled up with zeros to whole vectors of kLanes, so
// that kernels need no tails. A row of Q8_0 is head_dim codes, then a float for each group: its scale, rounded to
// binary16 as the format has it, but ready to multiply. A block holds, of one layer, (K | V, kv_head, slot, row): a
// kernel that walks along a head reads memory in order.
class KvCache {
 public:
  static constexpr uint32_t kLanes = 16;
  static constexpr uint32_t kGroup = 32;       // of Q8_0, along head_dim
  static constexpr uint32_t kGroupBytes = 34;  // as exported: f16 scale, 32 int8

  KvCache() = default;
  explicit KvCache(const KvShape &shape);

  // What the pool occupies. Precondition: the product fits 64 bits.
  static uint64_t bytes(const KvShape &shape);
  uint64_t bytes() const { return pool_.bytes(); }
  // Of one head of one token, as exported: without filling.
  static uint64_t head_bytes(const KvShape &shape);

  std::byte *key(uint32_t layer, uint32_t block, uint32_t kv_head, uint32_t slot) const {
    return row(layer, block, kv_head, slot);
  }
  std::byte *value(uint32_t layer, uint32_t block, uint32_t kv_head, uint32_t slot) const {
    return row(layer, block, shape_.kv_heads + kv_head, slot);
  }

  uint64_t row_bytes() const { return row_bytes_; }  // from one slot's row to the next one's

  // Rounds head_dim values and stores them as a row.
  void store(const KernelTable &kernels, std::byte *row, const float *values) const;

  void copy_block(uint32_t source, uint32_t destination);
  // The canonical layout of kv_export, for positions [0, n_tokens) that lie in `blocks`. Precondition: the blocks are
  // enough and exist.
  void export_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, std::byte *data) const;
  void import_tokens(std::span<const uint32_t> blocks, uint32_t n_tokens, const std::byte *data);

  const KvShape &shape() const { return shape_; }

 private:
  std::byte *row(uint32_t layer, uint32_t block, uint32_t plane, uint32_t slot) const {
    const uint64_t planes = (uint64_t{layer} * shape_.blocks + block) * 2 * shape_.kv_heads + plane;
    return pool_.data() + (planes * shape_.block_size + slot) * row_bytes_;
  }
  void export_row(const std::byte *row, std::byte *head) const;
  void import_row(std::byte *row, const std::byte *head) const;
  // Calls visit(row, offset in the canonical layout) for every head of the positions.
  template <class Visit>
  void each_row(std::span<const uint32_t> blocks, uint32_t n_tokens, const Visit &visit) const;

  KvShape shape_;
  uint64_t row_bytes_ = 0;
  uint64_t head_bytes_ = 0;
  Buffer<std::byte> pool_;
};

}  // namespace bonsai::cpu
