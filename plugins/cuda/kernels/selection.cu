// From rows of logits to what the caller asked for: adjustments, the largest, the k largest, the log-sum-exp.
#include "selection.cuh"
#include "selection_top.cuh"

namespace bonsai::cuda {
namespace {

constexpr uint32_t kMine = kSelectChunk / kSelectChunkThreads;  // logits of a thread
static_assert(kMine * kWarp == 2 * kSelectSegment, "a warp has two segments");

// Repetition factors and additions for ids of the block's chunk. An id occurs once, so threads do not meet.
inline void adjust_ids(const SelectArguments &arguments, const SelectRow &row, float *logits) {
  const uint32_t *ids = arguments.staged + row.adjustments;
  const uint32_t *add = ids + row.n_adjustments, *repeat = add + row.n_adjustments;
  for (uint32_t i = thread(); i < row.n_adjustments; i += kSelectChunkThreads) {
    const uint32_t id = ids[i];
    if (id / kSelectChunk != block_x()) continue;
    const float logit = logits[id], factor = bits_to_float(repeat[i]);
    logits[id] = (logit > 0 ? divide(logit, factor) : logit * factor) + bits_to_float(add[i]);
  }
  sync_block();
}

// A thread's logits: first, first + 32, ..., -infinity past the vocabulary's end.
struct Logits {
  float values[kMine];
  uint32_t first;

