#include "plugins/cuda/session.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "plugins/common/failure.h"
#include "plugins/common/token_checks.h"

namespace bonsai::cuda {
namespace {

// Passes of up to this many tokens are recorded as graphs: beyond them, kernels take longer than their launches.
constexpr uint32_t kGraphTokens = 32;

OutputBounds output_bounds(const SessionShape &shape) {
  return {.vocab = shape.model.vocab,
          .max_outputs = shape.selection.max_outputs,
          .max_k = shape.selection.max_k,
          .has_head = shape.model.has_head};
}

// Of each output: whether it selects a token, which the next submit may take.
std::vector<bool> which_select(const bonsai_output *const *outputs, uint32_t n) {
  std::vector<bool> selects(n);
  for (uint32_t i = 0; i < n; ++i) {
    selects[i] = outputs[i]->kind == BONSAI_OUTPUT_ARGMAX || outputs[i]->kind == BONSAI_OUTPUT_TOP_K;
  }
  return selects;
}

}  // namespace

Session::Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config)
    : Session(device, spec, config, CurrentContext(device.context())) {}

Session::Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config,
                 const CurrentContext &)
    : device_(device),
      shape_(SessionShape::check(spec, config, device.description())),
      planner_(shape_.attention),
      layout_(shape_, planner_),
      model_(device, spec),
      pool_(shape_.pool()),
      checker_(shape_.batch),
      output_checker_(output_bounds(shape_)),
      kv_(device.context(), kv_pool_bytes(pool_, shape_.model.layers), "the KV cache"),
      scratch_(device.context(), layout_.bytes, "activations and outputs"),
      device_bytes_(session_memory(shape_).device_bytes),
      graphs_(device.stream(), device.uses_graphs(), device.log()) {
  pool_.data = kv_.as<uint8_t>();
  device_.stream().fill(kv_.data(), 0, kv_.bytes());
  // Products read records of vectors that are not there, and write nothing of what they make of them.
  device_.stream().fill(scratch(layout_.activations), 0, layout_.activation_bytes);
  device_.stream().fill(scratch(layout_.gated), 0, layout_.gated_bytes);
  for (auto &slot : slots_) slot = std::make_unique<Slot>(make_slot());
  prepare_kernels();
  device_.uploader().release();
  device_.stream().synchronize();
  device_.session_bytes += device_bytes_;
}

Session::~Session() {
  device_.session_bytes -= device_bytes_;
  device_.context().release([&](const Driver &driver) { driver.cuStreamSynchronize(device_.stream().handle()); });
}

Session::Slot Session::make_slot() {
  const Context &context = device_.context();
  const SelectionLimits &limits = shape_.selection;
  const uint64_t results = shape_.has_selection() ? SelectionSizes(limits).results : 0;
  return {.sent = PinnedBuffer(context, sent_bytes(shape_, planner_), "batches", Pinned::kWriteOnly),
          .results = PinnedBuffer(context, results, "outputs"),
          .rows = PinnedBuffer(context, row_slot_bytes(shape_), "outputs"),
          .shape = {},
          .round = SelectionRound(limits),
          .pending = {},
          .done = Event(context, Event::Timing::kOff, device_.waiting())};
}

// Has every kernel that the model can need compiled and loaded: nothing may be loaded while a graph is recorded, and
// the first token should not wait for a compiler.
void Session::prepare_kernels() {
  std::set<std::string> units = {"activations", "rope", "kv", attention_unit(pool_)};
  const auto add_products = [&](const std::vector<MatrixRows> &rows) {
    for (const MatrixRows &part : rows) {
      for (std::string &unit : matmul_units(part.matrix->format, device_.matmul_device()))
        units.insert(std::move(unit));
    }
  };
  for (uint32_t i = 0; i < shape_.model.layers; ++i) {
    for (const auto &rows : model_.layer(i).projections) add_products(rows);
  }
  for (const MatrixRows &part : model_.embedding()) units.insert(embedding_unit(part.matrix->format));
  if (shape_.has_selection()) {
    add_products(model_.head());
    units.insert("selection");
  }
  device_.library().prepare(std::vector<std::string>(units.begin(), units.end()));
}

// Writes a checked batch and its plan of attention into the slot, from where they are yet to be sent.
Session::Staged Session::stage_batch(const bonsai_batch &batch, Slot &slot) {
  const BatchShape shape = BatchShape::of(batch, shape_.batch.max_blocks_per_sequence);
  fill(BatchArrays::at(slot.sent.as<std::byte>(), shape), shape, batch);
  const AttentionPlan plan = planner_.plan({batch.positions, batch.n_tokens}, {batch.sequences, batch.n_tokens},
                                           slot.sent.as<std::byte>(shape.end()));
  slot.shape = SentShape::of(shape, plan);
  return {.shape = shape,
          .arrays = BatchArrays::at(scratch(layout_.sent), shape),
          .attention = plan,
          .plan = layout_.sent + slot.shape.plan};
}

// Copies bytes of what is staged to where it belongs on the device, for what is submitted from here on. Every pass
// begins with this, and relies on it: what is ahead of a copy has ended when kernels behind it begin, however early.
void Session::send(const Slot &slot, uint64_t first, uint64_t end) {
  device_.stream().upload(scratch(layout_.sent + first), slot.sent.as<std::byte>(first), end - first);
}

