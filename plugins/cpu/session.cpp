#include "plugins/cpu/session.h"

#include <algorithm>

#include "plugins/common/failure.h"
#include "plugins/common/token_checks.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Measured: 6 gain, 128 lose (docs/cpu-decoding.md, "Cores that are far apart").
constexpr uint32_t kTokensInPlace = 8;

}  // namespace

SessionShape SessionShape::check(const bonsai_model_spec &spec, const bonsai_session_config &config,
                                 const Device &device) {
  const int threads = device.threads().count();
  const ModelShape model = check_shape(spec);
  check_config(config, model);
  const SessionShape shape = {
      .model = model,
      .kv = {.dtype = config.kv_dtype,
             .layers = model.layers,
             .kv_heads = model.kv_heads,
             .head_dim = model.head_dim,
             .block_size = config.block_size,
             .blocks = config.n_blocks},
      .batch = batch_limits(config, model),
      .attention = {.max_tokens = config.max_tokens, .max_positions = max_positions(config, model), .threads = threads},
      .outputs = {.max_outputs = config.max_outputs, .max_k = config.max_k, .threads = threads},
      .needs = KernelNeeds(device.kernels())};
  const double kv_rows = 2.0 * model.layers * config.n_blocks * config.block_size * model.kv_heads;
  if (kv_rows > 0x1p50) {  // sizes in bytes would leave 64 bits
    throw Failure(BONSAI_OUT_OF_MEMORY, fmt::format("host memory: a KV cache of {:.0f} keys and values of {} numbers "
                                                    "is not to be had",
                                                    kv_rows, model.head_dim));
  }
  return shape;
}

uint64_t SessionShape::n_selected() const { return model.has_head ? outputs.max_outputs : 0; }

uint64_t SessionShape::query_floats() const { return uint64_t{model.heads} * 16 * model.vectors(); }

uint64_t SessionShape::widest() const {
  return std::max({uint64_t{model.hidden}, uint64_t{model.ffn}, model.q_rows()});
}

ActivationRoom SessionShape::activation_room() const {
  KernelNeeds of_batch = needs;
  if (batch.max_tokens < needs.abreast.fewest_vectors) of_batch.abreast = {};  // the head's have a sink
  return cpu::activation_room(std::max(batch.max_tokens, OutputStage::kRows), widest(), attention.threads, of_batch);
}

uint64_t SessionShape::bytes() const {
  return Model::bytes(model) + KvCache::bytes(kv) + BatchChecker::bytes(batch) +
         SelfAttention::bytes(model, attention) + OutputStage::bytes(model, outputs) + Activations::bytes(*this) +
         Buffer<int32_t>::bytes(n_selected());
}

Activations::Activations(const SessionShape &shape)
    : x(uint64_t{shape.batch.max_tokens} * shape.model.hidden, "activations"),
      h(uint64_t{shape.batch.max_tokens} * shape.model.hidden, "activations"),
      qkv(shape.batch.max_tokens * shape.model.qkv_rows(), "activations"),
      queries(shape.batch.max_tokens * shape.query_floats(), "activations"),
      gate_up(2 * uint64_t{shape.batch.max_tokens} * shape.model.ffn, "activations"),
      quantized(shape.activation_room().bytes, "activations"),
      quantized_room(shape.activation_room()),
      q_rows_(shape.model.q_rows()),
      qkv_rows_(shape.model.qkv_rows()),
      ffn_(shape.model.ffn),
      attended_of_many_(shape.batch.max_tokens * q_rows_, "activations"),
      ffn_of_many_(shape.batch.max_tokens * ffn_, "activations") {}

Activations::Rows Activations::attended(uint32_t n_tokens) const {
  if (n_tokens <= kTokensInPlace) return {qkv.data(), qkv_rows_};
  return {attended_of_many_.data(), q_rows_};
}

Activations::Rows Activations::ffn(uint32_t n_tokens) const {
  if (n_tokens <= kTokensInPlace) return {gate_up.data(), 2 * ffn_};
  return {ffn_of_many_.data(), ffn_};
}

uint64_t Activations::bytes(const SessionShape &shape) {
  const uint64_t tokens = shape.batch.max_tokens;
  return 2 * Buffer<float>::bytes(tokens * shape.model.hidden) + Buffer<float>::bytes(tokens * shape.model.qkv_rows()) +
         Buffer<float>::bytes(tokens * shape.query_floats()) + Buffer<float>::bytes(tokens * shape.model.q_rows()) +
         Buffer<float>::bytes(2 * tokens * shape.model.ffn) + Buffer<float>::bytes(tokens * shape.model.ffn) +
         Buffer<std::byte>::bytes(shape.activation_room().bytes);
}

