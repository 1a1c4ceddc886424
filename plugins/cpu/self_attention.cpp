#include "plugins/cpu/self_attention.h"

#include <algorithm>
#include <array>

namespace bonsai::cpu {
namespace {

// Tokens that a thread walks together, and more where all threads have enough to do all the same. So many queries keep
// what is read of a chunk, and themselves, in a second-level cache.
constexpr uint32_t kTileTokens = 16, kMostTileTokens = 64;
constexpr uint32_t kTileQueries = 128;

// Queries from which on attend_tile() is faster than attend() and fold(), which do not have to read a chunk first.
constexpr uint32_t kLeastTileQueries = 16;

// Pieces of work for each thread below which chunks are spread instead of tiles.
constexpr uint64_t kPiecesPerThread = 4;

uint64_t chunk_count(uint64_t positions) { return (positions + kAttentionChunk - 1) / kAttentionChunk; }

uint64_t floats_of_partial(const ModelShape &shape) { return kPartialHeader + 16 * uint64_t{shape.vectors()}; }

uint32_t most_tile_tokens(const ModelShape &shape) {
  return std::clamp(kTileQueries / shape.group(), kTileTokens, kMostTileTokens);
}

// What a thread works on, in floats.
class TileWork {
 public:
  explicit TileWork(const ModelShape &shape)
      : partial_(floats_of_partial(shape)),
        states_((most_tile_tokens(shape) * uint64_t{shape.group()}) * partial_),
        queries_(round_up(most_tile_tokens(shape) * uint64_t{shape.group()}, kQuerySlab) * 16 * shape.vectors()),
        scratch_(tile_scratch(shape.vectors())) {}

  // Running states of a tile's queries (tokens, heads of the kv head, partial); room for the partial results of those
  // that attend() computes at once; the queries and the scratch of attend_tile().
  float *states(float *work) const { return work; }
  float *partials(float *work) const { return work + states_; }
  float *queries(float *work) const { return partials(work) + kAttentionQueries * partial_; }
  float *scratch(float *work) const { return queries(work) + queries_; }

  uint64_t floats() const { return states_ + kAttentionQueries * partial_ + queries_ + scratch_; }

 private:
  uint64_t partial_, states_, queries_, scratch_;
};

// Chunks are spread where tiles leave threads idle, which they never do where each has as many kv heads as any other.
uint64_t most_chunks(const ModelShape &shape, const AttentionLimits &limits) {
  const bool have_heads = shape.kv_heads % static_cast<uint32_t>(limits.threads) == 0;
  return have_heads ? 0 : chunk_count(limits.max_positions);
}

uint64_t partial_floats(const ModelShape &shape, const AttentionLimits &limits) {
  return most_chunks(shape, limits) * shape.heads * floats_of_partial(shape);
}

}  // namespace

// What all pieces of work on one layer have in common.
class SelfAttention::Walk {
 public:
  Walk(const SelfAttention &attention, const KernelTable &kernels, const Inputs &inputs)
      : shape_(attention.shape_), batch_(*attention.batch_), kernels_(kernels), inputs_(inputs) {}

  const float *query(uint32_t token, uint32_t head) const {
    return inputs_.queries + (uint64_t{token} * shape_.heads + head) * 16 * shape_.vectors();
  }
  float *output(uint32_t token, uint32_t head) const {
    return inputs_.y + token * inputs_.y_stride + uint64_t{head} * shape_.head_dim;
  }
  uint32_t length(uint32_t token) const { return batch_.positions[token] + 1; }

  // Positions of chunk `chunk` that a token attends to: 0 to kAttentionChunk.
  uint32_t positions_in(uint32_t token, uint32_t chunk) const {
    const uint32_t begin = chunk * kAttentionChunk;
    return length(token) <= begin ? 0 : std::min(kAttentionChunk, length(token) - begin);
  }

