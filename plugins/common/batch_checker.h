// The checks of a batch, all of them before anything is computed.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "plugins/common/buffer.h"

namespace bonsai::plugin {

// What a session allows.
struct BatchLimits {
  uint32_t max_tokens;
  uint32_t max_sequences;
  uint32_t max_blocks_per_sequence;
  uint32_t block_size;
  uint32_t n_blocks;
  uint32_t rope_positions;
};

// Checks positions, sequences and blocks; the scratch is sized once.
class BatchChecker {
 public:
  explicit BatchChecker(const BatchLimits &limits);
  static uint64_t bytes(const BatchLimits &limits);
  uint64_t bytes() const { return lengths_.bytes() + keys_.bytes(); }

  // Throws BONSAI_INVALID_ARGUMENT with the first thing that is wrong. Tokens and hidden states are the caller's to
  // check.
  void check(const bonsai_batch &batch) const;

 private:
  void check_counts(const bonsai_batch &batch) const;
  void check_blocks(const bonsai_batch &batch) const;
  void check_duplicates(const bonsai_batch &batch) const;
  void check_own_block(const bonsai_batch &batch, uint32_t i) const;
  void check_sharing(const bonsai_batch &batch) const;

  BatchLimits limits_;
  Buffer<uint32_t> lengths_;  // (max_sequences) positions that the batch's tokens reach
  Buffer<uint64_t> keys_;     // (max_tokens) to sort
};

}  // namespace bonsai::plugin
