// What attention over the KV pool is to launch for a batch: which block attends to what, and the sizes of everything.
// Host code without the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plugins/cuda/kernels/attention_arguments.h"

namespace bonsai::cuda {

// What a session and its device fix.
struct AttentionLimits {
  KvPool pool;                   // data is not read
  uint32_t heads = 0;            // a multiple of pool.kv_heads
  uint32_t max_tokens = 0;       // in a batch
  uint32_t max_positions = 0;    // of a sequence
  uint32_t multiprocessors = 0;  // of the device
  uint32_t shared_bytes = 0;     // that a block may have (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
};

// Launches of one batch, all of kAttendThreads or kCombineThreads threads and in the order of these fields; none where
// the number is 0. Numbers are rounded up (surplus blocks leave at once), so that batches of equal tokens and sequences
// keep theirs while contexts grow a little: a graph that was captured with them is valid for every plan that compares
// equal.
struct AttentionPlan {
  uint32_t narrow_pieces = 0;  // attend_narrow: grid narrow_pieces * kv_heads, pieces from narrow_offset
  uint32_t wide_pieces = 0;    // attend_wide: grid wide_pieces * kv_heads, pieces from wide_offset
  uint32_t splits = 0;         // combine_sections: grid (splits, heads)
  bool operator==(const AttentionPlan &) const = default;
};

class AttentionPlanner {
 public:
  explicit AttentionPlanner(const AttentionLimits &limits);

  // Device memory, fixed for the session: the plan's arrays, and sections' partial results (sums first, from
  // partial_weights_offset on the weights).
  uint64_t plan_bytes() const { return plan_bytes_; }
  uint64_t partial_bytes() const { return partial_bytes_; }
  uint64_t partial_weights_offset() const { return partial_weights_offset_; }

  // Offsets in the plan's arrays, bytes.
  uint64_t narrow_offset() const { return 0; }
  uint64_t wide_offset() const { return wide_offset_; }
  uint64_t splits_offset() const { return splits_offset_; }

  // Dynamic shared memory of the kernels, bytes. A device that cannot give attend_wide what it needs never runs it.
  uint32_t narrow_shared_bytes() const { return narrow_shared_bytes_; }
  uint32_t wide_shared_bytes() const { return wide_shared_bytes_; }
  bool has_wide() const { return has_wide_; }

  // Writes the arrays for a batch to `plan` (plan_bytes(), host memory, aligned to 16 bytes). Precondition: a checked
  // batch within the limits. No allocation.
  AttentionPlan plan(std::span<const uint32_t> positions, std::span<const uint32_t> sequences, std::byte *plan);

 private:
  struct Tile {
    AttentionPiece whole;  // as if it were not split
    uint32_t sections;
    bool wide, split;
  };
  void cut_tiles(std::span<const uint32_t> positions, std::span<const uint32_t> sequences);
  void add_tiles(std::span<const uint32_t> positions, uint32_t first_token, uint32_t n_tokens, uint32_t sequence);
  void choose_splits();
  uint32_t rows_a_tile(bool wide) const;

  AttentionLimits limits_;
  uint32_t group_;  // heads that share a kv head
  bool has_wide_;
  uint32_t narrow_shared_bytes_, wide_shared_bytes_;
  uint32_t max_tiles_, max_partials_;
  uint64_t wide_offset_, splits_offset_, plan_bytes_;
  uint64_t partial_weights_offset_, partial_bytes_;
  std::vector<Tile> tiles_;          // of the batch that is being planned
  std::vector<uint32_t> by_length_;  // their indices
};

}  // namespace bonsai::cuda