  // The rows of a chunk's first n positions.
  struct Rows {
    uint32_t n = 0;
    std::array<const std::byte *, kAttentionChunk> keys, values;
  };
  void find_rows(uint32_t sequence, uint32_t kv_head, uint32_t chunk, uint32_t n, Rows &rows) const {
    const KvCache &cache = *inputs_.cache;
    const uint32_t block_size = cache.shape().block_size;
    const uint32_t *table = batch_.block_table + uint64_t{sequence} * batch_.blocks_per_sequence;
    rows.n = n;
    for (uint32_t i = 0; i < n;) {
      const uint32_t position = chunk * kAttentionChunk + i, slot = position % block_size;
      const uint32_t block = table[position / block_size];
      const std::byte *key = cache.key(inputs_.layer, block, kv_head, slot);
      const std::byte *value = cache.value(inputs_.layer, block, kv_head, slot);
      const uint32_t end = std::min(n, i + block_size - slot);
      for (; i < end; ++i, key += cache.row_bytes(), value += cache.row_bytes()) {
        rows.keys[i] = key;
        rows.values[i] = value;
      }
    }
  }

  // Of the first n of the rows; `next`: what the caller turns to afterwards, or nullptr.
  void attend(const Rows &rows, uint32_t n, const Rows *next, uint32_t n_queries, const float *const *queries,
              float *const *partials) const {
    kernels_.attend({.dtype = inputs_.cache->shape().dtype,
                     .n = n,
                     .n_queries = n_queries,
                     .vectors = shape_.vectors(),
                     .softmax_scale = inputs_.softmax_scale,
                     .keys = rows.keys.data(),
                     .values = rows.values.data(),
                     .queries = queries,
                     .partials = partials,
                     .next_n = next ? next->n : 0,
                     .next_keys = next ? next->keys.data() : nullptr,
                     .next_values = next ? next->values.data() : nullptr,
                     .prefetch = kernels_.prefetch});
  }
  void fold(float *state, const float *partial) const {
    kernels_.fold({.state = state, .partial = partial, .vectors = shape_.vectors()});
  }
  void finish(const float *state, uint32_t token, uint32_t head) const {
    kernels_.finish({.state = state, .y = output(token, head), .n = shape_.head_dim});
  }

  uint32_t sequence(uint32_t token) const { return batch_.sequences[token]; }
  void find_rows(const Tile &tile, uint32_t kv_head, uint32_t chunk, Rows &rows) const {
    const uint32_t n = std::min(kAttentionChunk, tile.longest - chunk * kAttentionChunk);
    find_rows(sequence(tile.first), kv_head, chunk, n, rows);
  }
  // `work`: the thread's, of TileWork. First of all of a tile; then each chunk, `next` as of attend(); at last the end.
  void begin_tile(const TileOfHead &piece, float *work) const;
  void walk_tile_chunk(const TileOfHead &piece, uint32_t chunk, const Rows &rows, const Rows *next, float *work) const;
  void finish_tile(const TileOfHead &piece, float *work) const;
  void find_rows(const Chunk &chunk, uint32_t kv_head, Rows &rows) const {
    find_rows(sequence(chunk.token), kv_head, chunk.index, positions_in(chunk.token, chunk.index), rows);
  }
  void walk_chunk(const Chunk &chunk, uint32_t kv_head, const Rows &rows, const Rows *next, float *partials) const;

 private:
  // Queries of a tile, one head of a token after the other.
  uint32_t query_count(const Tile &tile) const { return (tile.last - tile.first) * shape_.group(); }
  uint32_t token_of(const Tile &tile, uint32_t query) const { return tile.first + query / shape_.group(); }
  const float *query(const TileOfHead &piece, uint32_t query) const {
    return this->query(token_of(piece.tile, query), piece.kv_head * shape_.group() + query % shape_.group());
  }
  // Whether all of a tile's queries see all of a chunk, and are enough.
  bool is_whole(const Tile &tile, uint32_t chunk) const {
    return tile.shortest >= (chunk + 1) * kAttentionChunk && query_count(tile) >= kLeastTileQueries;
  }
  void attend_tile(const TileOfHead &piece, uint32_t chunk, const Rows &rows, const Rows *next, float *work) const;

