#include "plugins/cuda/batch_arrays.h"

#include <algorithm>
#include <bit>

namespace bonsai::cuda {

BatchShape BatchShape::of(const bonsai_batch &batch, uint32_t most_columns) {
  return {.n_tokens = batch.n_tokens,
          .n_sequences = batch.n_sequences,
          .columns = std::min(std::bit_ceil(batch.blocks_per_sequence), most_columns)};
}

uint64_t BatchShape::bytes() const {
  return (3 * uint64_t{n_tokens} + uint64_t{n_sequences} * columns) * sizeof(uint32_t);
}

BatchArrays BatchArrays::at(std::byte *base, const BatchShape &shape) {
  auto *words = reinterpret_cast<uint32_t *>(base);
  return {.tokens = reinterpret_cast<int32_t *>(words),
          .positions = words + shape.n_tokens,
          .sequences = words + 2 * uint64_t{shape.n_tokens},
          .block_table = words + 3 * uint64_t{shape.n_tokens}};
}

void fill(const BatchArrays &arrays, const BatchShape &shape, const bonsai_batch &batch) {
  if (batch.tokens) std::copy_n(batch.tokens, batch.n_tokens, arrays.tokens);
  std::copy_n(batch.positions, batch.n_tokens, arrays.positions);
  std::copy_n(batch.sequences, batch.n_tokens, arrays.sequences);
  for (uint32_t i = 0; i < batch.n_sequences; ++i) {
    std::copy_n(batch.block_table + uint64_t{i} * batch.blocks_per_sequence, batch.blocks_per_sequence,
                arrays.block_table + uint64_t{i} * shape.columns);
  }
}

}  // namespace bonsai::cuda
