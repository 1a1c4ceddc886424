// The layers of a single token in one launch: products and attention as the kernels for one token do them, with
// barriers of the grid in the place of launches. What the next product reads of its weights first is in registers, and
// all of its block's weights are on their way to the second-level cache, while the grid waits for its last block. The
// bytes are those of separate launches: each step runs the same functions.
//
// A layer reads each weight once. Every block packs what a product multiplies for itself: hidden floats from the
// second-level cache for Q, K, V, gate and up, and O's and down's columns. The barriers: behind Q, K and V, attention,
// its sections if they are split, O, gate and up, and down.
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
  const unsigned *barrier;
  GridArrival arrival;
  TokenTimes *times;
  bool is_needed;
  void operator()() const {
    if (!is_needed) return;
    wait_for_grid(barrier, arrival);
    if (times) times->began = device_time();
  }
};

// Ends a step.
inline GridArrival arrive(const TokenLayersArguments &arguments, TokenTimes *times) {
  if (times) times->arrived = device_time();
  return arrive_at_grid(arguments.barrier);
}

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

// Keeps its registers to itself.
BONSAI_NOINLINE inline void attend_apart(const NarrowAttendArguments &attention, uint32_t item, GridWait wait) {
  attend_item(attention, item, wait);
}

// Attention of all items, and the folding of sections that are apart; returns the last arrival.
inline GridArrival attend(const TokenLayersArguments &arguments, const NarrowAttendArguments &attention, uint32_t layer,
                          GridArrival arrival) {
  TokenTimes *times = times_of(arguments, layer, kAttendStep);
  GridWait wait = {arguments.barrier, arrival, times, true};
  for (uint32_t item = block_x(); item < arguments.n_items; item += grid_x()) {
    if (!wait.is_needed) sync_block();
    attend_apart(attention, item, wait);
    wait.is_needed = false;
  }
  wait();
  arrival = arrive(arguments, times);
  if (arguments.n_splits == 0) return arrival;
  times = times_of(arguments, layer, kCombineStep);
  GridWait{arguments.barrier, arrival, times, true}();
  const uint32_t heads = arguments.combine.heads;
  for (uint32_t item = block_x(); item < arguments.n_splits * heads; item += grid_x()) {
    combine_head(arguments.combine, arguments.combine.splits[item / heads], item % heads);
  }
  return arrive(arguments, times);
}

// Where a product's vector comes from, and where its results go.
struct Operands {
  const float *x;
  float *y;
  bool adds;
};
inline Operands operands_of(const TokenLayersArguments &arguments, uint32_t product) {
  switch (product) {
    case kQkvProduct:
      return {arguments.x, arguments.attention.heads.qkv, false};
    case kOProduct:
      return {arguments.attention.attend.y, arguments.x, true};
    case kGateUpProduct:
      return {arguments.x, arguments.gated, false};
    default:
      return {arguments.gated, arguments.x, true};
  }
}

inline TokenStep step_of(uint32_t product) {
  return static_cast<TokenStep>(product == kQkvProduct ? kQkvStep : kOStep + product - kOProduct);
}

inline void run_layers(const TokenLayersArguments &arguments) {
  BONSAI_SHARED NarrowAttendArguments attention;
  BONSAI_SHARED LayerPointers pointers[2];  // of layers with even and odd numbers
  const uint32_t end = arguments.first_layer + arguments.n_layers;
  if (thread() == 0) attention = arguments.attention;
  copy_pointers(arguments.layers[arguments.first_layer], pointers[arguments.first_layer % 2]);
  GridArrival arrival = arrive_at_grid(arguments.barrier);
#pragma unroll 1
  for (uint32_t index = arguments.first_layer; index < end; ++index) {
    const LayerPointers &layer = pointers[index % 2], &next_layer = pointers[(index + 1) % 2];
#pragma unroll 1
    for (uint32_t product = 0; product < kLayerProducts; ++product) {
      const bool is_last = product + 1 == kLayerProducts, ends = is_last && index + 1 == end;
      // While the grid waits for its last block.
      const auto early = [&] {
        if (product == kQkvProduct) {
          if (index + 1 < end) copy_pointers(arguments.layers[index + 1], pointers[(index + 1) % 2]);
          describe(layer, index, attention);
        }
        if (ends) return;
        const LayerStep next(arguments, is_last ? next_layer : layer, is_last ? kQkvProduct : product + 1);
        next.prefetch_weights();
      };
      TokenTimes *const times = times_of(arguments, index, step_of(product));
      const GridWait wait = {arguments.barrier, arrival, times, true};
      LayerStep step(arguments, layer, product);
      if (step.tiles() > 0) {
        const Operands operands = operands_of(arguments, product);
        step.run(arguments, operands.x, operands.y, operands.adds, early, wait);
      } else {
        early();
        wait();
      }
      if (ends) {
        if (times) times->arrived = device_time();
        return;
      }
      arrival = arrive(arguments, times);
      if (product == kQkvProduct) arrival = attend(arguments, attention, index, arrival);
    }
  }
}

}  // namespace

BONSAI_KERNEL(token_layers, TokenLayersArguments, kTokenThreads, 1) {
  if constexpr (kHasBitMma) run_layers(arguments);
}

}  // namespace bonsai::cuda