  const ModelShape &shape_;
  const bonsai_batch &batch_;
  const KernelTable &kernels_;
  const Inputs &inputs_;
  const TileWork work_{shape_};
};

SelfAttention::SelfAttention(const ModelShape &shape, const AttentionLimits &limits)
    : shape_(shape),
      limits_(limits),
      tiles_(limits.max_tokens, "attention"),
      chunks_(most_chunks(shape, limits), "attention"),
      partials_(partial_floats(shape, limits), "attention"),
      tile_work_(limits.threads * TileWork(shape).floats(), "attention") {}

uint64_t SelfAttention::bytes(const ModelShape &shape, const AttentionLimits &limits) {
  return Buffer<Tile>::bytes(limits.max_tokens) + Buffer<Chunk>::bytes(most_chunks(shape, limits)) +
         Buffer<float>::bytes(partial_floats(shape, limits)) +
         Buffer<float>::bytes(limits.threads * TileWork(shape).floats());
}

// Whether to spread chunks: tiles would leave threads idle, and the partial results have room.
bool SelfAttention::fits_chunks(uint64_t n_chunks) const {
  const uint64_t pieces = uint64_t{n_tiles_} * shape_.kv_heads;
  return pieces < kPiecesPerThread * static_cast<uint64_t>(limits_.threads) && n_chunks > n_tiles_ &&
         n_chunks <= chunks_.size();
}

// Tiles are large where no thread goes without for it.
uint32_t SelfAttention::tile_tokens(const bonsai_batch &batch) const {
  const auto threads = static_cast<uint64_t>(limits_.threads);
  const uint32_t most = most_tile_tokens(shape_);
  const bool has_enough = batch.n_tokens / most * shape_.kv_heads >= kPiecesPerThread * threads;
  return has_enough || has_heads_for(limits_.threads) ? most : kTileTokens;
}

// A tile ends with a chunk, too: its tokens see all of every chunk but that which they lie in.
void SelfAttention::plan(const bonsai_batch &batch) {
  batch_ = &batch;
  n_chunks_ = 0;
  const uint32_t tile_tokens = this->tile_tokens(batch);
  n_tiles_ = 0;
  uint64_t n_chunks = 0;
  for (uint32_t token = 0; token < batch.n_tokens; ++token) {
    const uint32_t length = batch.positions[token] + 1;
    n_chunks += chunk_count(length);
    Tile *last = n_tiles_ > 0 ? &tiles_[n_tiles_ - 1] : nullptr;
    if (!last || batch.sequences[last->first] != batch.sequences[token] || token - last->first == tile_tokens ||
        batch.positions[token] % kAttentionChunk == 0) {
      last = &tiles_[n_tiles_++];
      *last = {.first = token, .last = token, .longest = 0, .shortest = length};
    }
    last->last = token + 1;
    last->longest = std::max(last->longest, length);
    last->shortest = std::min(last->shortest, length);
  }
  if (!fits_chunks(n_chunks)) return;
  for (uint32_t token = 0; token < batch.n_tokens; ++token) {
    for (uint32_t i = 0; i < chunk_count(batch.positions[token] + 1); ++i) {
      chunks_[n_chunks_++] = {.token = token, .index = i};
    }
  }
}

void SelfAttention::run(Threads &threads, const KernelTable &kernels, const Inputs &inputs) const {
  const Walk walk(*this, kernels, inputs);
  if (n_chunks_ > 0) {
    run_chunks(threads, walk);
  } else if (has_heads_for(threads.count())) {
    threads.each_range(shape_.kv_heads, 1, [&](uint64_t first, uint64_t last, int worker) {
      run_heads(kernels, inputs, first, last, worker);
    });
  } else {
    run_tiles(threads, walk);
  }
}

void SelfAttention::run_heads(const KernelTable &kernels, const Inputs &inputs, uint64_t first, uint64_t last,
                              int worker) const {
  const Walk walk(*this, kernels, inputs);
  walk_tiles(walk, worker, (last - first) * n_tiles_, [&](uint64_t i) {
    return TileOfHead{tiles_[i % n_tiles_], static_cast<uint32_t>(first + i / n_tiles_)};
  });
}

// Later tiles attend to more positions: dealt out in turn, every thread gets short ones and long ones.
void SelfAttention::run_tiles(Threads &threads, const Walk &walk) const {
  const uint64_t n = uint64_t{n_tiles_} * shape_.kv_heads;
  const auto work = [&](uint64_t first, uint64_t step, int worker) {
    walk_tiles(walk, worker, first < n ? (n - first - 1) / step + 1 : 0, [&](uint64_t i) {
      const uint64_t piece = first + i * step;
      return TileOfHead{tiles_[piece / shape_.kv_heads], static_cast<uint32_t>(piece % shape_.kv_heads)};
    });
  };
  if (n == 1) return work(0, 1, 0);
  threads.each_worker(
      [&](int worker) { work(static_cast<uint64_t>(worker), static_cast<uint64_t>(threads.count()), worker); });
}

// Pieces of work, n of them. The rows of the next tile are asked for during the last chunk of the one before: many
// short texts are little else than first chunks.
template <class PieceAt>
void SelfAttention::walk_tiles(const Walk &walk, int worker, uint64_t n, const PieceAt &piece_at) const {
  if (n == 0) return;
  float *work = tile_work_.data() + static_cast<uint64_t>(worker) * TileWork(shape_).floats();
  Walk::Rows rows[2];
  uint32_t turn = 0;
  walk.find_rows(piece_at(0).tile, piece_at(0).kv_head, 0, rows[turn]);
  for (uint64_t i = 0; i < n; ++i) {
    const TileOfHead piece = piece_at(i);
    const auto chunks = static_cast<uint32_t>(chunk_count(piece.tile.longest));
    walk.begin_tile(piece, work);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk, turn = 1 - turn) {
      const bool is_last = chunk + 1 == chunks;
      Walk::Rows *next = !is_last || i + 1 < n ? &rows[1 - turn] : nullptr;
      if (next) {
        const TileOfHead to = is_last ? piece_at(i + 1) : piece;
        walk.find_rows(to.tile, to.kv_head, is_last ? 0 : chunk + 1, *next);
      }
      walk.walk_tile_chunk(piece, chunk, rows[turn], next, work);
    }
    walk.finish_tile(piece, work);
  }
}

