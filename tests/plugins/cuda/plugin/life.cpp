#include "tests/plugins/cuda/plugin/life.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace bonsai::test {
namespace {

constexpr uint32_t kBlock = 32, kBlocks = 8, kPositions = 64;
constexpr uint32_t kPrompt = 9, kDecoded = 3;  // tokens

// One layer of 1-bit matrices, narrow.
const check::RandomModel &the_model() {
  static const check::RandomModel model({.layers = 1,
                                         .hidden = 128,
                                         .ffn = 128,
                                         .heads = 2,
                                         .kv_heads = 1,
                                         .head_dim = 64,
                                         .format = quant::Format::kQ1_0_G128});
  return model;
}

const model::RopeTable &the_rope() {
  static const model::RopeTable rope = model::make_rope_table(the_model().config(), kPositions);
  return rope;
}

bonsai_session_config session_config() {
  bonsai_session_config config{};
  config.struct_size = sizeof config;
  config.kv_dtype = BONSAI_KV_F16;
  config.block_size = kBlock;
  config.n_blocks = kBlocks;
  config.max_tokens = 16;
  config.max_sequences = 2;
  config.max_blocks_per_sequence = 2;
  config.max_outputs = 4;
  config.max_k = 4;
  return config;
}

}  // namespace

const bonsai_backend_api &plugin_api() {
  static const bonsai_backend_api &api = []() -> const bonsai_backend_api & {
    void *library = dlopen(BONSAI_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!library) throw std::runtime_error(dlerror());
    const auto entry = reinterpret_cast<bonsai_backend_entry_fn>(dlsym(library, BONSAI_BACKEND_ENTRY_NAME));
    return *entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  }();
  return api;
}

Life::~Life() { end(); }

void Life::end() {
  const bonsai_backend_api &api = plugin_api();
  api.session_destroy(std::exchange(session_, nullptr));
  for (bonsai_weight *weight : weights_) api.weight_free(device_, weight);
  weights_.clear();
  api.device_close(std::exchange(device_, nullptr));
}

// Makes a call, and once more if it failed and the life goes on.
void Life::make(const char *name, const Call &call) {
  bonsai_error error{};
  error.struct_size = sizeof error;
  const bonsai_status status = call(&error);
  if (status == BONSAI_OK) return;
  if (ending_.call.empty()) {
    ending_ = {name, status, error.code, std::string(error.message)};
    if (after_failure_ == AfterFailure::kAgain) return make(name, call);
  } else {
    ending_ = {std::string(name) + ", again", status, error.code, std::string(error.message)};
  }
  throw Stopped();
}

// For a call that goes on from what the one that failed was to leave, and is made although: it must be refused, as
// nobody knows what is there. True if it was not.
bool Life::went_on_after(const char *name, bonsai_status status) {
  if (status == BONSAI_INVALID_ARGUMENT) return false;
  went_on_.push_back(fmt::format("{}: status {}", name, status));
  return status == BONSAI_OK;
}

Ending Life::run() {
  try {
    open();
    upload();
    multiply();
    create_session();
    on_session();
    prefill();
    decode();
    chain();
    move_blocks();
    run_layer_by_layer();
    ask();
  } catch (const Stopped &) {
  }
  return ending_;
}

void Life::open() {
  const bonsai_option no_cache = {sizeof(bonsai_option), "cuda.kernel_cache", "off"};
  const bonsai_option *options[] = {&no_cache};
  bonsai_device_config config{};
  config.struct_size = sizeof config;
  config.n_options = 1;
  config.options = options;
  make("device_open", [&](bonsai_error *error) { return plugin_api().device_open(0, &config, &device_, error); });
}

const bonsai_weight_slice *Life::upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses) {
  std::deque<bonsai_weight_part> parts;
  std::vector<const bonsai_weight_part *> pointers;
  uint64_t rows = 0;
  for (const gguf::Tensor *tensor : tensors) {
    parts.push_back({.struct_size = sizeof(bonsai_weight_part),
                     .dtype = static_cast<bonsai_dtype>(tensor->format),
                     .rows = tensor->rows(),
                     .data = tensor->data.data(),
                     .data_bytes = tensor->data.size()});
    pointers.push_back(&parts.back());
    rows += tensor->rows();
  }
  bonsai_weight_desc desc{};
  desc.struct_size = sizeof desc;
  desc.uses = uses;
  desc.n_parts = static_cast<uint32_t>(parts.size());
  desc.columns = tensors[0]->columns();
  desc.parts = pointers.data();
  bonsai_weight *weight = nullptr;
  make("weight_upload",
       [&](bonsai_error *error) { return plugin_api().weight_upload(device_, &desc, &weight, nullptr, error); });
  weights_.push_back(weight);
  slices_.push_back({sizeof(bonsai_weight_slice), 0, weight, 0, rows});
  return &slices_.back();
}

