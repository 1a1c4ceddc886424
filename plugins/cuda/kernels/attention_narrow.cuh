// Attention for few rows, and the folding of sections that were apart: the kernels of tokens that are decoded.
// BONSAI_KV says what is attended to (attention_formats.cuh).
#pragma once

#include "activation_packing.cuh"
#include "attention_rows.cuh"
#include "prepared_heads.cuh"

namespace bonsai::cuda {

using Stored = BONSAI_KV;

// The pool, with what a kernel is compiled for as constants, the head's padded size among them: for finding places.
inline KvPool known_pool(const KvPool &pool) {
  KvPool known = pool;
  known.dtype = Stored::kDtype;
  known.head_dim = Stored::kHeadDim;
  return known;
}

// The strips of one kv head and one sequence.
class Strips {
 public:
  Strips(const AttendArguments &arguments, uint32_t kv_head, uint32_t sequence)
      : Strips(arguments, known_pool(arguments.pool), kv_head, sequence) {}

  const uint8_t *keys(uint32_t strip) const {
    return keys_ + blocks_[strip >> shift_] * block_bytes_ + (strip & ((1u << shift_) - 1)) * Stored::kStripBytes;
  }
  const uint8_t *values(uint32_t strip) const { return keys(strip) + plane_bytes_; }

 private:
  Strips(const AttendArguments &arguments, const KvPool &pool, uint32_t kv_head, uint32_t sequence)
      : blocks_(arguments.block_table + uint64_t{sequence} * arguments.blocks_per_sequence),
        keys_(pool.data + kv_plane_offset(pool, {arguments.layer, 0, kv_head, 0})),
        plane_bytes_(kv_plane_bytes(pool)),
        block_bytes_(kv_block_bytes(pool)) {
    while (kStripSlots << shift_ < pool.block_size) ++shift_;
  }

  const uint32_t *blocks_;
  const uint8_t *keys_;  // of block 0
  uint32_t plane_bytes_;
  uint64_t block_bytes_;
  uint32_t shift_ = 0;  // log2 of strips in a block
};

// A unit of a chunk's keys, or of its values.
inline void load_keys(const uint8_t *const (&strips)[kStrips], uint32_t unit, Stored::Keys (&keys)[kStrips]) {
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) keys[i] = Stored::load_keys(strips[i], unit);
}
inline void load_values(const uint8_t *const (&strips)[kStrips], uint32_t unit, Stored::Values (&values)[kStrips]) {
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) values[i] = Stored::load_values(strips[i], unit);
}

// Of a chunk's n positions that are in use, how many lie in a strip: up to kStripSlots.
inline uint32_t in_strip(uint32_t n, uint32_t strip) {
  return n <= strip * kStripSlots ? 0 : n - strip * kStripSlots < kStripSlots ? n - strip * kStripSlots : kStripSlots;
}

inline uint32_t least(uint32_t a, uint32_t b) { return a < b ? a : b; }

// ---------------------------------------------------------------------------------------------------------------------
// Few rows

constexpr uint32_t kChunks = kAttentionSection / kAttentionChunk;
constexpr uint32_t kTeam = kStrips;                                                // warps of a chunk
constexpr uint32_t kRoundUnits = Stored::kUnits < kTeam ? Stored::kUnits : kTeam;  // that a team takes at a time
constexpr uint32_t kRounds = (Stored::kUnits + kTeam - 1) / kTeam;
constexpr uint32_t kSumsStride = sums_stride(Stored::kHeadDim);
constexpr bool kSumsReplaceScores = sums_replace_scores(Stored::kHeadDim);
constexpr bool kValuesAhead = kRounds == 1;  // of weights, for which larger heads have no registers
constexpr uint32_t kSectionStrips = kAttentionSection / kStripSlots;
constexpr bool kMayHaveEarly = kHasAsyncCopies && early_bytes(Stored::kDtype, Stored::kHeadDim) > 0;
static_assert(kSectionStrips == kNarrowThreads / kWarp);
static_assert(kNarrowThreads == kChunks * kTeam * kWarp && kNarrowRows == kChunks * kTeam);
static_assert(kNarrowThreads / kWarp * kMaxHeadDim * sizeof(float) <= kScoreBytes);  // where heads are prepared
static_assert(narrow_shared_bytes(Stored::kHeadDim) + kNarrowOwnBytes <= 64 << 10);