// For attend_tile(), which turns to all whole chunks of the tile.
void SelfAttention::Walk::begin_tile(const TileOfHead &piece, float *work) const {
  if (!is_whole(piece.tile, 0)) return;
  const uint32_t n = query_count(piece.tile), width = 16 * shape_.vectors();
  float *to = work_.queries(work);
  for (uint32_t first = 0; first < n; first += kQuerySlab) {
    std::array<const float *, kQuerySlab> rows;
    const uint32_t count = std::min(kQuerySlab, n - first);
    for (uint32_t i = 0; i < count; ++i) rows[i] = query(piece, first + i);
    for (uint32_t k = 0; k < width; ++k, to += kQuerySlab) {
      for (uint32_t i = 0; i < count; ++i) to[i] = rows[i][k];
      std::fill(to + count, to + kQuerySlab, 0.0f);
    }
  }
}

void SelfAttention::Walk::attend_tile(const TileOfHead &piece, uint32_t chunk, const Rows &rows, const Rows *next,
                                      float *work) const {
  kernels_.attend_tile({.dtype = inputs_.cache->shape().dtype,
                        .n_queries = query_count(piece.tile),
                        .vectors = shape_.vectors(),
                        .softmax_scale = inputs_.softmax_scale,
                        .is_first = chunk == 0,
                        .keys = rows.keys.data(),
                        .values = rows.values.data(),
                        .queries = work_.queries(work),
                        .states = work_.states(work),
                        .scratch = work_.scratch(work),
                        .next_n = next ? next->n : 0,
                        .next_keys = next ? next->keys.data() : nullptr,
                        .next_values = next ? next->values.data() : nullptr,
                        .prefetch = kernels_.prefetch});
}