void Session::check_outputs(const Request &request, uint32_t n_rows) const {
  output_checker_.check({.outputs = request.outputs, .n = request.n, .n_rows = n_rows});
}

void Session::layer_encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out) {
  if (layer >= shape_.model.layers) reject("layer is {}, expected less than {}", layer, shape_.model.layers);
  checker_.check(batch);
  if (!in && n_states_ != batch.n_tokens) {
    reject("in is NULL and the previous layer_encode left {} states, expected {}", n_states_, batch.n_tokens);
  }
  n_states_ = 0;  // until all is done: where it fails, x may hold anything
  const CurrentContext current(device_.context());
  const Stream &stream = device_.stream();
  stream.synchronize();  // the slot may be on its way
  const uint64_t bytes = uint64_t{batch.n_tokens} * shape_.model.hidden * sizeof(float);
  run_to_end(stream, [&] {
    if (in) stream.upload(scratch(layout_.x), in, bytes);
    const Staged staged = stage_batch(batch, own_slot());
    send(own_slot(), 0, own_slot().shape.parameters);
    run_layers(layer, 1, staged);
    if (out) stream.download(out, scratch(layout_.x), bytes);
  });
  n_states_ = batch.n_tokens;
}

void Session::lm_head(const float *in, uint32_t n_rows, const bonsai_output *const *outputs, uint32_t n_outputs) {
  if (n_rows == 0) reject("n_rows is 0, expected at least 1");
  if (!in && n_states_ != n_rows) {
    reject("in is NULL and the previous layer_encode left {} states, expected n_rows, {}", n_states_, n_rows);
  }
  const Request request = {.outputs = outputs, .n = n_outputs};
  check_outputs(request, n_rows);
  if (in) n_states_ = 0;
  if (n_outputs == 0) return;
  const CurrentContext current(device_.context());
  device_.stream().synchronize();
  if (in) {
    head_over(in, request);
  } else {
    run_head(request);
  }
}

// Starts all layers and the head; the slot is free.
void Session::submit_pass(const bonsai_batch &batch, const Request &request, Slot &slot) {
  slot.has_results = false;
  slot.pending.clear();
  const Staged staged = stage_batch(batch, slot);
  const uint32_t next = request.n > 0 ? stage_round(request, 0, slot) : 0;
  send(slot, 0, slot.shape.parameters + (request.n > 0 ? slot.round.staged_bytes() : 0));
  if (batch.hidden) {
    device_.stream().upload(scratch(layout_.x), batch.hidden,
                            uint64_t{batch.n_tokens} * shape_.model.hidden * sizeof(float));
    device_.stream().synchronize();  // it is the caller's, who may do as he likes with it when the call is over
  }
  const bool is_one = next == request.n && (request.n == 0 || slot.round.groups().size() == 1);
  const auto pass = [&] {
    if (!model_.embedding().empty()) embed(staged);
    run_layers(0, shape_.model.layers, staged);
    if (is_one && request.n > 0) run_group(slot, slot.round.groups()[0]);
  };
  if (is_one && batch.n_tokens <= kGraphTokens && !device_.profile().is_on()) {
    const SelectionGroup *group = request.n > 0 ? &slot.round.groups()[0] : nullptr;
    graphs_.run(graph_key(staged, group), pass, [&](const std::string &why) { return device_.stop_overlap(why); });
  } else {
    pass();
  }
  if (request.n == 0) return;
  if (is_one) {
    fetch_rows(slot, slot.round.groups()[0]);
    slot.has_results = true;
    return;
  }
  run_groups(slot);
  run_rounds(request, next, slot);
}

GraphKey Session::graph_key(const Staged &staged, const SelectionGroup *group) const {
  GraphKey key = {staged.shape.n_tokens,          staged.shape.n_sequences,     staged.shape.columns,
                  staged.attention.narrow_pieces, staged.attention.wide_pieces, staged.attention.splits,
                  staged.attention.may_prepare};
  if (group) key.insert(key.end(), {group->first, group->n, group->has_logits, group->selects});
  return key;
}

uint64_t Session::forward_submit(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs) {
  tickets_.check_room();
  checker_.check(batch);
  check_tokens(batch, shape_.model, [&](uint32_t output) { return output < selects_.size() && selects_[output]; });
  const Request request = {.outputs = outputs, .n = n_outputs};
  check_outputs(request, batch.n_tokens);

  std::vector<bool> selects = which_select(outputs, n_outputs);
  // Until all is submitted: where it fails, x and the selected tokens may be anything.
  n_states_ = 0;
  selects_.clear();
  const CurrentContext current(device_.context());
  Slot &slot = *slots_[tickets_.next() % kSlots];
  try {
    submit_pass(batch, request, slot);
    slot.done.record(device_.stream());
  } catch (...) {
    // What was submitted must not write to the slot after it is free again.
    device_.context().release([&](const Driver &driver) { driver.cuStreamSynchronize(device_.stream().handle()); });
    throw;
  }
  selects_ = std::move(selects);
  return tickets_.submit();
}

void Session::forward_wait(uint64_t ticket) {
  tickets_.wait(ticket);
  const CurrentContext current(device_.context());
  Slot &slot = *slots_[ticket % kSlots];
  slot.done.synchronize();
  deliver(slot);
}

}  // namespace bonsai::cuda