// Sums of one unit of 16 rows, from fragments to `to` (row, kSumsStride).
inline void store_sums(const float (&sums)[kUnitTiles][4], float *to) {
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t row = lane() / 4 + i / 2 * 8, tile = i % 2 * 2;
    const Floats four = {sums[tile][i / 2 * 2], sums[tile][i / 2 * 2 + 1], sums[tile + 1][i / 2 * 2],
                         sums[tile + 1][i / 2 * 2 + 1]};
    *reinterpret_cast<Floats *>(to + row * kSumsStride + 8 * (lane() % 4) + 2 * tile) = four;
  }
}

// Where early strips lie in shared memory, by their number in the section: all keys, then all values.
inline uint8_t *early_keys(uint32_t strip) {
  return dynamic_shared<uint8_t>() + narrow_shared_bytes(Stored::kHeadDim) + strip * Stored::kStripBytes;
}
inline uint8_t *early_values(uint32_t strip) { return early_keys(kSectionStrips + strip); }

// A warp starts copying a strip.
inline void copy_strip(uint8_t *to, const uint8_t *from) {
  for (uint32_t at = lane() * sizeof(Quad); at < Stored::kStripBytes; at += kWarp * sizeof(Quad)) {
    copy_async(to + at, from + at, true);
  }
}

// A chunk of a section, as a team's warps take it.
struct Chunk {
  const Strips &pool;
  uint32_t strip;  // its first, of the sequence's
  uint32_t n;      // positions that are in use
  bool is_early;   // its strips are in shared memory
};

// A unit of the values of a chunk that is in use. In place of a strip that is not in use, the first is read.
inline void load_chunk_values(const Chunk &chunk, uint32_t unit, Stored::Values (&values)[kStrips]) {
  const uint8_t *strips[kStrips];  // from the block table, all before loads that it would wait for
#pragma unroll
  for (uint32_t i = 0; i < kStrips; ++i) {
    const uint32_t strip = chunk.strip + (i * kStripSlots < chunk.n ? i : 0);
    strips[i] = chunk.is_early ? early_values(strip % kSectionStrips) : chunk.pool.values(strip);
  }
  load_values(strips, unit, values);
}

// Scores of a strip's positions.
inline void score_strip(const Quad *queries, const Chunk &chunk, uint32_t strip, float (&scores)[2][4]) {
  const uint8_t *const keys_of = chunk.is_early ? early_keys(strip % kSectionStrips) : chunk.pool.keys(strip);
#pragma unroll 1
  for (uint32_t round = 0; round < kRounds; ++round) {
    Stored::Keys keys[kRoundUnits][1];
#pragma unroll
    for (uint32_t i = 0; i < kRoundUnits; ++i) {
      const uint32_t unit = round * kTeam + i;
      if (unit < Stored::kUnits) keys[i][0] = Stored::load_keys(keys_of, unit);
    }
#pragma unroll
    for (uint32_t i = 0; i < kRoundUnits; ++i) {
      const uint32_t unit = round * kTeam + i;
      if (unit < Stored::kUnits) Stored::score(queries, unit, keys[i], scores);
    }
  }
}

