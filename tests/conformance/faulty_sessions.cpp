#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/conformance/faulty.h"
#include "tests/conformance/faulty_batch.h"
#include "tests/conformance/faulty_outputs.h"

namespace bonsai::test {
namespace {

// All sessions of the device are the first one, in effect.
void share(Session &made) {
  Device &device = *made.device;
  if (device.n_sessions++ == 0) {
    device.first_session = made.inner;
    return;
  }
  cpu().session_destroy(made.inner);
  made.inner = device.first_session;
}

void end_shared(const Session &made) {
  if (--made.device->n_sessions == 0) cpu().session_destroy(made.device->first_session);
}

// What is exported of a Q8_0 cache: groups of an f16 and 32 codes.
void change_groups(const Session &session, std::byte *data, uint64_t bytes) {
  constexpr uint64_t kGroupBytes = 34;
  for (std::byte *group = data; group < data + bytes; group += kGroupBytes) {
    const bool is_nan = (group[1] & std::byte{0x7C}) == std::byte{0x7C};
    if (session.is("takes NaN for zeros") && is_nan) std::fill_n(group, kGroupBytes, std::byte{0});
    for (uint64_t i = 2; session.is("stores seven bits") && i < kGroupBytes; ++i) group[i] &= std::byte{0xFE};
  }
}

bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session_memory *memory, bonsai_error *error) {
  const bool names_weights = !model || !model->layers || model->layers[0]->q->weight != nullptr;
  if (has_fault(device, "sizes real models only") && !names_weights) return refuse(error, "q has no weight");
  const bonsai_status status = cpu().session_memory(inner(device), model, config, memory, error);
  if (status == BONSAI_OK && has_fault(device, "takes more memory than it says")) memory->device_bytes /= 2;
  if (model && config && memory && has_fault(device, "sizes any model")) return BONSAI_OK;
  return status;
}

bonsai_status session_create(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session **session, bonsai_error *error) {
  auto made = std::make_unique<Session>();
  bonsai_model_spec changed{};
  std::vector<float> sines;
  const bool readable = model && model->struct_size >= sizeof *model;
  if (readable) changed = *model;
  if (readable && has_fault(device, "takes heads of 64 only") && model->head_dim != 64)
    return refuse(error, "heads that are not 64 wide", BONSAI_UNSUPPORTED);
  if (readable && has_fault(device, "refuses odd shapes as unserved") &&
      (model->head_dim % 2 || model->rope_dim % 2 || model->rope_dim > model->head_dim || !model->n_kv_heads ||
       model->n_heads % model->n_kv_heads))
    return refuse(error, "an odd shape", BONSAI_UNSUPPORTED);
  if (readable && has_fault(device, "norms with 1e-6")) changed.rms_eps = 1e-6f;
  bonsai_weight_slice from_the_top{};
  if (readable && has_fault(device, "looks rows up from a weight's top") && model->embedding) {
    from_the_top = *model->embedding;
    from_the_top.first_row = 0;
    changed.embedding = &from_the_top;
  }
  if (readable && has_fault(device, "rotates too far") && model->rope_sin) {
    sines.assign(model->rope_sin, model->rope_sin + uint64_t{model->rope_positions} * (model->rope_dim / 2));
    for (uint64_t i = model->rope_dim / 2; i < sines.size(); ++i) sines[i] *= 1.01f;
    changed.rope_sin = sines.data();
  }
  bonsai_session_config changed_config{};
  if (config && config->struct_size >= sizeof *config) changed_config = *config;
  if (has_fault(device, "makes up outputs")) changed_config.max_outputs = std::max(changed_config.max_outputs, 1u);
  if (has_fault(device, "takes what is reserved")) changed_config.reserved = 0;
  if (readable && model->head && has_fault(device, "wants a top-k") && changed_config.max_k == 0)
    return refuse(error, "a max_k of 0");
  const bonsai_status status = cpu().session_create(inner(device), readable ? &changed : model,
                                                    changed_config.struct_size ? &changed_config : config,
                                                    session ? &made->inner : nullptr, error);
  if (status != BONSAI_OK) return status;
  made->device = reinterpret_cast<Device *>(device);
  made->config = *config;
  made->vocab = model->vocab;
  made->hidden = model->hidden;
  made->has_head = model->head != nullptr;
  made->layers = model->n_layers;
  const uint64_t width = uint64_t{model->n_kv_heads} * model->head_dim;
  made->kv_row_bytes = config->kv_dtype == BONSAI_KV_F32   ? width * 4
                       : config->kv_dtype == BONSAI_KV_F16 ? width * 2
                                                           : width / 32 * 34;
  made->written.resize(uint64_t{config->n_blocks} * config->block_size);
  if (made->is("keeps the model's tables")) made->rotation = model->rope_cos;
  if (made->is("has one cache for all sessions")) share(*made);
  *session = reinterpret_cast<bonsai_session *>(made.release());
  return BONSAI_OK;
}

void session_destroy(bonsai_session *session) {
  if (!session) return;
  const std::unique_ptr<Session> made(reinterpret_cast<Session *>(session));
  if (made->is("cannot end in flight") && made->n_in_flight > 0) std::abort();
  if (made->is("has one cache for all sessions")) return end_shared(*made);
  cpu().session_destroy(made->inner);
}

bonsai_status layer_encode(bonsai_session *session, uint32_t layer, const bonsai_batch *batch, const float *in,
                           float *out, bonsai_error *error) {
  if (has_fault(session, "wants tokens for layers") && batch && !batch->tokens) return refuse(error, "no tokens");
  if (!in && has_fault(session, "takes any batch for its state") && batch) {
    const uint32_t n_states = reinterpret_cast<Session *>(session)->n_states;
    if (n_states > 0 && batch->n_tokens != n_states) return BONSAI_OK;
  }
  if (out && has_fault(session, "clears a layer's output first")) {
    std::fill_n(out, uint64_t{batch->n_tokens} * reinterpret_cast<Session *>(session)->hidden, 0.0f);
  }
  if (has_fault(session, "reads the whole block table") && batch && batch->block_table && in) {
    for (uint64_t i = 0; i < uint64_t{batch->n_sequences} * batch->blocks_per_sequence; ++i)
      if (batch->block_table[i] >= reinterpret_cast<Session *>(session)->config.n_blocks)
        return refuse(error, "a block beyond the pool");
  }
  std::vector<float> state;
  if (has_fault(session, "keeps its state behind a submit") && batch && !out) {
    state.resize(uint64_t{reinterpret_cast<Session *>(session)->hidden} * batch->n_tokens);
    out = state.data();
  }
  const bonsai_status status = cpu().layer_encode(inner(session), layer, batch, in, out, error);
  if (status == BONSAI_OK) {
    reinterpret_cast<Session *>(session)->state = std::move(state);
    reinterpret_cast<Session *>(session)->has_lost_previous = has_fault(session, "ends a submit with a layer");
    reinterpret_cast<Session *>(session)->n_states = batch->n_tokens;
    reinterpret_cast<Session *>(session)->has_handed_out = out != nullptr;
  }
  if (status == BONSAI_OK && has_fault(session, "runs the last layer twice") && layer > 0) {
    return cpu().layer_encode(inner(session), layer, batch, nullptr, out, error);
  }
  return status;
}

bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows, const bonsai_output *const *outputs,
                      uint32_t n_outputs, bonsai_error *error) {
  if (!session) return cpu().lm_head(nullptr, in, n_rows, outputs, n_outputs, error);
  Session &made = *reinterpret_cast<Session *>(session);
  if (made.is("keeps its state behind a head of nothing") && in && n_outputs == 0) return BONSAI_OK;
  if (made.is("has a head for everyone") && !made.has_head) return BONSAI_OK;
  if (in) made.state.clear();
  if (!in && !made.state.empty() && made.state.size() == uint64_t{n_rows} * made.hidden) in = made.state.data();
  if (made.is("hands its state out for good") && !in && made.has_handed_out) return refuse(error, "no state");
  if (made.is("takes rows of a batch only") && in && n_rows > made.config.max_tokens)
    return refuse(error, "more rows than a batch has tokens");
  FaultyOutputs faulty(*reinterpret_cast<Session *>(session), outputs, n_outputs);
  const bonsai_status status = cpu().lm_head(inner(session), in, n_rows, faulty.data(), n_outputs, error);
  if (status == BONSAI_OK) faulty.finish();
  return status;
}

bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  if (!session) return cpu().forward_submit(nullptr, batch, outputs, n_outputs, ticket, error);
  Session &made = *reinterpret_cast<Session *>(session);
  for (uint32_t i = 0; made.is("serves few ids at a time") && outputs && i < n_outputs; ++i) {
    if (outputs[i] && outputs[i]->n_ids > 64) return refuse(error, "more than 64 ids");
  }
  if (made.is("forgets tokens when it refuses") || made.is("ends a submit with a layer")) {
    for (uint32_t i = 0; made.has_lost_previous && batch && batch->tokens && i < batch->n_tokens; ++i)
      if (batch->tokens[i] < 0) return refuse(error, "no previous submit");
  }
  FaultyOutputs faulty(made, outputs, n_outputs);
  made.has_lost_previous = true;  // until this one is taken
  if (!is_readable(made, batch, ticket)) {
    return cpu().forward_submit(made.inner, batch, faulty.data(), n_outputs, ticket, error);
  }
  const bonsai_status status = submit_faultily(made, *batch, faulty.data(), n_outputs, ticket, error);
  if (status != BONSAI_OK) return status;
  made.has_lost_previous = false;
  made.last_ticket = *ticket;
  ++made.n_in_flight;
  if (made.is("looks at positions behind the submit") && n_outputs > 0 && outputs[0]->kind == BONSAI_OUTPUT_LOGITS)
    made.late[*ticket] = {batch->positions, outputs[0]->logits};
  faulty.finish();
  for (uint32_t i = 0; made.is("mixes neighbours up") && i < n_outputs; ++i) {
    if (outputs[i]->kind == BONSAI_OUTPUT_LOGITS)
      outputs[i]->logits[0] *= 1 + 1e-6f * static_cast<float>(batch->n_tokens);
  }
  return status;
}

bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
  if (has_fault(session, "waits in any order") || has_fault(session, "waits twice")) {
    const Session &made = *reinterpret_cast<Session *>(session);
    if (made.is("waits in any order") && ticket == made.last_waited + 2 && ticket == made.last_ticket) return BONSAI_OK;
    if (made.is("waits twice") && ticket > 0 && ticket <= made.last_waited) return BONSAI_OK;
  }
  const bonsai_status status = cpu().forward_wait(inner(session), ticket, error);
  if (!session || status != BONSAI_OK) return status;
  Session &made = *reinterpret_cast<Session *>(session);
  made.last_waited = ticket;
  --made.n_in_flight;
  if (const auto late = made.late.extract(ticket); late && *late.mapped().position > made.config.n_blocks * 100)
    *late.mapped().logit += 1;
  return status;
}

// -------- The KV cache

bool is_idle_in_flight(bonsai_session *session) {
  return has_fault(session, "moves nothing in flight") && reinterpret_cast<Session *>(session)->n_in_flight > 0;
}

bonsai_status kv_copy(bonsai_session *session, const uint32_t *sources, const uint32_t *destinations, uint32_t n,
                      bonsai_error *error) {
  if (is_idle_in_flight(session)) return BONSAI_OK;
  if (has_fault(session, "copies one block only")) n = std::min(n, 1u);
  return cpu().kv_copy(inner(session), sources, destinations, n, error);
}

bonsai_status kv_export(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        void *data, uint64_t bytes, bonsai_error *error) {
  if (is_idle_in_flight(session)) return BONSAI_OK;
  const bonsai_status status = cpu().kv_export(inner(session), blocks, n_blocks, n_tokens, data, bytes, error);
  if (status == BONSAI_OK && has_fault(session, "exports values before keys")) {
    const Session &made = *reinterpret_cast<Session *>(session);
    const uint64_t plane = n_tokens * made.kv_row_bytes;
    auto *planes = static_cast<std::byte *>(data);
    for (uint32_t layer = 0; layer < made.layers; ++layer, planes += 2 * plane) {
      std::swap_ranges(planes, planes + plane, planes + plane);
    }
  }
  if (status == BONSAI_OK && reinterpret_cast<Session *>(session)->config.kv_dtype == BONSAI_KV_Q8_0)
    change_groups(*reinterpret_cast<Session *>(session), static_cast<std::byte *>(data), bytes);
  return status;
}

bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        const void *data, uint64_t bytes, bonsai_error *error) {
  if (has_fault(session, "imports nothing") || is_idle_in_flight(session)) return BONSAI_OK;
  return cpu().kv_import(inner(session), blocks, n_blocks, n_tokens, data, bytes, error);
}

}  // namespace

void add_faulty_sessions(bonsai_backend_api &table) {
  table.session_memory = session_memory;
  table.session_create = session_create;
  table.session_destroy = session_destroy;
  table.layer_encode = layer_encode;
  table.lm_head = lm_head;
  table.forward_submit = forward_submit;
  table.forward_wait = forward_wait;
  table.kv_copy = kv_copy;
  table.kv_export = kv_export;
  table.kv_import = kv_import;
}

}  // namespace bonsai::test
