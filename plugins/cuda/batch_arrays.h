// A batch on its way to the device: one piece of memory, whose parts lie where the batch's shape says.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>

namespace bonsai::cuda {

// What decides where the arrays lie and so, with the addresses, what a captured graph holds on to. The block table's
// rows are filled up to a power of two, so that the shape seldom changes while a text grows.
struct BatchShape {
  uint32_t n_tokens, n_sequences, columns;
  bool operator==(const BatchShape &) const = default;

  // `most_columns` is the session's max_blocks_per_sequence.
  static BatchShape of(const bonsai_batch &batch, uint32_t most_columns);
  uint64_t bytes() const;
  // A multiple of 16: where that lies which is sent in the same copy.
  uint64_t end() const { return (bytes() + 15) / 16 * 16; }
};

// Addresses of the arrays, on the host or on the device.
struct BatchArrays {
  int32_t *tokens;        // (n_tokens)
  uint32_t *positions;    // (n_tokens)
  uint32_t *sequences;    // (n_tokens)
  uint32_t *block_table;  // (n_sequences, columns)

  static BatchArrays at(std::byte *base, const BatchShape &shape);
};

// Copies a checked batch; columns beyond the batch's own are left as they are, since no kernel reads them. Tokens stay
// unwritten where the batch brings hidden states.
void fill(const BatchArrays &arrays, const BatchShape &shape, const bonsai_batch &batch);

}  // namespace bonsai::cuda