// Of a warp's strip of the first section, keys and values: has them copied to shared memory, or at least asks the
// second-level cache for them. The block's own tokens may have a part of them that it is about to store.
inline void ask_for_strip(const NarrowAttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head) {
  const uint32_t strip = piece.first_section * kSectionStrips + warp();
  if (strip * kStripSlots >= piece.length) return;
  const Strips pool(arguments.attend, kv_head, piece.sequence);
  if (kMayHaveEarly && arguments.has_early) {
    copy_strip(early_keys(warp()), pool.keys(strip));
    copy_strip(early_values(warp()), pool.values(strip));
    return copy_async_commit();
  }
  for (uint32_t offset = lane() * kCacheLine; offset < Stored::kStripBytes; offset += kWarp * kCacheLine) {
    prefetch(pool.keys(strip) + offset);
    prefetch(pool.values(strip) + offset);
  }
}

// The heads that a warp prepares: the query of its row, if there is one, and then keys and values of the tile's tokens,
// value after key, of which the last warps have the first. One after the other; none, where the block prepares none.
class NewHeads {
 public:
  NewHeads(const NarrowAttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head, const Row &row)
      : heads_(arguments.heads),
        has_early_(arguments.has_early != 0),
        piece_(piece),
        kv_head_(kv_head),
        row_(row),
        next_(heads_.qkv ? kWarps - 1 - warp() : kNone),
        query_is_next_(heads_.qkv && row.visible > 0) {}

  bool has_next() const { return query_is_next_ || next_ < 2 * piece_.n_tokens; }

  // Goes on to the next one, if there is one, and asks for what it takes beside the product.
  void find_next() {
    is_query_ = query_is_next_;
    is_stored_ = false;
    if (!has_next()) return;
    token_ = is_query_ ? row_.token : piece_.first_token + next_ / 2;
    index_ = is_query_ ? row_.head : heads_.heads + next_ % 2 * heads_.pool.kv_heads + kv_head_;
    const uint32_t position = heads_.positions[token_];
    query_is_next_ = false;
    if (!is_query_) {
      find_place(position);
      next_ += kWarps;
    }
    if (is_query_ || is_stored_) constants_ = load_constants<Stored::kUnits>(heads_, position, index_);
  }
  void load() {
    if (is_query_ || is_stored_) load_product(heads_, token_, index_, x_);
  }
  // `shared`: the warp's, a head long. True: it has the query of the warp's row there.
  bool prepare(float *shared) {
    if (!is_query_ && !is_stored_) return false;
    sync_warp();
    prepare_head(heads_, index_, constants_, shared, x_);
    if (is_stored_) {
      store_head({Stored::kDtype, Stored::kHeadDim}, slot_, copy_, x_);
      return false;
    }
    sync_warp();
#pragma unroll
    for (uint32_t unit = 0; unit < Stored::kUnits; ++unit) shared[unit * kUnit + lane()] = x_[unit];
    sync_warp();
    return true;
  }

 private:
  static constexpr uint32_t kWarps = kNarrowThreads / kWarp, kNone = ~0u;

  // Keys and values that lie in the piece's sections are stored; those of early strips there, too.
  void find_place(uint32_t position) {
    const uint32_t strip = position / kStripSlots, section = strip / kSectionStrips;
    is_stored_ = section >= piece_.first_section && section < piece_.end_section;
    if (!is_stored_) return;
    slot_ = prepared_slot(heads_, known_pool(heads_.pool), piece_.sequence, position, index_);
    copy_ = nullptr;
    if (!kMayHaveEarly || !has_early_ || section != piece_.first_section) return;
    copy_ = slot_.is_value ? early_values(strip % kSectionStrips) : early_keys(strip % kSectionStrips);
  }

  const PrepareHeadsArguments &heads_;
  const bool has_early_;
  const AttentionPiece &piece_;
  const uint32_t kv_head_;
  const Row &row_;
  uint32_t next_;  // of keys and values
  bool query_is_next_;
  // What is worked on, if anything is: a query, or a key or value, and where it goes.
  bool is_query_ = false, is_stored_ = false;
  uint32_t token_ = 0, index_ = 0;
  HeadConstants<Stored::kUnits> constants_;
  float x_[Stored::kUnits];
  KvSlot slot_ = {};
  uint8_t *copy_ = nullptr;
};

