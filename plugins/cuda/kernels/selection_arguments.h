// What the kernels of selection.cu are given. Host and device both include this file.
#pragma once

#include "plain_types.h"

namespace bonsai::cuda {

// A row of logits is cut into chunks, one block each, and a chunk into segments, so that what is computed of a row does
// not depend on how many rows are computed at once.
inline constexpr uint32_t kSelectChunk = 1024;
inline constexpr uint32_t kSelectSegment = 64;
inline constexpr uint32_t kSelectSegments = kSelectChunk / kSelectSegment;  // in a chunk
inline constexpr uint32_t kSelectChunkThreads = 256;
inline constexpr uint32_t kSelectFinishThreads = 1024;
inline constexpr uint32_t kMaxSelected = 1024;  // the largest k

// What becomes of a row: bonsai_output_kind's values.
enum class SelectKind : uint32_t { kLogits = 0, kTopK = 1, kArgmax = 2, kHidden = 3 };

// The staged buffer begins with the address of where results go, in two words, the low one first: memory of the host
// that the device writes to. It is staged and not an argument, since it changes from pass to pass where a graph's
// arguments do not.
inline constexpr uint32_t kResultsAddressWords = 2;

// One output, as it lies in the staged buffer. Places are counted in 4-byte words from that buffer's beginning, for
// results from the results' beginning.
struct SelectRow {
  SelectKind kind;
  uint32_t output;         // its place in `selected`
  float temperature;       // 1: unchanged; never 0
  uint32_t n_adjustments;  // 0: none
  uint32_t adjustments;    // place of (n_adjustments) ids int32, then as many `add` float, then as many `repeat` float
  uint32_t has_mask;       // 1 or 0
  uint32_t mask;           // place of (ceil(vocab / 32)) words
  uint32_t k;              // TOP_K; 1 for ARGMAX, else 0
  uint32_t n_ids;          // TOP_K, else 0
  uint32_t ids;            // place of (n_ids) int32
  uint32_t results;  // place of: ids int32 (k), logits float (k); TOP_K: log-sum-exp float, id_logits float (n_ids)
  uint32_t reserved;
};

// What a chunk of a TOP_K or ARGMAX row leaves behind. A rank orders (logit, id) as the ABI does: the higher, the
// earlier in the result.
struct SelectPartial {
  uint64_t largest;  // the highest rank of the chunk
  float sum;         // of exp(logit - the chunk's largest logit)
  uint32_t reserved;
};

// select_chunks: grid (n_chunks, rows), kSelectChunkThreads threads; adjusts the logits in place and writes partials
// and segments. select_finish: grid (rows), kSelectFinishThreads threads; writes results, which it never reads, and
// selected.
struct SelectArguments {
  const uint32_t *staged;
  const SelectRow *rows;    // (rows)
  float *logits;            // (rows, stride), the first vocab of each
  SelectPartial *partials;  // (rows, n_chunks)
  uint64_t *segments;       // (rows, n_chunks * kSelectSegments) the highest rank of each segment; TOP_K rows only
  int32_t *selected;  // written: at each row's output the token that it selects, -1 for LOGITS and HIDDEN; may be NULL
  uint64_t stride;    // floats
  uint32_t vocab;
  uint32_t n_chunks;  // ceil(vocab / kSelectChunk)
};

}  // namespace bonsai::cuda