  uint32_t id(uint32_t i) const { return first + i * kWarp; }
};

inline Logits load_logits(const float *logits, uint32_t vocab) {
  Logits mine;
  mine.first = block_x() * kSelectChunk + warp() * kMine * kWarp + lane();
  for (uint32_t i = 0; i < kMine; ++i) mine.values[i] = mine.id(i) < vocab ? logits[mine.id(i)] : negative_infinity();
  return mine;
}

// Mask and temperature. A warp's 32 neighbours share a word of the mask.
inline void adjust_all(const SelectArguments &arguments, const SelectRow &row, Logits &mine, float *logits) {
  for (uint32_t i = 0; i < kMine; ++i) {
    const uint32_t id = mine.id(i);
    if (id >= arguments.vocab) continue;
    float &value = mine.values[i];
    if (row.has_mask && (arguments.staged[row.mask + id / 32] >> (id % 32) & 1) == 0) value = negative_infinity();
    if (row.temperature != 1) value = divide(value, row.temperature);
    logits[id] = value;
  }
}

// The highest rank of the chunk, and of each segment where the row's k largest are asked for.
inline uint64_t rank_chunk(const SelectArguments &arguments, bool keep_segments, const Logits &mine, uint64_t *places) {
  uint64_t largest = 0;
  for (uint32_t half = 0; half < 2; ++half) {
    uint64_t rank = 0;
    for (uint32_t i = half * kMine / 2; i < (half + 1) * kMine / 2; ++i) {
      if (mine.id(i) < arguments.vocab) rank = larger(rank, rank_of(mine.values[i], mine.id(i)));
    }
    if (keep_segments) {
      rank = warp_largest(rank);
      const uint64_t chunk = uint64_t{block_y()} * arguments.n_chunks + block_x();
      if (lane() == 0) arguments.segments[chunk * kSelectSegments + warp() * 2 + half] = rank;
    }
    largest = larger(largest, rank);
  }
  return block_largest(largest, places);
}

inline uint32_t *find_results(const SelectArguments &arguments) {
  return reinterpret_cast<uint32_t *>(uint64_t{arguments.staged[1]} << 32 | arguments.staged[0]);
}

// For the next pass, which may have the token as an input.
inline void write_selected(const SelectArguments &arguments, const SelectRow &row, int32_t token) {
  if (arguments.selected) arguments.selected[row.output] = token;
}

inline void write_argmax(const SelectArguments &arguments, const SelectRow &row, uint64_t largest, uint32_t *results) {
  if (thread() != 0) return;
  const uint32_t id = id_of(largest);
  const float *logits = arguments.logits + block_x() * arguments.stride;
  results[0] = id;
  results[1] = float_to_bits(logits[id]);
  write_selected(arguments, row, static_cast<int32_t>(id));
}

// The largest of a row's partials.
inline uint64_t largest_of_row(const SelectArguments &arguments, uint64_t *places) {
  const SelectPartial *partials = arguments.partials + uint64_t{block_x()} * arguments.n_chunks;
  uint64_t largest = 0;
  for (uint32_t i = thread(); i < arguments.n_chunks; i += kSelectFinishThreads) {
    largest = larger(largest, partials[i].largest);
  }
  return block_largest(largest, places);
}

// Over the chunks: a thread adds every 1,024th in order, then warps and the block as block_sum does.
inline float sum_of_row(const SelectArguments &arguments, float largest, float *places) {
  const SelectPartial *partials = arguments.partials + uint64_t{block_x()} * arguments.n_chunks;
  float sum = 0;
  for (uint32_t i = thread(); i < arguments.n_chunks; i += kSelectFinishThreads) {
    const SelectPartial partial = partials[i];
    sum += partial.sum * exp_difference(logit_of(partial.largest), largest);
  }
  return block_sum(sum, places);
}

inline void write_top(const SelectArguments &arguments, const SelectRow &row, const TopScratch &scratch,
                      uint32_t *results) {
  const float *logits = arguments.logits + block_x() * arguments.stride;
  for (uint32_t i = thread(); i < row.k; i += kSelectFinishThreads) {
    const uint32_t id = id_of(scratch.found[i]);
    results[i] = id;
    results[row.k + i] = float_to_bits(logits[id]);
    if (i == 0) write_selected(arguments, row, static_cast<int32_t>(id));
  }
  for (uint32_t i = thread(); i < row.n_ids; i += kSelectFinishThreads) {
    results[2 * row.k + 1 + i] = float_to_bits(logits[arguments.staged[row.ids + i]]);
  }
}

}  // namespace

// One chunk of one row: adjusts its logits in place; then their highest rank, and for TOP_K the highest of each segment
// and the sum of exp(logit - largest). Reads the chunk once, and writes it if the row's mask or temperature changes it.
BONSAI_EARLY_KERNEL(select_chunks, SelectArguments, kSelectChunkThreads, 4) {
  BONSAI_SHARED uint64_t ranks[kSelectChunkThreads / kWarp];
  BONSAI_SHARED float sums[kSelectChunkThreads / kWarp];
  const SelectRow row = arguments.rows[block_y()];
  wait_for_kernels_ahead();
  float *logits = arguments.logits + block_y() * arguments.stride;
  const bool changes_all = row.has_mask || row.temperature != 1;
  if (row.n_adjustments > 0) adjust_ids(arguments, row, logits);
  if (row.kind == SelectKind::kLogits && !changes_all) return;

  Logits mine = load_logits(logits, arguments.vocab);
  if (changes_all) adjust_all(arguments, row, mine, logits);
  if (row.kind == SelectKind::kLogits) return;

  const bool is_top = row.kind == SelectKind::kTopK;
  SelectPartial partial = {rank_chunk(arguments, is_top, mine, ranks), 0, 0};
  if (is_top) {
    const float largest = logit_of(partial.largest);
    float sum = 0;
    for (const float value : mine.values) sum += exp_difference(value, largest);
    partial.sum = block_sum(sum, sums);
  }
  if (thread() == 0) arguments.partials[uint64_t{block_y()} * arguments.n_chunks + block_x()] = partial;
}

// One row: its chunks' partials become the results. Reads 16 bytes per chunk; for TOP_K 8 more per segment, and k
// segments of logits.
BONSAI_EARLY_KERNEL(select_finish, SelectArguments, kSelectFinishThreads, 1) {
  BONSAI_SHARED uint64_t ranks[kSelectFinishThreads / kWarp];
  BONSAI_SHARED float sums[kSelectFinishThreads / kWarp];
  BONSAI_SHARED TopScratch scratch;
  const SelectRow row = arguments.rows[block_x()];
  uint32_t *const results = find_results(arguments) + row.results;
  wait_for_kernels_ahead();
  if (row.kind == SelectKind::kLogits || row.kind == SelectKind::kHidden) {
    if (thread() == 0) write_selected(arguments, row, -1);
    return;
  }
  const uint64_t largest = largest_of_row(arguments, ranks);
  if (row.kind == SelectKind::kArgmax) return write_argmax(arguments, row, largest, results);

  const float sum = sum_of_row(arguments, logit_of(largest), sums);
  if (thread() == 0) results[2 * row.k] = float_to_bits(log_sum_exp(logit_of(largest), sum));
  const uint32_t n_segments = (arguments.vocab + kSelectSegment - 1) / kSelectSegment;
  find_top({.logits = arguments.logits + block_x() * arguments.stride,
            .segments = arguments.segments + uint64_t{block_x()} * arguments.n_chunks * kSelectSegments,
            .vocab = arguments.vocab,
            .n_segments = n_segments},
           row.k, scratch);
  write_top(arguments, row, scratch, results);
}

}  // namespace bonsai::cuda
