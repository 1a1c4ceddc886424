// One decoder layer over a batch, in the order in which data flows.
#include <numbers>
#include <optional>

#include "plugins/cuda/kernels/attention_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"
#include "plugins/cuda/packing.h"
#include "plugins/cuda/session.h"

namespace bonsai::cuda {
// x = rows of the embedding
void Session::embed(const Staged &staged) {
  const DeviceSpan span(device_, Phase::kEmbedding);
  for (const MatrixRows &part : model_.embedding()) {
    const PackedMatrix &matrix = *part.matrix;
    const EmbedArguments arguments = {.weights = matrix.storage.data(),
                                      .tile_bytes = tile_bytes(matrix.format, matrix.columns),
                                      .tokens = staged.arrays.tokens,
                                      .selected = scratch_.as<int32_t>(layout_.selected),
                                      .x = floats(layout_.x),
                                      .columns = shape_.model.hidden,
                                      .first_row = static_cast<uint32_t>(part.first_row),
                                      .first_token = static_cast<int32_t>(part.output),
                                      .rows = static_cast<uint32_t>(part.rows)};
    device_.launch(embedding_unit(matrix.format), "embed",
                   {.grid = {staged.shape.n_tokens, segment_count(matrix.columns), 1}, .threads = kEmbedThreads},
                   arguments);
  }
}

// Layers [first, first + n).
void Session::run_layers(uint32_t first, uint32_t n, const Staged &staged) {
  for (uint32_t layer = first; layer < first + n; ++layer) run_layer(layer, staged);
}

void Session::run_layer(uint32_t index, const Staged &staged) {
  const Layer &layer = model_.layer(index);
  attention_half(layer, index, staged);
  ffn_half(layer, staged.shape.n_tokens);
}

// x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h), h = rms_norm(x, attn_norm)
void Session::attention_half(const Layer &layer, uint32_t index, const Staged &staged) {
  const ModelShape &model = shape_.model;
  run_product({.phase = Phase::kQkv,
               .rows = layer.rows(Projection::kQkv),
               .n = staged.shape.n_tokens,
               .columns = model.hidden,
               .source = PackedSource::kNormed,
               .x = floats(layout_.x),
               .norm = layer.attn_norm,
               .bias = nullptr,
               .y = floats(layout_.qkv),
               .y_stride = model.qkv_rows(),
               .add = false});
  attend(layer, index, staged);
  run_product({.phase = Phase::kO,
               .rows = layer.rows(Projection::kO),
               .n = staged.shape.n_tokens,
               .columns = model.q_rows(),
               .source = packs_heads(layer, staged) ? PackedSource::kPacked : PackedSource::kPlain,
               .x = floats(layout_.attended),
               .norm = nullptr,
               .bias = layer.o_bias,
               .y = floats(layout_.x),
               .y_stride = model.hidden,
               .add = true});
}

// x += Wdown (silu(Wgate h) * (Wup h)), h = rms_norm(x, ffn_norm)
void Session::ffn_half(const Layer &layer, uint64_t n) {
  const ModelShape &model = shape_.model;
  const Step gate_up = {.phase = Phase::kGateUp,
                        .rows = layer.rows(Projection::kGateUp),
                        .n = n,
                        .columns = model.hidden,
                        .source = PackedSource::kNormed,
                        .x = floats(layout_.x),
                        .norm = layer.ffn_norm,
                        .bias = nullptr,
                        .y = floats(layout_.gate_up),
                        .y_stride = 2 * uint64_t{model.ffn},
                        .add = false};
  const Step down = {.phase = Phase::kDown,
                     .rows = layer.rows(Projection::kDown),
                     .n = n,
                     .columns = model.ffn,
                     .source = PackedSource::kGated,
                     .x = floats(layout_.gate_up),
                     .norm = nullptr,
                     .bias = nullptr,
                     .y = floats(layout_.x),
                     .y_stride = model.hidden,
                     .add = true};
  if (gates(layer, n)) return run_gated(gate_up, down);
  run_product(gate_up);
  run_product(down);
}

// Whether the product of gate and up goes on to SwiGLU and to packing.
bool Session::gates(const Layer &layer, uint64_t n) const {
  const MatmulDevice device = device_.matmul_device();
  return device_.fusion() == Fusion::kSwiglu && n == 1 && may_multiply_gated(layer.rows(Projection::kGateUp), device) &&
         !forms_for(layer.rows(Projection::kDown), n, device).halves;
}

// What goes to `down` is packed while there are still blocks that read what comes to `gate_up`.
void Session::run_gated(const Step &gate_up, const Step &down) {
  const ActivationForms forms = forms_for(down.rows, down.n, device_.matmul_device());
  const PackedActivations gated = place_activations(forms, scratch(layout_.gated), down.n, down.columns);
  std::optional<DeviceSpan> span;
  span.emplace(device_, Phase::kNorm);
  const PackedActivations normed = pack(gate_up);
  span.emplace(device_, gate_up.phase);
  multiply_gated(device_, {.rows = gate_up.rows, .activations = normed, .packed = gated});
  span.emplace(device_, down.phase);
  multiply_packed(down, gated);
  if (!device_.profile().is_on()) return;
  for (const Step *step : {&gate_up, &down}) device_.profile().add_bytes(step->phase, bytes_of_rows(step->rows));
}

// A product behind its vectors' norm or SwiGLU, and packing.
void Session::run_product(const Step &step) {
  std::optional<DeviceSpan> span;
  span.emplace(device_, step.source == PackedSource::kNormed  ? Phase::kNorm
                        : step.source == PackedSource::kGated ? Phase::kSwiglu
                                                              : step.phase);
  const PackedActivations activations = pack(step);
  span.emplace(device_, step.phase);
  multiply_packed(step, activations);
  if (device_.profile().is_on()) device_.profile().add_bytes(step.phase, bytes_of_rows(step.rows));
}

void Session::multiply_packed(const Step &step, const PackedActivations &activations) {
  multiply(device_, Product{.rows = step.rows,
                            .activations = activations,
                            .n = step.n,
                            .bias = step.bias,
                            .y = step.y,
                            .y_stride = step.y_stride,
                            .add = step.add});
}

// Where a product of `rows` finds its n vectors, and in which forms.
RowsToPack Session::rows_to_pack(const std::vector<MatrixRows> &rows, uint64_t n, uint64_t columns) const {
  const ActivationForms forms = forms_for(rows, n, device_.matmul_device());
  return {.x = nullptr,
          .n = n,
          .columns = columns,
          .forms = forms,
          .to = place_activations(forms, scratch(layout_.activations), n, columns)};
}

PackedActivations Session::pack(const Step &step) {
  RowsToPack packed = rows_to_pack(step.rows, step.n, step.columns);
  if (step.source == PackedSource::kPacked) return packed.to;
  packed.x = step.x;
  packed.picked = step.picked;
  packed.norm = step.norm;
  packed.eps = model_.rms_eps();
  if (step.source == PackedSource::kGated) {
    pack_swiglu(device_, packed);
  } else {
    pack_rows(device_, packed);
  }
  return packed.to;
}

// What biases, norms and RoPE of every head take; K and V go to the cache, queries to where attention reads them.
PrepareHeadsArguments Session::heads_to_prepare(const Layer &layer, uint32_t index, const Staged &staged) const {
  const ModelShape &model = shape_.model;
  return {.qkv = floats(layout_.qkv),
          .bias = layer.qkv_bias,
          .q_norm = layer.q_norm,
          .k_norm = layer.k_norm,
          .rope_cos = model_.rope_cos(),
          .rope_sin = model_.rope_sin(),
          .positions = staged.arrays.positions,
          .sequences = staged.arrays.sequences,
          .block_table = staged.arrays.block_table,
          .pool = pool_,
          .blocks_per_sequence = staged.shape.columns,
          .layer = index,
          .heads = model.heads,
          .rope_dim = model.rope_dim,
          .rms_eps = model_.rms_eps()};
}

void Session::prepare_heads(const PrepareHeadsArguments &arguments, uint32_t n_tokens) {
  const DeviceSpan span(device_, Phase::kRope);
  constexpr uint32_t kHeads = kPrepareThreads / 32;
  const uint32_t heads = arguments.heads + 2 * arguments.pool.kv_heads;
  device_.launch("rope", "prepare_heads",
                 {.grid = {n_tokens, (heads + kHeads - 1) / kHeads, 1}, .threads = kPrepareThreads}, arguments);
}

// What attention over few rows is told; over many, it has other pieces.
AttendArguments Session::attend_arguments(uint32_t index, const Staged &staged) const {
  const ModelShape &model = shape_.model;
  return {.pool = pool_,
          .queries = floats(layout_.qkv),
          .y = floats(layout_.attended),
          .packed = {},
          .positions = staged.arrays.positions,
          .block_table = staged.arrays.block_table,
          .pieces = scratch_.as<AttentionPiece>(staged.plan),
          .partial_sums = floats(layout_.partials),
          .partial_weights = floats(layout_.partials + planner_.partial_weights_offset()),
          .query_stride = static_cast<uint32_t>(model.qkv_rows()),
          .blocks_per_sequence = staged.shape.columns,
          .layer = index,
          .heads = model.heads,
          .score_scale = model_.softmax_scale() * std::numbers::log2e_v<float>};
}

CombineArguments Session::combine_arguments(const Staged &staged) const {
  return {.packed = {},
          .splits = scratch_.as<AttentionSplit>(staged.plan + staged.attention.splits_offset()),
          .partial_sums = floats(layout_.partials),
          .partial_weights = floats(layout_.partials + planner_.partial_weights_offset()),
          .y = floats(layout_.attended),
          .heads = shape_.model.heads,
          .head_dim = shape_.model.head_dim};
}

// Whether attention packs what it finds for O's product, in the place of a launch.
bool Session::packs_heads(const Layer &layer, const Staged &staged) const {
  const ModelShape &model = shape_.model;
  return device_.fusion() != Fusion::kOff && staged.attention.wide_pieces == 0 &&
         may_pack_heads(model.heads, model.head_dim) &&
         !forms_for(layer.rows(Projection::kO), staged.shape.n_tokens, device_.matmul_device()).halves;
}

void Session::attend(const Layer &layer, uint32_t index, const Staged &staged) {
  const AttentionPlan &plan = staged.attention;
  const bool prepares = plan.may_prepare && device_.fusion() != Fusion::kOff;
  const PrepareHeadsArguments heads = heads_to_prepare(layer, index, staged);
  if (!prepares) prepare_heads(heads, staged.shape.n_tokens);

  const DeviceSpan span(device_, Phase::kAttention);
  const ModelShape &model = shape_.model;
  AttendArguments arguments = attend_arguments(index, staged);
  CombineArguments combine = combine_arguments(staged);
  if (packs_heads(layer, staged)) {
    arguments.packed = combine.packed =
        rows_to_pack(layer.rows(Projection::kO), staged.shape.n_tokens, model.q_rows()).to;
  }
  if (plan.narrow_pieces > 0) {
    const uint32_t for_early = prepares ? planner_.early_bytes(plan) : 0;
    device_.launch(attention_unit(pool_), "attend_narrow",
                   {.grid = {plan.narrow_pieces * model.kv_heads, 1, 1},
                    .threads = kNarrowThreads,
                    .shared_bytes = planner_.narrow_shared_bytes() + for_early},
                   NarrowAttendArguments{prepares ? heads : PrepareHeadsArguments{}, arguments, for_early > 0});
  }
  if (plan.wide_pieces > 0) {
    arguments.pieces = scratch_.as<AttentionPiece>(staged.plan + plan.wide_offset());
    device_.launch(attention_unit(pool_), "attend_wide",
                   {.grid = {plan.wide_pieces * model.kv_heads, 1, 1},
                    .threads = kWideThreads,
                    .shared_bytes = planner_.wide_shared_bytes()},
                   arguments);
  }
  if (plan.splits > 0) {
    device_.launch(attention_unit(pool_), "combine_sections",
                   {.grid = {plan.splits, model.heads, 1}, .threads = kCombineThreads}, combine);
  }
}

}  // namespace bonsai::cuda