// Queries that see the same number of the chunk's positions go to the kernel together.
void SelfAttention::Walk::walk_tile_chunk(const TileOfHead &piece, uint32_t chunk, const Rows &rows, const Rows *next,
                                          float *work) const {
  const Tile &tile = piece.tile;
  if (is_whole(tile, chunk)) return attend_tile(piece, chunk, rows, next, work);
  const uint64_t stride = floats_of_partial(shape_);
  const uint32_t n_queries = query_count(tile);
  float *const states = work_.states(work), *const scratch = work_.partials(work);
  const auto positions_of = [&](uint32_t query) { return positions_in(token_of(tile, query), chunk); };

  std::array<const float *, kAttentionQueries> queries;
  std::array<float *, kAttentionQueries> partials;
  for (uint32_t begin = 0; begin < n_queries;) {
    const uint32_t n = positions_of(begin);
    uint32_t count = 0;
    while (count < kAttentionQueries && begin + count < n_queries && positions_of(begin + count) == n) {
      queries[count] = query(piece, begin + count);
      partials[count] = chunk == 0 ? states + (begin + count) * stride : scratch + count * stride;
      ++count;
    }
    if (n > 0) {
      // A kernel asks for no more rows than it goes through.
      const bool asks = next && (n >= next->n || begin + count == n_queries);
      attend(rows, n, asks ? next : nullptr, count, queries.data(), partials.data());
      if (asks) next = nullptr;
      for (uint32_t i = 0; i < count && chunk > 0; ++i) fold(states + (begin + i) * stride, partials[i]);
    }
    begin += count;
  }
}

void SelfAttention::Walk::finish_tile(const TileOfHead &piece, float *work) const {
  const float *state = work_.states(work);
  for (uint32_t i = 0; i < query_count(piece.tile); ++i, state += floats_of_partial(shape_)) {
    finish(state, token_of(piece.tile, i), piece.kv_head * shape_.group() + i % shape_.group());
  }
}

void SelfAttention::run_chunks(Threads &threads, const Walk &walk) const {
  const uint64_t stride = floats_of_partial(shape_), of_chunk = shape_.heads * stride;
  threads.each_range(uint64_t{n_chunks_} * shape_.kv_heads, 1, [&](uint64_t begin, uint64_t end, int) {
    Walk::Rows rows[2];
    const auto chunk_of = [&](uint64_t i) { return chunks_[i / shape_.kv_heads]; };
    const auto kv_head_of = [&](uint64_t i) { return static_cast<uint32_t>(i % shape_.kv_heads); };
    walk.find_rows(chunk_of(begin), kv_head_of(begin), rows[begin % 2]);
    for (uint64_t i = begin; i < end; ++i) {
      Walk::Rows *next = i + 1 < end ? &rows[(i + 1) % 2] : nullptr;
      if (next) walk.find_rows(chunk_of(i + 1), kv_head_of(i + 1), *next);
      walk.walk_chunk(chunk_of(i), kv_head_of(i), rows[i % 2], next, partials_.data() + i / shape_.kv_heads * of_chunk);
    }
  });
  threads.each_range(shape_.heads, rows_worth_a_thread(n_chunks_ * stride), [&](uint64_t begin, uint64_t end, int) {
    for (auto head = static_cast<uint32_t>(begin); head < end; ++head) fold_chunks(walk, head);
  });
}

// The results of one head, from the partial ones of all chunks.
void SelfAttention::fold_chunks(const Walk &walk, uint32_t head) const {
  const uint64_t stride = floats_of_partial(shape_), of_chunk = shape_.heads * stride;
  float *partial = partials_.data() + head * stride, *state = nullptr;
  for (uint32_t chunk = 0; chunk < n_chunks_; ++chunk, partial += of_chunk) {
    const auto [token, index] = chunks_[chunk];
    if (index == 0) {
      state = partial;
    } else {
      walk.fold(state, partial);
    }
    if (chunk + 1 == n_chunks_ || chunks_[chunk + 1].token != token) walk.finish(state, token, head);
  }
}

// One chunk of one token, for the heads of one kv head; partials (heads, partial).
void SelfAttention::Walk::walk_chunk(const Chunk &chunk, uint32_t kv_head, const Rows &rows, const Rows *next,
                                     float *partials) const {
  const uint32_t group = shape_.group();
  std::array<const float *, kAttentionQueries> queries;
  std::array<float *, kAttentionQueries> results;
  for (uint32_t first = 0; first < group; first += kAttentionQueries) {
    const uint32_t count = std::min(kAttentionQueries, group - first);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t head = kv_head * group + first + i;
      queries[i] = query(chunk.token, head);
      results[i] = partials + head * floats_of_partial(shape_);
    }
    attend(rows, rows.n, first == 0 ? next : nullptr, count, queries.data(), results.data());
  }
}

}  // namespace bonsai::cpu
