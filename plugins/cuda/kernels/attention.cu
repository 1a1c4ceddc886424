// Attention over the paged KV pool, for any mix of sequences: flash-style (arXiv:2205.14135), split over the context as
// "flash decoding" does it.
//
//   score(p) = score_scale * (q . k[p]),  y = sum over p of 2^(score(p) - largest) v[p] / sum of 2^(score(p) - largest)
//
// The arithmetic of a row (a query head of a token) is the same in every kernel and batch: of a chunk of 64 positions
// all scores, their maximum, weights and sums; chunks folded into their section of 256 in order, and sections in order.
// Positions that a row does not see have weight 0, and chunks without any it sees change nothing. So a token's result
// does not depend on the tokens beside it, nor on who folds the sections: unless a value in its tile is not finite, as
// beyond 65,504 in F16, and reaches the tokens of its own sequence that share the tile.
//
// attend_narrow reads keys and values once for 16 rows, from global memory into fragments, or to a copy of its first
// section in shared memory: decoding moves, for each kv head, 4 * head_dim bytes a position with F16, 2.125 * head_dim
// with Q8_0. attend_wide shares a chunk in shared memory between 64 rows.
#include "attention_narrow.cuh"

namespace bonsai::cuda {

// Block (piece, kv_head).
BONSAI_EARLY_KERNEL(attend_narrow, NarrowAttendArguments, kNarrowThreads, 1) {
  const uint32_t kv_heads = arguments.attend.pool.kv_heads;
  // What is in global memory is read anew behind every barrier and wait, which takes a while.
  BONSAI_SHARED AttentionPiece piece;
  if (thread() == 0) piece = arguments.attend.pieces[block_x() / kv_heads];
  sync_block();
  attend_piece(arguments, piece, block_x() % kv_heads);
}

// Grid (splits, heads).
BONSAI_EARLY_KERNEL(combine_sections, CombineArguments, kCombineThreads, 4) {
  const AttentionSplit split = arguments.splits[block_x()];
  wait_for_kernels_ahead();
  combine_head(arguments, split, block_y());
}

// ---------------------------------------------------------------------------------------------------------------------
// Many rows

namespace {

// Starts copying a chunk's keys or values to shared memory, all threads together; zeros for strips that are not in use.
template <bool kValues>
inline void copy_chunk(const AttendArguments &arguments, const AttentionPiece &piece, uint32_t chunk, uint8_t *to) {
  const Strips pool(arguments, block_x() % arguments.pool.kv_heads, piece.sequence);
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) {
    const uint32_t strip = chunk * kStrips + i;
    const bool valid = strip * kStripSlots < piece.length;
    const uint8_t *from = pool.keys(valid ? strip : 0);
    if constexpr (kValues) from = pool.values(valid ? strip : 0);
    for (uint32_t offset = thread() * sizeof(Quad); offset < Stored::kStripBytes; offset += kWideThreads * sizeof(Quad))
      copy_async(to + i * Stored::kStripBytes + offset, from + offset, valid);
  }
}

// Turns values from position n on into zeros, in shared memory, all threads together.
inline void clean_values(uint8_t *values, uint32_t n) {
  for (uint32_t i = n / kStripSlots; i < kStrips; ++i) Stored::clean(values + i * Stored::kStripBytes, in_strip(n, i));
}

// Rows g and g + 8 of a warp, and their sums over a section.
struct WideRows {
  float scales[2];
  RowWeights section[2], total[2];
  float sums[Stored::kUnits][kUnitTiles][4];
};

inline void begin_section(WideRows &state) {
  state.section[0] = state.section[1] = no_weights();
#pragma unroll
  for (uint32_t unit = 0; unit < Stored::kUnits; ++unit) {
#pragma unroll
    for (uint32_t i = 0; i < 4 * kUnitTiles; ++i) state.sums[unit][i / 4][i % 4] = 0;
  }
}

// Where rows go is found anew each time: the registers are needed in between.
inline void end_section(WideRows &state, const AttendArguments &arguments, uint32_t section) {
  const uint32_t kv_head = block_x() % arguments.pool.kv_heads;
  const AttentionPiece &piece = arguments.pieces[block_x() / arguments.pool.kv_heads];
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    const Row to = find_row(arguments, piece, kv_head, warp() * 16 + lane() / 4 + 8 * row);
    const Leaving leaving = leave(arguments, piece, to, section, state.section[row], state.total[row], lane() % 4 == 0);
#pragma unroll
    for (uint32_t unit = 0; unit < Stored::kUnits; ++unit) {
#pragma unroll
      for (uint32_t tile = 0; tile < kUnitTiles; tile += 2) {
        const float(&of)[kUnitTiles][4] = state.sums[unit];
        const Floats four = {of[tile][2 * row], of[tile][2 * row + 1], of[tile + 1][2 * row],
                             of[tile + 1][2 * row + 1]};
        put(leaving, arguments.pool.head_dim, unit * kUnit + 8 * (lane() % 4) + 2 * tile, four);
      }
    }
  }
}