// A warp stages its row, which is prepared first if heads are to be, as are the tile's keys and values, behind the
// wait. Returns what the row's scores are to be multiplied by. `shared`: the warp's, a head long.
inline float stage_row(const NarrowAttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head,
                       const Row &row, Quad *queries, float *shared) {
  ask_for_strip(arguments, piece, kv_head);
  const float *query = arguments.heads.qkv ? nullptr : find_query(arguments.attend, row);
  NewHeads heads(arguments, piece, kv_head, row);
  float scale = 0;
  bool is_first = true;
  // What is run once takes as long to fetch as to run: so one loop for all heads, the first one included.
#pragma unroll 1
  do {
    heads.find_next();
    if (is_first) wait_for_kernels_ahead();
    heads.load();
    if (is_first && kMayHaveEarly && arguments.has_early) {
      copy_async_wait<0>();
      sync_block();  // new keys and values replace what other warps copied
    }
    if (heads.prepare(shared)) query = shared;
    if (is_first) scale = stage_query<Stored>(arguments.attend, query, warp(), queries);
    is_first = false;
  } while (heads.has_next());
  return scale;
}

// Whether heads may be packed at all, and if so, whether they are.
constexpr bool kMayPack = Stored::kHeadDim % kWarpColumns == 0;
inline bool packs(const PackedActivations &packed) { return packed.groups_128 || packed.codes_by_32; }

// Packs four columns of each lane from `column` of a head on.
inline void pack_head(const PackedActivations &packed, uint32_t heads, uint32_t token, uint32_t head, uint32_t column,
                      const FourFloats &x) {
  const uint32_t columns = heads * Stored::kHeadDim;
  Destination{packed, nullptr, token, columns, columns}.store_codes(head * Stored::kHeadDim + column, x);
}

// A warp's row leaves, of its head the places of one round.
inline void put_round(const AttendArguments &arguments, const Row &row, const Leaving &leaving, uint32_t round,
                      const Floats &sums) {
  const uint32_t d = round * kTeam * kUnit + lane() * 4;
  if constexpr (kMayPack) {
    if (leaving.to && leaving.is_last && packs(arguments.packed)) {
      FourFloats x;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) x.of[i] = finished(leaving, d + i, sums.of[i]);
      return pack_head(arguments.packed, arguments.heads, row.token, row.head, d, x);
    }
  }
  if (d < Stored::kHeadDim) put(leaving, arguments.pool.head_dim, d, sums);
}

