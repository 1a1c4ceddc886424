// Attention of a batch over the paged KV cache, on all threads.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "plugins/common/buffer.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kv_cache.h"
#include "plugins/cpu/model.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

using namespace plugin;

struct AttentionLimits {
  uint32_t max_tokens;
  uint32_t max_positions;  // of one sequence
  int threads;
};

// Two ways to divide the work, with one arithmetic: partial results of fixed chunks of positions, folded in order. A
// batch with enough tokens is cut into tiles of tokens that share the loads of keys and values, each walked by one
// thread; with few tokens (decoding), the chunks of one token are spread over the threads and folded afterwards.
class SelfAttention {
 public:
  SelfAttention(const ModelShape &shape, const AttentionLimits &limits);
  static uint64_t bytes(const ModelShape &shape, const AttentionLimits &limits);
  uint64_t bytes() const { return tiles_.bytes() + chunks_.bytes() + partials_.bytes() + tile_work_.bytes(); }

  // Prepares for a batch; every layer then runs over it. The batch has been checked and lives until the last run.
  void plan(const bonsai_batch &batch);

  struct Inputs {
    const KvCache *cache;
    uint32_t layer;
    float softmax_scale;
    const float *queries;  // (n_tokens, heads, vectors * 16), filled up with zeros
    float *y;              // (n_tokens, y_stride), heads * head_dim of each row
    uint64_t y_stride;     // elements from row to row of y
  };
  void run(Threads &threads, const KernelTable &kernels, const Inputs &inputs) const;

  // Whether every thread has as many kv heads to itself as any other, and nothing to wait for but these.
  bool has_heads_for(int threads) const {
    return n_chunks_ == 0 && shape_.kv_heads % static_cast<uint32_t>(threads) == 0;
  }
  // Then what run() does for kv heads [first, last), on the calling thread.
  void run_heads(const KernelTable &kernels, const Inputs &inputs, uint64_t first, uint64_t last, int worker) const;

 private:
  // Tokens [first, last) of the batch, all of one sequence.
  struct Tile {
    uint32_t first, last;
    uint32_t longest, shortest;  // positions that the longest and the shortest of them attend to
  };
  struct TileOfHead {
    const Tile &tile;
    uint32_t kv_head;
  };
  // One chunk of positions of one token.
  struct Chunk {
    uint32_t token, index;
  };
  class Walk;

  void run_tiles(Threads &threads, const Walk &walk) const;
  template <class PieceAt>
  void walk_tiles(const Walk &walk, int worker, uint64_t n, const PieceAt &piece_at) const;
  void fold_chunks(const Walk &walk, uint32_t head) const;
  void run_chunks(Threads &threads, const Walk &walk) const;
  bool fits_chunks(uint64_t n_chunks) const;
  uint32_t tile_tokens(const bonsai_batch &batch) const;

  ModelShape shape_;
  AttentionLimits limits_;
  const bonsai_batch *batch_ = nullptr;
  uint32_t n_tiles_ = 0;
  uint32_t n_chunks_ = 0;    // 0: by tiles
  Buffer<Tile> tiles_;       // (max_tokens)
  Buffer<Chunk> chunks_;     // (chunks of one full sequence), none where they are never spread
  Buffer<float> partials_;   // (chunks, heads, partial)
  Buffer<float> tile_work_;  // (threads), what Walk::Work divides
};

}  // namespace bonsai::cpu
