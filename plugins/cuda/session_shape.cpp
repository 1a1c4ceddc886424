#include "plugins/cuda/session_shape.h"

#include <algorithm>

#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/model.h"

namespace bonsai::cuda {
namespace {

// Rows of logits that are computed together; the scratch does not grow with the outputs beyond them.
constexpr uint32_t kGroupRows = 32;

// Beyond the first, dimensions of a grid go so far.
constexpr uint32_t kMaxGridRows = 65535;

// Every part begins at a multiple of 256 bytes, as allocations do.
class Places {
 public:
  uint64_t take(uint64_t bytes) {
    const uint64_t place = end_;
    end_ += (bytes + 255) / 256 * 256;
    return place;
  }
  uint64_t end() const { return end_; }

 private:
  uint64_t end_ = 0;
};

// Sizes in bytes must fit 64 bits before anything is multiplied out.
void check_pool(const KvPool &pool, uint32_t layers) {
  const double bytes = static_cast<double>(layers) * pool.n_blocks * static_cast<double>(kv_block_bytes(pool));
  if (bytes > 0x1p60) {
    throw Failure(BONSAI_OUT_OF_MEMORY,
                  fmt::format("device memory: a KV cache of {:.0f} bytes is not to be had", bytes));
  }
}

}  // namespace

SessionShape SessionShape::check(const bonsai_model_spec &spec, const bonsai_session_config &config,
                                 const DeviceDescription &device) {
  const ModelShape model = check_shape(spec);
  check_config(config, model);
  if (model.head_dim > cuda::kMaxHeadDim) {
    refuse("model->head_dim is {}, expected at most {}", model.head_dim, cuda::kMaxHeadDim);
  }
  if (model.heads > kMaxGridRows) refuse("model->n_heads is {}, expected at most {}", model.heads, kMaxGridRows);
  const KvPool pool = {.data = nullptr,
                       .dtype = config.kv_dtype,
                       .head_dim = model.head_dim,
                       .kv_heads = model.kv_heads,
                       .block_size = config.block_size,
                       .n_blocks = config.n_blocks};
  check_pool(pool, model.layers);
  return {.model = model,
          .batch = batch_limits(config, model),
          .attention = {.pool = pool,
                        .heads = model.heads,
                        .max_tokens = config.max_tokens,
                        .max_positions = max_positions(config, model),
                        .multiprocessors = static_cast<uint32_t>(device.multiprocessors),
                        .shared_bytes = static_cast<uint32_t>(device.shared_bytes_per_block),
                        .multiprocessor_shared_bytes = device.shared_bytes_per_multiprocessor},
          .selection = {.vocab = model.vocab,
                        .hidden = model.hidden,
                        .max_outputs = config.max_outputs,
                        .max_k = config.max_k,
                        .group_rows = std::clamp(config.max_outputs, 1u, kGroupRows)}};
}

KvPoolShape SessionShape::exported_pool() const {
  return {.layers = model.layers,
          .kv_heads = model.kv_heads,
          .blocks = batch.n_blocks,
          .block_size = batch.block_size,
          .head_bytes = kv_head_bytes(pool().dtype, model.head_dim)};
}

uint64_t SessionShape::rows() const { return std::max(batch.max_tokens, has_selection() ? selection.group_rows : 0); }

uint64_t SessionShape::widest() const {
  return std::max({uint64_t{model.hidden}, uint64_t{model.ffn}, model.q_rows()});
}

ScratchLayout::ScratchLayout(const SessionShape &shape, const AttentionPlanner &planner) {
  const ModelShape &model = shape.model;
  const uint64_t tokens = shape.batch.max_tokens, rows = shape.has_selection() ? shape.selection.group_rows : 0;
  const auto floats = [](uint64_t n) { return n * sizeof(float); };
  Places places;
  x = places.take(floats(tokens * model.hidden));
  qkv = places.take(floats(tokens * model.qkv_rows()));
  attended = places.take(floats(tokens * model.q_rows()));
  gate_up = places.take(floats(2 * tokens * model.ffn));
  gated = places.take(packed_activation_bytes(SessionShape::kAllForms, 1, model.ffn));
  gated_bytes = places.end() - gated;
  activation_bytes = packed_activation_bytes(SessionShape::kAllForms, shape.rows(), shape.widest());
  activations = places.take(activation_bytes);
  partials = places.take(planner.partial_bytes());
  sent = places.take(sent_bytes(shape, planner));
  block_lists = places.take(2 * uint64_t{shape.batch.n_blocks} * sizeof(uint32_t));
  normed = places.take(floats(rows * model.hidden));
  logits = places.take(floats(rows * model.vocab));
  select_partials = segments = selected = 0;
  if (shape.has_selection()) {
    const SelectionSizes sizes(shape.selection);
    select_partials = places.take(sizes.partials);
    segments = places.take(sizes.segments);
    selected = places.take(sizes.selected);
  }
  bytes = places.end();
}

std::string attention_unit(const KvPool &pool) {
  const char *dtype = pool.dtype == kKvF16 ? "F16" : pool.dtype == kKvQ8_0 ? "Q8_0" : "F32";
  return fmt::format("attention.{}.{}", dtype, padded_head_dim(pool.head_dim));
}

uint64_t sent_bytes(const SessionShape &shape, const AttentionPlanner &planner) {
  const BatchShape batch = {.n_tokens = shape.batch.max_tokens,
                            .n_sequences = shape.batch.max_sequences,
                            .columns = shape.batch.max_blocks_per_sequence};
  return batch.end() + planner.plan_bytes() + (shape.has_selection() ? SelectionSizes(shape.selection).staged : 0);
}

uint64_t row_slot_bytes(const SessionShape &shape) {
  if (!shape.has_selection()) return 0;
  return uint64_t{shape.selection.group_rows} * std::max(shape.model.vocab, shape.model.hidden) * sizeof(float);
}

MemoryNeed session_memory(const SessionShape &shape) {
  const AttentionPlanner planner(shape.attention);
  uint64_t slot = sent_bytes(shape, planner) + row_slot_bytes(shape);
  if (shape.has_selection()) slot += SelectionSizes(shape.selection).results;
  const uint64_t device =
      kv_pool_bytes(shape.pool(), shape.model.layers) + Model::bytes(shape.model) + ScratchLayout(shape, planner).bytes;
  return {.device_bytes = device, .host_bytes = (kSlots + 1) * slot};
}

}  // namespace bonsai::cuda