// What a block of kNarrowThreads does for a piece, in shared memory, and a kv head. A chunk is a team's of four warps:
// each scores one strip of positions, and then, with the weights of all four, sums a quarter of the head's places. A
// warp stages a row, and folds it over the chunks. Starts with preparing the tile's heads, if it is to.
inline void attend_piece(const NarrowAttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head) {
  const AttendArguments &attend = arguments.attend;
  if (piece.n_tokens == 0) return wait_for_kernels_ahead();
  const uint32_t chunk = warp() / kTeam, part = warp() % kTeam;
  const uint32_t n_rows = piece.n_tokens * piece.n_heads > kNarrowRows / 2 ? 2 : 1;  // of a lane: g, and g + 8

  Quad *const queries = dynamic_shared<Quad>();
  Floats *const scores_of = reinterpret_cast<Floats *>(queries + query_tile_bytes(Stored::kHeadDim) / sizeof(Quad));
  float *const sums_of = reinterpret_cast<float *>(scores_of) + (kSumsReplaceScores ? 0 : kScoreBytes / sizeof(float));
  Floats *const team_scores = scores_of + chunk * kTiles * kWarp + lane();  // (tile, lane)
  float *const own_sums = sums_of + chunk * kNarrowRows * kSumsStride + part * kUnit;
  BONSAI_SHARED float scales_of[kNarrowRows];
  BONSAI_SHARED Row rows[kNarrowRows];
  BONSAI_SHARED RowWeights weights_of[kChunks][kNarrowRows];
  BONSAI_SHARED RowWeights total_of[2][kNarrowRows];  // of sections so far; they take turns
  static_assert(sizeof(AttentionPiece) + sizeof scales_of + sizeof rows + sizeof weights_of + sizeof total_of <=
                kNarrowOwnBytes);

  const Row own_row = find_row(attend, piece, kv_head, warp());
  rows[warp()] = own_row;
  scales_of[warp()] = stage_row(arguments, piece, kv_head, own_row, queries,
                                reinterpret_cast<float *>(scores_of) + warp() * kMaxHeadDim);
  sync_block();
  if (lane() == 0) total_of[piece.first_section % 2][warp()] = no_weights();
#pragma unroll 1
  for (uint32_t section = piece.first_section; section < piece.end_section; ++section) {
    const uint32_t begin = section * kAttentionSection + chunk * kAttentionChunk;
    const uint32_t n = begin < piece.length ? least(piece.length - begin, kAttentionChunk) : 0;

    const Strips pool(attend, kv_head, piece.sequence);
    const bool is_early = kMayHaveEarly && arguments.has_early && section == piece.first_section;
    const Chunk keys_and_values = {pool, begin / kStripSlots, n, is_early};
    float own_scores[2][4] = {};
    if (part * kStripSlots < n) score_strip(queries, keys_and_values, begin / kStripSlots + part, own_scores);
    Stored::Values values[kStrips];  // on their way while weights are computed
    if (kValuesAhead && n > 0 && part < Stored::kUnits) load_chunk_values(keys_and_values, part, values);
    if (n > 0) {
#pragma unroll
      for (uint32_t i = 0; i < 2; ++i) {
        team_scores[(2 * part + i) * kWarp] = {own_scores[i][0], own_scores[i][1], own_scores[i][2], own_scores[i][3]};
      }
    }
    sync_block();

    float weights[kTiles][4] = {};
    RowWeights of_rows[2] = {no_weights(), no_weights()};
    if (n > 0) {
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        const Floats four = team_scores[tile * kWarp];
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) weights[tile][i] = four.of[i];
      }
      const uint32_t row = lane() / 4;
      const float scales[2] = {scales_of[row], scales_of[row + 8]};
      const uint32_t visible[2] = {rows[row].visible, rows[row + 8].visible};
      softmax_chunk<Stored>(weights, scales, visible, begin, of_rows, n_rows);
    }
    if (part == 0 && lane() % 4 == 0) {
      weights_of[chunk][lane() / 4] = of_rows[0];
      weights_of[chunk][lane() / 4 + 8] = of_rows[1];
    }
    if constexpr (kSumsReplaceScores) sync_block();