// Matrices that are one weight, as hosts stack them, and where each one's slice goes.
void Life::stack(const std::vector<std::pair<const gguf::Tensor *, const bonsai_weight_slice **>> &matrices) {
  std::vector<const gguf::Tensor *> tensors;
  for (const auto &[tensor, slice] : matrices) tensors.push_back(tensor);
  bonsai_weight_slice next = *upload(tensors, BONSAI_USE_MATRIX);
  for (const auto &[tensor, slice] : matrices) {
    next.rows = tensor->rows();
    slices_.push_back(next);
    *slice = &slices_.back();
    next.first_row += next.rows;
  }
}

void Life::upload() {
  const model::Model &model = the_model().model();
  const model::Config &config = model.config;
  const model::LayerWeights &weights = model.layers[0];
  const auto alone = [&](const gguf::Tensor *tensor) { return upload({tensor}, BONSAI_USE_MATRIX); };
  bonsai_layer_spec &layer = layers_.emplace_back();
  layer = {};
  layer.struct_size = sizeof layer;
  layer.kind = BONSAI_LAYER_DECODER;
  stack({{weights.attn_q, &layer.q}, {weights.attn_k, &layer.k}, {weights.attn_v, &layer.v}});
  layer.o = alone(weights.attn_output);
  stack({{weights.ffn_gate, &layer.gate}, {weights.ffn_up, &layer.up}});
  layer.down = alone(weights.ffn_down);
  layer.attn_norm = weights.attn_norm.data();
  layer.ffn_norm = weights.ffn_norm.data();
  layer.q_norm = weights.q_norm.data();
  layer.k_norm = weights.k_norm.data();
  layer_pointers_ = {&layer};

  spec_.struct_size = sizeof spec_;
  spec_.n_layers = 1;
  spec_.hidden = config.hidden;
  spec_.ffn = config.ffn;
  spec_.n_heads = config.heads;
  spec_.n_kv_heads = config.kv_heads;
  spec_.head_dim = config.head_dim;
  spec_.rms_eps = config.rms_eps;
  spec_.softmax_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  spec_.rope_dim = config.head_dim;
  spec_.rope_positions = kPositions;
  spec_.rope_cos = the_rope().cos.data();
  spec_.rope_sin = the_rope().sin.data();
  spec_.layers = layer_pointers_.data();
  spec_.vocab = config.vocab;
  spec_.embedding = upload({model.token_embd}, BONSAI_USE_EMBEDDING);
  spec_.head = alone(model.head);
  spec_.output_norm = model.output_norm.data();
}

void Life::multiply() {
  const std::vector<float> x(2 * spec_.hidden, 0.5f);
  std::vector<float> y(2 * spec_.ffn);
  bonsai_gemv_args args{};
  args.struct_size = sizeof args;
  args.weight = spec_.layers[0]->gate->weight;
  args.rows = spec_.ffn;
  args.n = 2;
  args.x = x.data();
  args.y = y.data();
  make("gemv", [&](bonsai_error *error) { return plugin_api().gemv(device_, &args, error); });
  numbers_.insert(numbers_.end(), y.begin(), y.end());
}

void Life::create_session() {
  const bonsai_session_config config = session_config();
  make("session_create",
       [&](bonsai_error *error) { return plugin_api().session_create(device_, &spec_, &config, &session_, error); });
}

void Life::keep(const check::Outputs &outputs) {
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    const check::Outputs::Result &result = outputs[i];
    for (const auto *values : {&result.logits, &result.top_logits, &result.id_logits, &result.hidden}) {
      numbers_.insert(numbers_.end(), values->begin(), values->end());
    }
    numbers_.insert(numbers_.end(), result.top_ids.begin(), result.top_ids.end());
  }
}

// A forward pass that failed is made again whole.
void Life::forward(check::Batch &batch, check::Outputs &outputs) {
  const bonsai_batch view = batch.view();
  make("forward", [&](bonsai_error *error) {
    uint64_t ticket = 0;
    const bonsai_status status =
        plugin_api().forward_submit(session_, &view, outputs.data(), outputs.size(), &ticket, error);
    return status == BONSAI_OK ? plugin_api().forward_wait(session_, ticket, error) : status;
  });
  keep(outputs);
}

void Life::prefill() {
  check::Batch batch;
  batch.block_table = {{3, 1}};
  check::Outputs outputs(spec_.vocab, spec_.hidden);
  for (uint32_t i = 0; i < kPrompt; ++i) batch.add(static_cast<int32_t>(7 * i + 1), i);
  outputs.logits(kPrompt - 1);
  outputs.top(4, 4);
  outputs.argmax(kPrompt - 1);
  outputs.hidden_state(2);
  forward(batch, outputs);
}

