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
  KvPool pool = {};              // data is not read
  uint32_t heads = 0;            // a multiple of pool.kv_heads
  uint32_t max_tokens = 0;       // in a batch
  uint32_t max_positions = 0;    // of a sequence
  uint32_t multiprocessors = 0;  // of the device
  uint32_t shared_bytes = 0;     // that a block may have (CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
  uint64_t multiprocessor_shared_bytes = 0;
};

// The launches of one batch, in the order of these fields; none where the number is 0. Numbers are rounded up (surplus
// blocks do nothing), so that they change seldom while contexts grow: a graph that was captured with one plan is
// valid for every plan that compares equal.
struct AttentionPlan {
  uint32_t narrow_pieces = 0;  // attend_narrow: grid narrow_pieces * kv_heads
  uint32_t wide_pieces = 0;    // attend_wide: grid wide_pieces * kv_heads
  uint32_t splits = 0;         // combine_sections: grid (splits, heads)
  // Whether attend_narrow may do what prepare_heads does: every sequence's tokens are in one tile.
  bool may_prepare = false;

  // Where the launches' arrays lie, in bytes from the first one's beginning; and all of them.
  uint64_t wide_offset() const { return narrow_pieces * sizeof(AttentionPiece); }
  uint64_t splits_offset() const { return wide_offset() + wide_pieces * sizeof(AttentionPiece); }
  uint64_t bytes() const { return splits_offset() + splits * sizeof(AttentionSplit); }

  bool operator==(const AttentionPlan &) const = default;
};

class AttentionPlanner {
 public:
  explicit AttentionPlanner(const AttentionLimits &limits);

  // Device memory, fixed for the session: the arrays of the largest plan; and the sections' partial results, of which
  // the sums come first and the weights from partial_weights_offset on.
  uint64_t plan_bytes() const { return most().bytes(); }
  uint64_t partial_bytes() const;
  uint64_t partial_weights_offset() const;

  // Dynamic shared memory of the kernels, bytes. A device that does not have it for attend_wide never runs that.
  uint32_t narrow_shared_bytes() const;
  // Beside those, where attend_narrow prepares heads; 0: keys and values are not copied early.
  uint32_t early_bytes(const AttentionPlan &plan) const;
  uint32_t wide_shared_bytes() const;

  // Writes the arrays for a batch to `arrays`, which has room for plan_bytes() and is aligned to 16 bytes; nothing is
  // read there. Precondition: a checked batch within the limits. No allocation.
  AttentionPlan plan(std::span<const uint32_t> positions, std::span<const uint32_t> sequences, std::byte *arrays);

 private:
  // A run of tokens of one sequence that fit a block.
  struct Tile {
    uint32_t first_token, n_tokens, sequence;
    uint32_t length;    // positions that it attends to
    uint32_t sections;  // of these
    bool is_wide;
    bool is_split;  // a block for every section
    uint32_t first_partial;
  };
  uint64_t blocks_at_once(bool wide) const;
  uint32_t slices(bool wide) const;  // blocks that share the heads of a token
  uint32_t tokens_a_tile(bool wide) const;
  void cut_tiles(std::span<const uint32_t> positions, std::span<const uint32_t> sequences);
  void cut_run(std::span<const uint32_t> positions, uint32_t first_token, uint32_t n_tokens, uint32_t sequence);
  bool has_one_tile_for_each_sequence();
  void sort_tiles();
  void choose_splits();
  AttentionPlan most() const;
  AttentionPlan count() const;
  AttentionPiece *write_pieces(const Tile &tile, AttentionPiece *to) const;

  AttentionLimits limits_;
  uint32_t group_;  // heads that share a kv head
  bool has_wide_;
  uint32_t max_partials_;
  std::vector<Tile> tiles_;          // of the batch that is being planned, the longest first
  std::vector<uint32_t> sequences_;  // of the tiles, when they are compared
  bool may_prepare_ = false;         // likewise of the batch
};

}  // namespace bonsai::cuda