#pragma unroll 1
    for (uint32_t round = 0; round < kRounds; ++round) {
      const uint32_t unit = round * kTeam + part;
      if (n > 0 && unit < Stored::kUnits) {
        if (!kValuesAhead) load_chunk_values(keys_and_values, unit, values);
        if (n < kAttentionChunk) {
#pragma unroll
          for (uint32_t i = 0; i < kStrips; ++i) Stored::keep(values[i], in_strip(n, i));
        }
        float sums[kUnitTiles][4];
        Stored::sum_once(weights, values, sums);
        store_sums(sums, own_sums);
      }
      sync_block();
      // Factors are found anew for each round: the registers are needed in between.
      RowWeights of_section = no_weights();
      Floats sums = {};
      const float *added = sums_of + warp() * kSumsStride + lane() * 4;
      for (uint32_t i = 0; i < kChunks && section * kAttentionSection + i * kAttentionChunk < piece.length; ++i) {
        const Factors factors = fold_weights(of_section, weights_of[i][warp()]);
        if (lane() < kRoundUnits * (kUnit / 4)) {
#pragma unroll
          for (uint32_t k = 0; k < 4; ++k) sums.of[k] = fold(sums.of[k], added[k], factors);
        }
        added += kNarrowRows * kSumsStride;
      }
      RowWeights total = total_of[section % 2][warp()];
      const Row row = rows[warp()];
      const Leaving leaving = leave(attend, piece, row, section, of_section, total, round == 0 && lane() == 0);
      put_round(attend, row, leaving, round, sums);
      if (lane() == 0) total_of[(section + 1) % 2][warp()] = total;
      if (round + 1 < kRounds || kSumsReplaceScores) sync_block();
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Sections

constexpr uint32_t kSections = 128;                                                       // at a time
constexpr uint32_t kPlaces = (Stored::kHeadDim + kCombineThreads - 1) / kCombineThreads;  // of a thread

// What each of the next n sections is multiplied by when it is folded, and the sum of weights then. The maximum of
// several numbers is the same in any order: so a thread finds its section's factors alone.
inline void find_factors(const RowWeights *sections, uint32_t n, float largest_before, Factors *factors) {
  if (thread() >= n) return;
  RowWeights state = {largest_before, 0};
  for (uint32_t i = 0; i < thread(); ++i) state.largest = fmaxf(state.largest, sections[i].largest);
  factors[thread()] = fold_weights(state, sections[thread()]);
}

// What a block of kCombineThreads does for a head of a token whose sections were apart; each thread takes a place of
// the head. Reads (head_dim + 2) floats a section.
inline void combine_head(const CombineArguments &arguments, const AttentionSplit &split, uint32_t head) {
  BONSAI_SHARED RowWeights sections[kSections];
  BONSAI_SHARED Factors factors[kSections];
  const uint32_t head_dim = arguments.head_dim, padded = padded_head_dim(head_dim);

  RowWeights state = no_weights();
  float sums[kPlaces] = {};
  for (uint32_t first = 0; first < split.n_partials; first += kSections) {
    const uint32_t n = split.n_partials - first < kSections ? split.n_partials - first : kSections;
    const uint64_t result = uint64_t{split.first_partial + first} * arguments.heads + head;
    sync_block();
    if (thread() < n) {
      const float *const weights = arguments.partial_weights + 2 * (result + uint64_t{thread()} * arguments.heads);
      sections[thread()] = {weights[0], weights[1]};
    }
    sync_block();
    find_factors(sections, n, state.largest, factors);
    sync_block();
    const float *const from = arguments.partial_sums + result * padded;
#pragma unroll
    for (uint32_t place = 0; place < kPlaces; ++place) {
      const uint32_t d = thread() + place * kCombineThreads;
      if (d >= head_dim) break;
#pragma unroll 16
      for (uint32_t i = 0; i < n; ++i) {
        sums[place] = fold(sums[place], from[uint64_t{i} * arguments.heads * padded + d], factors[i]);
      }
    }
    for (uint32_t i = 0; i < n; ++i) {
      state.sum = fold(state.sum, sections[i].sum, factors[i]);
      state.largest = fmaxf(state.largest, sections[i].largest);
    }
  }
  if (split.n_partials == 0) return;
  const float reciprocal = divide(1.0f, state.sum);
  BONSAI_SHARED FourFloats packed_later[kMayPack ? Stored::kHeadDim / kLaneColumns : 1];
  const bool is_packed = kMayPack && packs(arguments.packed);
  float *const y =
      is_packed ? packed_later[0].of : arguments.y + (uint64_t{split.token} * arguments.heads + head) * head_dim;
#pragma unroll
  for (uint32_t place = 0; place < kPlaces; ++place) {
    const uint32_t d = thread() + place * kCombineThreads;
    if (d < head_dim) y[d] = fmaf(sums[place], reciprocal, 0.0f);
  }
  if (!is_packed) return;
  sync_block();
  const uint32_t column = warp() * kWarpColumns + lane() * kLaneColumns;
  if (column < Stored::kHeadDim) {
    pack_head(arguments.packed, arguments.heads, split.token, head, column, packed_later[column / kLaneColumns]);
  }
}

}  // namespace bonsai::cuda