// The second step of a shape is recorded, the third is replayed.
void Life::decode() {
  for (uint32_t step = 0; step < kDecoded; ++step) {
    check::Batch batch;
    batch.block_table = {{3, 1}};
    check::Outputs outputs(spec_.vocab, spec_.hidden);
    batch.add(static_cast<int32_t>(step), kPrompt + step);
    outputs.logits(0);
    forward(batch, outputs);
  }
}

// Two submits in flight, the second one's token the first one's choice.
void Life::chain() {
  check::Batch first, second;
  first.block_table = second.block_table = {{3, 1}};
  check::Outputs chosen(spec_.vocab, spec_.hidden), logits(spec_.vocab, spec_.hidden);
  first.add(5, kPrompt + kDecoded);
  second.add(BONSAI_TOKEN_FROM_OUTPUT(0), kPrompt + kDecoded + 1);
  chosen.argmax(0);
  logits.logits(0);
  const bonsai_batch first_view = first.view(), second_view = second.view();
  make("chained forwards", [&](bonsai_error *error) {
    const bonsai_backend_api &api = plugin_api();
    uint64_t tickets[2] = {};
    bonsai_status status = api.forward_submit(session_, &first_view, chosen.data(), 1, &tickets[0], error);
    if (status != BONSAI_OK) return status;
    status = api.forward_submit(session_, &second_view, logits.data(), 1, &tickets[1], error);
    if (status != BONSAI_OK) {
      api.forward_wait(session_, tickets[0], nullptr);
      if (status == BONSAI_DEVICE_LOST) return status;
      const auto again = api.forward_submit(session_, &second_view, logits.data(), 1, &tickets[1], nullptr);
      if (went_on_after("forward_submit", again)) api.forward_wait(session_, tickets[1], nullptr);
      return status;
    }
    status = api.forward_wait(session_, tickets[0], error);
    const bonsai_status second_status = api.forward_wait(session_, tickets[1], status == BONSAI_OK ? error : nullptr);
    return status == BONSAI_OK ? second_status : status;
  });
  keep(chosen);
  keep(logits);
}

// Out by way of a copy of a copy, and in again elsewhere.
void Life::move_blocks() {
  constexpr uint32_t kTokens = 14;
  const uint32_t from = 3, copy = 5, back = 6;
  const uint32_t sources[] = {from, 4}, destinations[] = {4, copy};
  kv_.resize(size_t{2} * kTokens * spec_.n_kv_heads * spec_.head_dim * sizeof(uint16_t));
  copied_kv_.resize(kv_.size());
  const bonsai_backend_api &api = plugin_api();
  const auto export_to = [&](std::vector<std::byte> &data, const uint32_t &block) {
    make("kv_export", [&](bonsai_error *error) {
      return api.kv_export(session_, &block, 1, kTokens, data.data(), data.size(), error);
    });
  };
  make("kv_copy", [&](bonsai_error *error) { return api.kv_copy(session_, sources, destinations, 2, error); });
  export_to(kv_, from);
  export_to(copied_kv_, copy);
  make("kv_import", [&](bonsai_error *error) {
    return api.kv_import(session_, &back, 1, kTokens, copied_kv_.data(), copied_kv_.size(), error);
  });
  check::Batch batch;
  batch.block_table = {{back}};
  check::Outputs outputs(spec_.vocab, spec_.hidden);
  batch.add(11, kTokens);
  outputs.logits(0);
  forward(batch, outputs);
}

void Life::run_layer_by_layer() {
  check::Batch batch;
  batch.block_table = {{2}};
  check::Outputs outputs(spec_.vocab, spec_.hidden);
  batch.add(0, 0);
  outputs.logits(0);
  const bonsai_batch view = batch.view();
  const std::vector<float> state(spec_.hidden, 0.25f);
  const bonsai_backend_api &api = plugin_api();
  // The layer twice, as if there were two.
  make("layer_encode", [&](bonsai_error *error) {
    bonsai_status status = api.layer_encode(session_, 0, &view, state.data(), nullptr, error);
    if (status == BONSAI_OK) status = api.layer_encode(session_, 0, &view, nullptr, nullptr, error);
    if (status == BONSAI_OK || status == BONSAI_DEVICE_LOST) return status;
    went_on_after("layer_encode", api.layer_encode(session_, 0, &view, nullptr, nullptr, nullptr));
    went_on_after("lm_head", api.lm_head(session_, nullptr, 1, outputs.data(), 1, nullptr));
    return status;
  });
  make("lm_head", [&](bonsai_error *error) { return api.lm_head(session_, nullptr, 1, outputs.data(), 1, error); });
  keep(outputs);
}

void Life::ask() {
  bonsai_device_status status{};
  status.struct_size = sizeof status;
  const bonsai_backend_api &api = plugin_api();
  make("device_status", [&](bonsai_error *error) { return api.device_status(device_, &status, error); });
  make("synchronize", [&](bonsai_error *error) { return api.synchronize(device_, error); });
}

}  // namespace bonsai::test