inline void score_chunk(const Quad *queries, const uint8_t *tile, float (&scores)[kTiles][4]) {
  const uint8_t *strips[kStrips];
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) strips[i] = tile + i * Stored::kStripBytes;
#pragma unroll
  for (uint32_t i = 0; i < 4 * kTiles; ++i) scores[i / 4][i % 4] = 0;
#pragma unroll
  for (uint32_t unit = 0; unit < Stored::kUnits; ++unit) {
    Stored::Keys keys[kStrips];
    load_keys(strips, unit, keys);
    Stored::score(queries, unit, keys, scores);
  }
}

inline void add_values(const Stored::Weights &weights, const uint8_t *tile, const Factors (&factors)[2],
                       WideRows &state) {
  const uint8_t *strips[kStrips];
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) strips[i] = tile + i * Stored::kStripBytes;
#pragma unroll
  for (uint32_t unit = 0; unit < Stored::kUnits; ++unit) {
    Stored::Values values[kStrips];
    load_values(strips, unit, values);
    float sums[kUnitTiles][4];
    Stored::sum(weights, values, sums);
#pragma unroll
    for (uint32_t i = 0; i < 4 * kUnitTiles; ++i) {
      float &to = state.sums[unit][i / 4][i % 4];
      to = fold(to, sums[i / 4][i % 4], factors[i % 4 / 2]);
    }
  }
}

// Block (piece, kv_head). A chunk's keys and values are in shared memory for the rows of all warps; the next chunk's
// keys come while the values are used, and the other way round.
inline void attend_wide_rows(const AttendArguments &arguments) {
  const uint32_t kv_head = block_x() % arguments.pool.kv_heads;
  const AttentionPiece &piece = arguments.pieces[block_x() / arguments.pool.kv_heads];
  if (piece.n_tokens == 0) return;

  uint8_t *const shared = dynamic_shared<uint8_t>();
  Quad *const queries = reinterpret_cast<Quad *>(shared + warp() * query_tile_bytes(Stored::kHeadDim));
  uint8_t *const keys = shared + kWideThreads / 32 * query_tile_bytes(Stored::kHeadDim);
  uint8_t *const values = keys + kStrips * Stored::kStripBytes;

  uint32_t chunk = piece.first_section * (kAttentionSection / kAttentionChunk);
  const uint32_t end = least((piece.length + kAttentionChunk - 1) / kAttentionChunk,
                             piece.end_section * (kAttentionSection / kAttentionChunk));
  copy_chunk<false>(arguments, piece, chunk, keys);
  copy_async_commit();
  copy_chunk<true>(arguments, piece, chunk, values);
  copy_async_commit();

  WideRows state;
  state.scales[0] = state.scales[1] = 1;
  uint32_t visible[2];
#pragma unroll 1
  for (uint32_t row = 0; row < 16; ++row) {
    const Row from = find_row(arguments, piece, kv_head, warp() * 16 + row);
    const float scale = stage_query<Stored>(arguments, find_query(arguments, from), row, queries);
    if (lane() / 4 == row) state.scales[0] = scale;
    if (lane() / 4 + 8 == row) state.scales[1] = scale;
  }
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    visible[row] = find_row(arguments, piece, kv_head, warp() * 16 + lane() / 4 + 8 * row).visible;
    state.total[row] = no_weights();
  }
  begin_section(state);

#pragma unroll 1
  for (; chunk < end; ++chunk) {
    const uint32_t begin = chunk * kAttentionChunk;
    const bool busy = ballot(visible[0] > begin || visible[1] > begin) != 0;
    float scores[kTiles][4];
    Factors factors[2] = {};
    copy_async_wait<1>();
    sync_block();
    if (busy) score_chunk(queries, keys, scores);
    sync_block();
    if (chunk + 1 < end) copy_chunk<false>(arguments, piece, chunk + 1, keys);
    copy_async_commit();
    if (busy) {
      RowWeights weights[2];
      softmax_chunk<Stored>(scores, state.scales, visible, begin, weights);
      factors[0] = fold_weights(state.section[0], weights[0]);
      factors[1] = fold_weights(state.section[1], weights[1]);
    }
    copy_async_wait<1>();
    sync_block();
    if (piece.length - begin < kAttentionChunk) {
      clean_values(values, piece.length - begin);
      sync_block();
    }
    if (busy) add_values(Stored::pack(scores), values, factors, state);
    sync_block();
    if (chunk + 1 < end) copy_chunk<true>(arguments, piece, chunk + 1, values);
    copy_async_commit();
    if ((chunk + 1) % (kAttentionSection / kAttentionChunk) == 0 || chunk + 1 == end) {
      end_section(state, arguments, begin / kAttentionSection);
      begin_section(state);
    }
  }
}

}  // namespace

BONSAI_KERNEL(attend_wide, AttendArguments, kWideThreads, 2) {
  if constexpr (Stored::kHasWide) attend_wide_rows(arguments);
}

}  // namespace bonsai::cuda
