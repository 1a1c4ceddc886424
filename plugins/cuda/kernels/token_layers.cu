// The layers of a single token in one launch: products and attention as the kernels for one token do them, with
// barriers of the grid in the place of launches. What the next product reads of its weights first is in registers, and
// all of its block's weights are on their way to the second-level cache, while the grid waits for its last block. The
// bytes are those of separate launches: each step runs the same functions.
//
// A layer reads each weight once. Every block packs what a product multiplies for itself: hidden floats from the
// second-level cache for Q, K, V, gate and up, and O's and down's columns. A block's rows of the residual stream stay
// in its shared memory, and so does what attention is told, which is the same in all layers. The barriers: behind Q, K
// and V, attention, its sections if they are split, O, gate and up, and down.
#include "attention_narrow.cuh"
#include "layer_product.cuh"

namespace bonsai::cuda {
namespace {

#ifdef BONSAI_TIMED
constexpr bool kTimed = true;
#else
constexpr bool kTimed = false;  // noting times costs registers
#endif

// Where the times of a layer's steps are noted; null: nowhere.
inline TokenTimes *times_of(const TokenLayersArguments &arguments, uint32_t layer, TokenStep step) {
  const bool notes = kTimed && block_x() == 0 && thread() == 0;
  return notes ? arguments.times + (layer - arguments.first_layer) * kTokenSteps + step : nullptr;
}

// Waits for the grid, if it is to, and then begins a step.
struct GridWait {
  GridBarrier barrier;
  TokenTimes *times;
  bool is_needed;
  void operator()() const {
    if (!is_needed) return;
    barrier.wait();
    if (times) times->began = device_time();
  }
};

// The block's part of a step is done.
inline void note_end(TokenTimes *times) {
  if constexpr (kTimed) sync_block();
  if (times) times->arrived = device_time();
}
inline void arrive(const GridBarrier &barrier, TokenTimes *times) {
  note_end(times);
  barrier.arrive();
}

// What a block keeps in shared memory for all layers.
struct TokenState {
  NarrowAttendArguments attention;
  LayerPointers pointers[2];  // of layers with even and odd numbers
  AttentionPiece piece;       // of the item that was attended to last
  uint32_t position, sequence;
  uint32_t blocks[kMostBlocksAtHand];
  float residual[kMostResidualRows];
};

// Brings a layer's pointers to shared memory; a barrier must follow. Not by the first warp, which asks whether the grid
// has come.
inline void copy_pointers(const LayerPointers &from, LayerPointers &to) {
  constexpr uint32_t kWords = sizeof(LayerPointers) / sizeof(uint64_t);
  static_assert(sizeof(LayerPointers) % sizeof(uint64_t) == 0 && kWords <= kWarp);
  if (warp() == 1 && lane() < kWords) {
    reinterpret_cast<uint64_t *>(&to)[lane()] = reinterpret_cast<const uint64_t *>(&from)[lane()];
  }
}

// Tells attention what is the layer's own; a barrier must follow.
inline void describe(const LayerPointers &layer, uint32_t index, NarrowAttendArguments &attention) {
  if (thread() != 0) return;
  attention.heads.bias = layer.qkv_bias;
  attention.heads.q_norm = layer.q_norm;
  attention.heads.k_norm = layer.k_norm;
  attention.heads.layer = attention.attend.layer = index;
}

inline bool has_blocks_at_hand(const TokenLayersArguments &arguments) {
  return arguments.attention.attend.blocks_per_sequence <= kMostBlocksAtHand;
}

// Brings an item's piece to shared memory; a barrier must follow.
inline void take_piece(const TokenLayersArguments &arguments, uint32_t item, AttentionPiece &piece) {
  if (thread() != 0 || item >= arguments.n_items) return;
  piece = arguments.attention.attend.pieces[item / arguments.attention.attend.pool.kv_heads];
  if (has_blocks_at_hand(arguments)) piece.sequence = 0;
}

// Brings what attention is told, and what it would look up, to shared memory: each wait for the grid empties the
// first-level cache. A barrier must follow.
inline void take_attention(const TokenLayersArguments &arguments, TokenState &state) {
  const PrepareHeadsArguments &heads = arguments.attention.heads;
  const bool at_hand = has_blocks_at_hand(arguments);
  const uint32_t sequence = heads.sequences[0];
  if (at_hand) {
    const uint32_t *const blocks = heads.block_table + uint64_t{sequence} * heads.blocks_per_sequence;
    for (uint32_t i = thread(); i < heads.blocks_per_sequence; i += block_threads()) state.blocks[i] = blocks[i];
  }
  take_piece(arguments, block_x(), state.piece);
  if (thread() != 0) return;
  NarrowAttendArguments &attention = state.attention;
  attention = arguments.attention;
  state.position = heads.positions[0];
  state.sequence = at_hand ? 0 : sequence;
  attention.heads.positions = attention.attend.positions = &state.position;
  attention.heads.sequences = &state.sequence;
  if (at_hand) attention.heads.block_table = attention.attend.block_table = state.blocks;
}

// Keeps its registers to itself.
BONSAI_NOINLINE inline void attend_apart(const TokenState &state, uint32_t kv_head, GridWait wait) {
  attend_piece(state.attention, state.piece, kv_head, wait);
}

// Attention of all items, and the folding of sections that are apart. `held`: the item whose piece is at hand.
inline void attend(const TokenLayersArguments &arguments, TokenState &state, uint32_t layer, uint32_t &held,
                   GridBarrier &barrier) {
  const uint32_t kv_heads = arguments.attention.attend.pool.kv_heads;
  TokenTimes *times = times_of(arguments, layer, kAttendStep);
  GridWait wait = {barrier, times, true};
  for (uint32_t item = block_x(); item < arguments.n_items; item += grid_x()) {
    if (item != held) {
      sync_block();
      take_piece(arguments, item, state.piece);
      sync_block();
      held = item;
    }
    attend_apart(state, item % kv_heads, wait);
    wait.is_needed = false;
  }
  wait();
  barrier.turn();
  arrive(barrier, times);
  if (arguments.n_splits == 0) return;
  times = times_of(arguments, layer, kCombineStep);
  GridWait{barrier, times, true}();
  barrier.turn();
  const uint32_t heads = arguments.combine.heads;
  for (uint32_t item = block_x(); item < arguments.n_splits * heads; item += grid_x()) {
    combine_head(arguments.combine, arguments.combine.splits[item / heads], item % heads);
  }
  arrive(barrier, times);
}

inline Operands operands_of(const TokenLayersArguments &arguments, float *residual, uint32_t product) {
  switch (product) {
    case kQkvProduct:
      return {arguments.x, nullptr, arguments.attention.heads.qkv};
    case kOProduct:
      return {arguments.attention.attend.y, residual, arguments.x};
    case kGateUpProduct:
      return {arguments.x, nullptr, arguments.gated};
    default:
      return {arguments.gated, residual, arguments.x};
  }
}

inline void run_layers(const TokenLayersArguments &arguments) {
  BONSAI_SHARED TokenState state;
  const uint32_t end = arguments.first_layer + arguments.n_layers;
  GridBarrier barrier(arguments.barrier);
  take_attention(arguments, state);
  copy_pointers(arguments.layers[arguments.first_layer], state.pointers[arguments.first_layer % 2]);
  sync_block();
  LayerStep(arguments, state.pointers[arguments.first_layer % 2], kOProduct).take_residual(arguments.x, state.residual);
  uint32_t held = block_x();
  barrier.arrive();
#pragma unroll 1
  for (uint32_t index = arguments.first_layer; index < end; ++index) {
    const LayerPointers &layer = state.pointers[index % 2], &next_layer = state.pointers[(index + 1) % 2];
#pragma unroll 1
    for (uint32_t product = 0; product < kLayerProducts; ++product) {
      const bool is_last = product + 1 == kLayerProducts, ends = is_last && index + 1 == end;
      // While the grid waits for its last block.
      const auto early = [&] {
        if (product == kQkvProduct) {
          if (index + 1 < end) copy_pointers(arguments.layers[index + 1], state.pointers[(index + 1) % 2]);
          describe(layer, index, state.attention);
        }
        if (ends) return;
        const LayerStep next(arguments, is_last ? next_layer : layer, is_last ? kQkvProduct : product + 1);
        next.prefetch_weights();
      };
      TokenTimes *const times = times_of(arguments, index, step_of(product));
      const GridWait wait = {barrier, times, true};
      LayerStep step(arguments, layer, product);
      if (step.tiles() > 0) {
        step.run(operands_of(arguments, state.residual, product), arguments.eps, early, wait);
      } else {
        early();
        wait();
      }
      barrier.turn();
      if (ends) return note_end(times);
      arrive(barrier, times);
      if (product == kQkvProduct) attend(arguments, state, index, held, barrier);
    }
  }
}

}  // namespace

// Layers [first_layer, first_layer + n_layers) of one token. Block x: tiles_per_block tiles of each product from x *
// tiles_per_block on, and every grid_x()-th (piece, kv head) of attention from the x-th on. Moves each weight once,
// keys and values once, and to every block the vector of each product. Of no layers, it reads and writes nothing.
BONSAI_KERNEL(token_layers, TokenLayersArguments, kTokenThreads, 1) {
  if constexpr (kHasBitMma) {
    if (arguments.n_layers > 0) run_layers(arguments);
  }
}

}  // namespace bonsai::cuda
