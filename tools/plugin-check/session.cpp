#include "tools/plugin-check/session.h"

#include <algorithm>
#include <cstring>

#include "tools/plugin-check/random_model.h"

namespace bonsai::check {

bonsai_session_config usual_config(Context &context, bonsai_kv_dtype kv_dtype, uint32_t block_size,
                                   uint32_t positions) {
  expect(!context.info().block_sizes.empty(), "device_info lists no block size, although sessions are offered");
  bonsai_session_config config{};
  config.struct_size = sizeof config;
  config.kv_dtype = kv_dtype;
  config.block_size = block_size ? block_size : context.info().block_sizes[0];
  config.max_tokens = 512;
  config.max_sequences = 8;
  config.max_blocks_per_sequence = blocks_for(positions, config.block_size);
  config.n_blocks = 3 * config.max_blocks_per_sequence + config.max_sequences;
  config.max_outputs = 512;
  config.max_k = 64;
  return config;
}

uint32_t blocks_for(uint32_t positions, uint32_t block_size) { return (positions + block_size - 1) / block_size; }

Session::Session(UploadedModel &model, const bonsai_session_config &config, Path path)
    : model(model), config(config), api(model.device.api()), path_(path), given_model_(model.spec) {
  bonsai_session_config given_config = config;
  bonsai_error error = empty_error();
  const bonsai_status status =
      api.session_create(model.device.handle(), &given_model_->get(), &given_config, &handle, &error);
  given_model_->spoil();
  std::memset(&given_config, 0xFF, sizeof given_config);
  expect_served("session_create", status, error);
}

Session::Session(UploadedModel &model, const bonsai_session_config &config, Path path, const bonsai_model_spec &spec)
    : model(model), config(config), api(model.device.api()), path_(path) {
  bonsai_error error = empty_error();
  expect_served("session_create", api.session_create(model.device.handle(), &spec, &config, &handle, &error), error);
}

Session::~Session() { api.session_destroy(handle); }

void Session::run(Batch &batch, const Outputs &outputs) {
  bonsai_batch view = batch.view();
  if (path_ == Path::kForward && model.spec.embedding) return wait(submit(view, outputs));
  const std::vector<float> states = batch.hidden.empty() ? embed(model.model, batch.tokens) : batch.hidden;
  view.tokens = nullptr;
  view.hidden = path_ == Path::kForward ? states.data() : nullptr;  // layer_encode takes them apart
  path_ == Path::kForward ? wait(submit(view, outputs)) : run_layers(view, states, outputs);
}

uint64_t Session::submit(Batch &batch, const Outputs &outputs) { return submit(batch.view(), outputs); }

uint64_t Session::submit(const bonsai_batch &batch, const Outputs &outputs) {
  uint64_t ticket = 0;
  bonsai_error error = empty_error();
  BatchReadOnce &given = hand_over(batch, outputs.data(), outputs.size());
  const bonsai_status status =
      api.forward_submit(handle, &given.batch(), given.outputs(), outputs.size(), &ticket, &error);
  given.spoil();
  expect_ok("forward_submit", status, error);
  return ticket;
}

void Session::wait(uint64_t ticket) {
  bonsai_error error = empty_error();
  expect_ok("forward_wait", api.forward_wait(handle, ticket, &error), error);
}

// Behind a submit it may not be read any more, but it stays, spoiled, for a backend that does so all the same.
BatchReadOnce &Session::hand_over(const bonsai_batch &batch, const bonsai_output *const *outputs, uint32_t n_outputs) {
  constexpr size_t kKept = 4;
  if (given_.size() == kKept) given_.pop_front();
  return given_.emplace_back(batch, model.spec, outputs, n_outputs);
}

void Session::encode(uint32_t layer, const bonsai_batch &batch, const float *in, float *out) {
  BatchReadOnce &given = hand_over(batch, nullptr, 0);
  ReadOnce state;
  bonsai_error error = empty_error();
  const bonsai_status status = api.layer_encode(
      handle, layer, &given.batch(), state.copy(in, size_t{batch.n_tokens} * model.spec.hidden), out, &error);
  given.spoil();
  state.spoil();
  expect_ok("layer_encode", status, error);
}

// The state goes in at the first layer and stays on the device, but for a journey to the host and back in the middle.
void Session::run_layers(const bonsai_batch &batch, const std::vector<float> &states, const Outputs &outputs) {
  std::vector<float> in = states, out;
  const uint32_t n_layers = model.spec.n_layers;
  bool on_host = true;
  for (uint32_t layer = 0; layer < n_layers; ++layer) {
    const bool to_host = layer + 1 == n_layers / 2;
    if (to_host) out.resize(in.size());
    encode(layer, batch, on_host ? in.data() : nullptr, to_host ? out.data() : nullptr);
    if (to_host) in.swap(out);
    on_host = to_host;
  }
  if (outputs.size() == 0) return;
  bonsai_error error = empty_error();
  expect_ok("lm_head", api.lm_head(handle, nullptr, batch.n_tokens, outputs.data(), outputs.size(), &error), error);
}

std::vector<std::vector<float>> Session::logits(std::span<const int32_t> tokens, uint32_t start,
                                                const std::vector<uint32_t> &blocks) {
  Batch batch;
  batch.block_table = {blocks};
  Outputs outputs(model.spec.vocab, model.spec.hidden);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], start + i);
    outputs.logits(i);
  }
  run(batch, outputs);
  std::vector<std::vector<float>> rows;
  for (uint32_t i = 0; i < outputs.size(); ++i) rows.push_back(outputs[i].logits);
  return rows;
}

std::vector<float> embed(const model::Model &model, std::span<const int32_t> tokens) {
  std::vector<float> states;
  for (const int32_t token : tokens) {
    const std::vector<float> row = decoded_row(*model.token_embd, static_cast<uint64_t>(token));
    states.insert(states.end(), row.begin(), row.end());
  }
  return states;
}

}  // namespace bonsai::check