uint64_t Activations::bytes() const {
  return x.bytes() + h.bytes() + qkv.bytes() + queries.bytes() + attended_of_many_.bytes() + gate_up.bytes() +
         ffn_of_many_.bytes() + quantized.bytes();
}

Session::Session(Device &device, const bonsai_model_spec &spec, const bonsai_session_config &config)
    : device_(device),
      shape_(SessionShape::check(spec, config, device)),
      model_(spec),
      cache_(shape_.kv),
      checker_(shape_.batch),
      attention_(shape_.model, shape_.attention),
      output_stage_(shape_.model, shape_.outputs),
      activations_(shape_),
      selected_(shape_.n_selected(), "outputs") {
  output_stage_.check_head(model_);
  device_.session_bytes += model_.bytes() + cache_.bytes() + checker_.bytes() + attention_.bytes() +
                           output_stage_.bytes() + activations_.bytes() + selected_.bytes();
}

Session::~Session() { device_.session_bytes -= shape_.bytes(); }

void Session::layer_encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out) {
  if (layer >= shape_.model.layers) reject("layer is {}, expected less than {}", layer, shape_.model.layers);
  checker_.check(batch);
  if (!in && n_states_ != batch.n_tokens) {
    reject("in is NULL and the previous layer_encode left {} states, expected {}", n_states_, batch.n_tokens);
  }
  const uint64_t n = uint64_t{batch.n_tokens} * shape_.model.hidden;
  if (in) std::copy_n(in, n, activations_.x.data());
  n_states_ = 0;  // until all is done: where it fails, x may hold anything
  attention_.plan(batch);
  device_.threads().together([&] { run_layer(layer, batch); });
  n_states_ = batch.n_tokens;
  if (out) std::copy_n(activations_.x.data(), n, out);
}

void Session::lm_head(const float *in, uint32_t n_rows, const bonsai_output *const *outputs, uint32_t n_outputs) {
  if (n_rows == 0) reject("n_rows is 0, expected at least 1");
  if (!in && n_states_ != n_rows) {
    reject("in is NULL and the previous layer_encode left {} states, expected n_rows, {}", n_states_, n_rows);
  }
  const OutputStage::Request request = {.outputs = outputs, .n = n_outputs, .n_rows = n_rows};
  output_stage_.check(request);
  if (in) n_states_ = 0;
  run_head(request, in ? in : activations_.x.data(), nullptr);
}

// Output norm, head and selection over rows of x; `selected` as OutputStage::Inputs has it.
void Session::run_head(const OutputStage::Request &request, const float *x, int32_t *selected) {
  Profile &profile = device_.profile();
  output_stage_.run(
      device_.threads(), device_.kernels(), request,
      {.model = &model_, .x = x, .activations = activations_.scratch(), .selected = selected, .profile = &profile});
  if (profile.is_on()) profile.add_bytes(Phase::kHead, OutputStage::passes(request) * bytes_of_rows(model_.head()));
}

uint64_t Session::forward_submit(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs) {
  tickets_.check_room();
  checker_.check(batch);
  check_tokens(batch, shape_.model, [&](uint32_t output) { return selected_by(output) >= 0; });
  const OutputStage::Request request = {.outputs = outputs, .n = n_outputs, .n_rows = batch.n_tokens};
  output_stage_.check(request);

  n_states_ = 0;
  device_.threads().together([&] {
    load_inputs(batch);
    n_selected_ = 0;  // until all is done, likewise
    attention_.plan(batch);
    for (uint32_t layer = 0; layer < shape_.model.layers; ++layer) run_layer(layer, batch);
    if (n_outputs > 0) run_head(request, activations_.x.data(), selected_.data());
  });
  n_selected_ = n_outputs;
  return tickets_.submit();
}

// A submit has run when it returns.
void Session::forward_wait(uint64_t ticket) { tickets_.wait(ticket); }

// The token that an output of the previous submit selected; -1 if there is none.
int32_t Session::selected_by(uint32_t output) const { return output < n_selected_ ? selected_[output] : -1; }

void Session::load_inputs(const bonsai_batch &batch) {
  const Profile::Span span(device_.profile(), Phase::kEmbedding);
  const uint64_t hidden = shape_.model.hidden;
  float *x = activations_.x.data();
  if (!shape_.model.has_embedding) {
    std::copy_n(batch.hidden, batch.n_tokens * hidden, x);
    return;
  }
  device_.threads().each_range(batch.n_tokens, rows_worth_a_thread(hidden), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const int32_t token = batch.tokens[i];
      model_.embed(token >= 0 ? token : selected_by(referred_output(token)), x + i * hidden);
    }
  });
}

}  // namespace bonsai::cpu
