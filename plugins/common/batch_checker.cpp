#include "plugins/common/batch_checker.h"

#include <algorithm>

#include "plugins/common/failure.h"

namespace bonsai::plugin {
namespace {

void check_count(uint32_t count, uint32_t most, const char *name, const char *limit) {
  if (count == 0) reject("batch->{} is 0, expected at least 1", name);
  if (count > most) reject("batch->{} is {}, expected at most {}, the session's {}", name, count, most, limit);
}

uint64_t pair(uint32_t major, uint32_t minor) { return uint64_t{major} << 32 | minor; }
uint32_t major_of(uint64_t pair) { return static_cast<uint32_t>(pair >> 32); }
uint32_t minor_of(uint64_t pair) { return static_cast<uint32_t>(pair); }

}  // namespace

BatchChecker::BatchChecker(const BatchLimits &limits)
    : limits_(limits), lengths_(limits.max_sequences, "batch checks"), keys_(limits.max_tokens, "batch checks") {}

uint64_t BatchChecker::bytes(const BatchLimits &limits) {
  return Buffer<uint32_t>::bytes(limits.max_sequences) + Buffer<uint64_t>::bytes(limits.max_tokens);
}

void BatchChecker::check(const bonsai_batch &batch) const {
  check_counts(batch);
  check_blocks(batch);
  check_duplicates(batch);
  check_sharing(batch);
}

void BatchChecker::check_counts(const bonsai_batch &batch) const {
  check_count(batch.n_tokens, limits_.max_tokens, "n_tokens", "max_tokens");
  check_count(batch.n_sequences, limits_.max_sequences, "n_sequences", "max_sequences");
  check_count(batch.blocks_per_sequence, limits_.max_blocks_per_sequence, "blocks_per_sequence",
              "max_blocks_per_sequence");
  require_pointer(batch.positions, "batch->positions");
  require_pointer(batch.sequences, "batch->sequences");
  require_pointer(batch.block_table, "batch->block_table");
}

// Every position has a row of the RoPE table, a column of the block table, and existing blocks up to its own.
void BatchChecker::check_blocks(const bonsai_batch &batch) const {
  std::fill_n(lengths_.data(), batch.n_sequences, 0u);
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t position = batch.positions[i], sequence = batch.sequences[i];
    if (sequence >= batch.n_sequences) {
      reject("batch->sequences[{}] is {}, expected less than n_sequences, {}", i, sequence, batch.n_sequences);
    }
    if (position >= limits_.rope_positions) {
      reject("batch->positions[{}] is {}, expected less than the model's rope_positions, {}", i, position,
             limits_.rope_positions);
    }
    if (position / limits_.block_size >= batch.blocks_per_sequence) {
      reject("batch->positions[{}] is {}, beyond the {} blocks of {} in the block table", i, position,
             batch.blocks_per_sequence, limits_.block_size);
    }
    lengths_[sequence] = std::max(lengths_[sequence], position + 1);
  }
  for (uint32_t sequence = 0; sequence < batch.n_sequences; ++sequence) {
    const uint32_t *row = batch.block_table + uint64_t{sequence} * batch.blocks_per_sequence;
    for (uint64_t i = 0; i * limits_.block_size < lengths_[sequence]; ++i) {
      if (row[i] >= limits_.n_blocks) {
        reject("batch->block_table[{}][{}] is {}, expected less than n_blocks, {}", sequence, i, row[i],
               limits_.n_blocks);
      }
    }
  }
}

void BatchChecker::check_duplicates(const bonsai_batch &batch) const {
  uint64_t *const end = keys_.data() + batch.n_tokens;
  for (uint32_t i = 0; i < batch.n_tokens; ++i) keys_[i] = pair(batch.sequences[i], batch.positions[i]);
  std::sort(keys_.data(), end);
  const uint64_t *twice = std::adjacent_find(keys_.data(), end);
  if (twice == end) return;
  reject("batch: two tokens have position {} of sequence {}", minor_of(*twice), major_of(*twice));
}

// The block that a token is written to stands in one column of its sequence's row.
void BatchChecker::check_own_block(const bonsai_batch &batch, uint32_t i) const {
  const uint32_t column = batch.positions[i] / limits_.block_size, sequence = batch.sequences[i];
  const bool is_checked =
      i > 0 && batch.sequences[i - 1] == sequence && batch.positions[i - 1] / limits_.block_size == column;
  if (is_checked) return;
  const uint32_t *row = batch.block_table + uint64_t{sequence} * batch.blocks_per_sequence;
  const uint32_t *end = row + (lengths_[sequence] + limits_.block_size - 1) / limits_.block_size;
  const uint32_t *other = std::find(row, end, row[column]);
  if (other == row + column) other = std::find(other + 1, end, row[column]);
  if (other != end) {
    reject("batch: sequence {} has block {}, which it writes, in columns {} and {}", sequence, row[column],
           std::min<uint64_t>(column, other - row), std::max<uint64_t>(column, other - row));
  }
}

// No block is written on behalf of two sequences, nor for one while another reads it.
void BatchChecker::check_sharing(const bonsai_batch &batch) const {
  uint64_t *const end = keys_.data() + batch.n_tokens;
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t *row = batch.block_table + uint64_t{batch.sequences[i]} * batch.blocks_per_sequence;
    keys_[i] = pair(row[batch.positions[i] / limits_.block_size], batch.sequences[i]);
  }
  std::sort(keys_.data(), end);
  const uint64_t *shared = std::adjacent_find(
      keys_.data(), end, [](uint64_t a, uint64_t b) { return major_of(a) == major_of(b) && a != b; });
  if (shared != end) {
    reject("batch: sequences {} and {} both write block {}", minor_of(shared[0]), minor_of(shared[1]),
           major_of(*shared));
  }
  for (uint32_t i = 0; i < batch.n_tokens; ++i) check_own_block(batch, i);
  for (uint32_t sequence = 0; batch.n_sequences > 1 && sequence < batch.n_sequences; ++sequence) {
    const uint32_t *row = batch.block_table + uint64_t{sequence} * batch.blocks_per_sequence;
    for (uint64_t i = 0; i * limits_.block_size < lengths_[sequence]; ++i) {
      const uint64_t *written = std::lower_bound(keys_.data(), end, pair(row[i], 0));
      if (written == end || major_of(*written) != row[i] || minor_of(*written) == sequence) continue;
      reject("batch: sequence {} reads block {}, which sequence {} writes", sequence, row[i], minor_of(*written));
    }
  }
}

}  // namespace bonsai::plugin
