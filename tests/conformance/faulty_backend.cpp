// A backend that is wrong on purpose: the CPU backend with one fault, which the device option "fault" names. It shows
// that the conformance suite can fail (faulty_test.cpp).
#include <bonsai/backend.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/conformance/cpu_entry.h"
#include "tests/conformance/number_faults.h"
#include "tests/conformance/process_faults.h"

namespace bonsai::test {
namespace {

const bonsai_backend_api &cpu() {
  static const bonsai_backend_api &api = *bonsai_cpu_entry(BONSAI_ABI_MAJOR, BONSAI_ABI_MINOR);
  return api;
}

// What bonsai_device points at.
struct Device {
  bonsai_device *inner = nullptr;
  std::string fault;
  void *leaked = nullptr;  // never freed
  std::map<const bonsai_weight *, uint64_t> columns;
  bool is(std::string_view name) const { return fault == name; }
};

// What bonsai_session points at.
struct Session {
  bonsai_session *inner = nullptr;
  const Device *device = nullptr;
  bonsai_session_config config{};
  uint32_t vocab = 0, hidden = 0;
  uint32_t n_states = 0;      // rows that the last layer_encode left
  uint64_t kv_row_bytes = 0;  // K or V of one token in one layer
  uint32_t layers = 0;
  std::vector<bool> written;  // (n_blocks * block_size) positions that hold something
  uint32_t n_in_flight = 0;
  bool is(std::string_view name) const { return device->is(name); }
};

bonsai_device *inner(bonsai_device *device) { return device ? reinterpret_cast<Device *>(device)->inner : nullptr; }
bonsai_session *inner(bonsai_session *session) {
  return session ? reinterpret_cast<Session *>(session)->inner : nullptr;
}
bool has_fault(bonsai_device *device, std::string_view name) {
  return device && reinterpret_cast<Device *>(device)->is(name);
}
bool has_fault(bonsai_session *session, std::string_view name) {
  return session && reinterpret_cast<Session *>(session)->is(name);
}

bonsai_status refuse(bonsai_error *error, const char *message, bonsai_status status = BONSAI_INVALID_ARGUMENT) {
  if (!error) return status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, code)) error->code = status;
  if (BONSAI_HAS_FIELD(error, bonsai_error, message)) std::strcpy(error->message, message);
  return status;
}

// -------- Devices

// Opens the CPU device with all options but "fault".
bonsai_status device_open(uint32_t index, const bonsai_device_config *config, bonsai_device **device,
                          bonsai_error *error) {
  static constexpr bonsai_option kMapped = {.struct_size = sizeof kMapped, .key = "cpu.mapped", .value = "on"};
  auto made = std::make_unique<Device>();
  std::vector<const bonsai_option *> options;
  bonsai_device_config rest{};
  const bool readable = config && config->struct_size >= sizeof *config && config->options;
  for (uint32_t i = 0; readable && i < config->n_options; ++i) {
    const bonsai_option *option = config->options[i];
    if (option && option->key && std::string_view(option->key) == "fault") {
      made->fault = option->value;
      if (made->is("keeps memory that is not its own")) options.push_back(&kMapped);
    } else {
      options.push_back(option);
    }
  }
  const bool is_alone = options.size() == 1;
  if (made->is("heeds an option's first value") && !options.empty()) options.resize(1);
  if (made->is("takes any value") && is_alone && options[0] && options[0]->key) options.clear();
  if (readable) {
    rest = *config;
    rest.n_options = static_cast<uint32_t>(options.size());
    rest.options = options.data();
  }
  const bonsai_status status =
      cpu().device_open(index, readable ? &rest : config, device ? &made->inner : nullptr, error);
  if (status != BONSAI_OK) return status;
  commit_process_fault(made->fault, "device_open");
  constexpr size_t kLeakedBytes = 512 << 10;
  if (made->is("leaks when it is opened")) made->leaked = std::memset(std::malloc(kLeakedBytes), 1, kLeakedBytes);
  *device = reinterpret_cast<bonsai_device *>(made.release());
  return BONSAI_OK;
}

void device_close(bonsai_device *device) {
  if (!device) return;
  const std::unique_ptr<Device> made(reinterpret_cast<Device *>(device));
  cpu().device_close(made->inner);
}

bonsai_status dtype_support(bonsai_device *device, bonsai_dtype dtype, bonsai_weight_use *uses, bonsai_error *error) {
  const bonsai_status status = cpu().dtype_support(inner(device), dtype, uses, error);
  if (status == BONSAI_OK && has_fault(device, "does not claim Q8_0") && dtype == BONSAI_DTYPE_Q8_0) *uses = 0;
  if (status == BONSAI_OK && has_fault(device, "claims what does not exist") && dtype > 1000)
    *uses |= BONSAI_USE_MATRIX;
  return status;
}

bonsai_status device_status(bonsai_device *device, bonsai_device_status *status, bonsai_error *error) {
  return cpu().device_status(inner(device), status, error);
}

bonsai_status synchronize(bonsai_device *device, bonsai_error *error) {
  return cpu().synchronize(inner(device), error);
}

bonsai_status profile(bonsai_device *device, bonsai_profile_action action, bonsai_profile *profile,
                      bonsai_error *error) {
  if (has_fault(device, "measures without being asked") && action == BONSAI_PROFILE_STOP) action = BONSAI_PROFILE_READ;
  return cpu().profile(inner(device), action, profile, error);
}

// -------- Weights

bonsai_status weight_upload(bonsai_device *device, const bonsai_weight_desc *desc, bonsai_weight **weight,
                            bonsai_weight_result *result, bonsai_error *error) {
  if (has_fault(device, "takes its own sizes only") && desc && desc->struct_size != sizeof *desc)
    return refuse(error, "not my size");
  if (has_fault(device, "takes columns in multiples of 64 only") && desc && desc->columns % 64 != 0)
    return refuse(error, "columns that are no multiple of 64", BONSAI_UNSUPPORTED);
  std::vector<const bonsai_weight_part *> parts;
  bonsai_weight_desc stepped{};
  if (has_fault(device, "steps through parts") && desc && desc->struct_size >= sizeof *desc && desc->parts) {
    for (uint32_t i = 0; i < desc->n_parts; ++i) parts.push_back(desc->parts[0] + i);
    stepped = *desc;
    stepped.parts = parts.data();
    desc = &stepped;
  }
  bonsai_weight_desc changed{};
  if (desc && desc->struct_size >= sizeof *desc) changed = *desc;
  if (has_fault(device, "keeps memory that is not its own")) changed.flags |= BONSAI_WEIGHT_BORROWED;
  const bool is_changed = changed.struct_size != 0;
  std::vector<std::byte> bytes;
  bonsai_weight_part decoded{};
  if (has_fault(device, "decodes scales as its caller computes") && is_changed && changed.n_parts == 1 &&
      changed.parts && changed.parts[0] && changed.parts[0]->dtype == BONSAI_DTYPE_Q8_0) {
    decoded = *changed.parts[0];
    bytes = with_decoded_scales(decoded);
    decoded.data = bytes.data();
    parts = {&decoded};
    changed.parts = parts.data();
    changed.flags = 0;
  }
  const bonsai_status status = cpu().weight_upload(inner(device), is_changed ? &changed : desc, weight, result, error);
  if (is_changed && !(desc->flags & BONSAI_WEIGHT_BORROWED) && result && status == BONSAI_OK) result->borrowed = 0;
  if (status == BONSAI_OK && result && has_fault(device, "writes its own sizes")) result->struct_size = sizeof *result;
  if (status == BONSAI_OK && result && has_fault(device, "writes behind structs"))
    std::memset(result + 1, 0, result->struct_size - sizeof *result);
  if (status == BONSAI_OK) reinterpret_cast<Device *>(device)->columns[*weight] = changed.columns;
  if (status == BONSAI_OK) return status;
  if (error && error->struct_size >= sizeof *error) {
    if (has_fault(device, "does not terminate messages")) std::memset(error->message, 'x', sizeof error->message);
    if (has_fault(device, "says nothing")) error->message[0] = '\0';
    if (has_fault(device, "says it in two lines")) std::strcpy(error->message, "one\ntwo");
  }
  if (has_fault(device, "writes outputs when it fails") && weight) *weight = nullptr;
  return status;
}

void weight_free(bonsai_device *device, bonsai_weight *weight) {
  if (!has_fault(device, "does not free weights")) cpu().weight_free(inner(device), weight);
}

bonsai_status gemv(bonsai_device *device, const bonsai_gemv_args *args, bonsai_error *error) {
  if (device) commit_process_fault(reinterpret_cast<Device *>(device)->fault, "gemv");
  if (has_fault(device, "takes no vectors for some") && args && args->n == 0) return BONSAI_OK;
  bonsai_gemv_args changed{};
  std::vector<float> rounded;
  if (has_fault(device, "rounds as its caller does") && args && args->struct_size >= sizeof *args && args->weight) {
    rounded = rounded_vectors(args->x, args->n * reinterpret_cast<Device *>(device)->columns[args->weight]);
    changed = *args;
    changed.x = rounded.data();
  }
  const bonsai_status status = cpu().gemv(inner(device), rounded.empty() ? args : &changed, error);
  if (status != BONSAI_OK) return status;
  const uint64_t size = args->n * args->rows;
  if (has_fault(device, "forgets the last row") && args->rows % 16 == 1) args->y[size - 1] = 0;
  if (has_fault(device, "forgets the last vector") && args->n == 31)
    std::fill_n(args->y + size - args->rows, args->rows, 0.0f);
  if (has_fault(device, "writes beyond y")) args->y[size] = 1;
  if (has_fault(device, "adds more in company") && args->n > 1) args->y[0] *= 1.000001f;
  return status;
}

// -------- Sessions

bonsai_status session_memory(bonsai_device *device, const bonsai_model_spec *model, const bonsai_session_config *config,
                             bonsai_session_memory *memory, bonsai_error *error) {
  const bool names_weights = !model || !model->layers || model->layers[0]->q->weight != nullptr;
  if (has_fault(device, "sizes real models only") && !names_weights) return refuse(error, "q has no weight");
  const bonsai_status status = cpu().session_memory(inner(device), model, config, memory, error);
  if (status == BONSAI_OK && has_fault(device, "takes more memory than it says")) memory->device_bytes /= 2;
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
  if (readable && has_fault(device, "rotates too far") && model->rope_sin) {
    sines.assign(model->rope_sin, model->rope_sin + uint64_t{model->rope_positions} * (model->rope_dim / 2));
    for (uint64_t i = model->rope_dim / 2; i < sines.size(); ++i) sines[i] *= 1.01f;
    changed.rope_sin = sines.data();
  }
  bonsai_session_config with_outputs{};
  if (config && config->struct_size >= sizeof *config && has_fault(device, "makes up outputs")) {
    with_outputs = *config;
    with_outputs.max_outputs = std::max(config->max_outputs, 1u);
  }
  const bonsai_status status =
      cpu().session_create(inner(device), readable ? &changed : model,
                           with_outputs.struct_size ? &with_outputs : config, session ? &made->inner : nullptr, error);
  if (status != BONSAI_OK) return status;
  made->device = reinterpret_cast<Device *>(device);
  made->config = *config;
  made->vocab = model->vocab;
  made->hidden = model->hidden;
  made->layers = model->n_layers;
  const uint64_t width = uint64_t{model->n_kv_heads} * model->head_dim;
  made->kv_row_bytes = config->kv_dtype == BONSAI_KV_F32   ? width * 4
                       : config->kv_dtype == BONSAI_KV_F16 ? width * 2
                                                           : width / 32 * 34;
  made->written.resize(uint64_t{config->n_blocks} * config->block_size);
  *session = reinterpret_cast<bonsai_session *>(made.release());
  return BONSAI_OK;
}

void session_destroy(bonsai_session *session) {
  if (!session) return;
  const std::unique_ptr<Session> made(reinterpret_cast<Session *>(session));
  if (made->is("cannot end in flight") && made->n_in_flight > 0) std::abort();
  cpu().session_destroy(made->inner);
}

// What a fault makes of a batch's outputs.
class FaultyOutputs {
 public:
  FaultyOutputs(const Session &session, const bonsai_output *const *outputs, uint32_t n)
      : session_(session), given_(outputs), n_(n) {
    if (!outputs) return;
    for (uint32_t i = 0; i < n; ++i) {
      if (!outputs[i] || outputs[i]->struct_size < sizeof *outputs[i]) return;  // the CPU backend will refuse it
    }
    changed_.assign(n, {});
    for (uint32_t i = 0; i < n; ++i) change(*outputs[i], changed_[i]);
    for (const bonsai_output &output : changed_) pointers_.push_back(&output);
  }

  const bonsai_output *const *data() const { return pointers_.empty() ? given_ : pointers_.data(); }

  void finish() {
    for (uint32_t i = 0; i < n_; ++i) finish(*given_[i]);
    for (const auto &[output, logits] : ties_) select_last(*output, *logits);
  }

 private:
  void change(const bonsai_output &given, bonsai_output &output) {
    output = given;
    if (session_.is("takes any number of ids")) output.n_ids = std::min(given.n_ids, session_.vocab);
    if (session_.is("ignores the temperature")) output.temperature = 0;
    if (session_.is("ignores the mask")) output.mask = nullptr;
    if (session_.is("ignores adjustments")) output.n_adjustments = 0;
    if (session_.is("adds finite numbers only") && given.n_adjustments > 0) {
      std::vector<float> &adds = adds_.emplace_back(given.adjust_add, given.adjust_add + given.n_adjustments);
      for (float &add : adds) add = std::max(add, -100.0f);
      output.adjust_add = adds.data();
    }
    if (session_.is("takes ties by the highest id") && given.kind == BONSAI_OUTPUT_ARGMAX && given.top_ids) {
      auto &logits = ties_.emplace_back(&given, std::make_unique<std::vector<float>>(session_.vocab)).second;
      output.kind = BONSAI_OUTPUT_LOGITS;
      output.logits = logits->data();
    }
  }

  void finish(const bonsai_output &output) const {
    if (session_.is("has one wrong logit") && output.kind == BONSAI_OUTPUT_LOGITS) output.logits[3] += 0.01f;
    if (session_.is("rounds logits as its caller does") && output.kind == BONSAI_OUTPUT_LOGITS) {
      const std::vector<float> rounded = rounded_vectors(output.logits, session_.vocab);
      std::copy(rounded.begin(), rounded.end(), output.logits);
    }
    if (session_.is("forgets the log-sum-exp") && output.log_sum_exp) *output.log_sum_exp = 0;
    if (session_.is("selects nothing among NaN") && output.top_logits && std::isnan(output.top_logits[0])) {
      output.top_ids[0] = -1;
    }
    if (session_.is("wants a log-sum-exp") && output.kind == BONSAI_OUTPUT_TOP_K && !output.log_sum_exp &&
        output.n_ids) {
      output.id_logits[0] = 0;
    }
    if (session_.is("does not sort the top") && output.kind == BONSAI_OUTPUT_TOP_K && output.k > 1) {
      std::swap(output.top_ids[0], output.top_ids[1]);
      std::swap(output.top_logits[0], output.top_logits[1]);
    }
    if (session_.is("misses one of the top") && output.kind == BONSAI_OUTPUT_TOP_K && output.k > 2) {
      output.top_ids[1] = output.top_ids[0];
      output.top_logits[1] = output.top_logits[0];
    }
  }

  static void select_last(const bonsai_output &output, const std::vector<float> &logits) {
    const auto last = std::max_element(logits.rbegin(), logits.rend());
    output.top_ids[0] = static_cast<int32_t>(logits.rend() - last - 1);
    output.top_logits[0] = *last;
  }

  const Session &session_;
  const bonsai_output *const *given_;
  uint32_t n_;
  std::vector<bonsai_output> changed_;
  std::vector<const bonsai_output *> pointers_;
  std::deque<std::vector<float>> adds_;
  std::vector<std::pair<const bonsai_output *, std::unique_ptr<std::vector<float>>>> ties_;
};

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
  const bonsai_status status = cpu().layer_encode(inner(session), layer, batch, in, out, error);
  if (status == BONSAI_OK) reinterpret_cast<Session *>(session)->n_states = batch->n_tokens;
  if (status == BONSAI_OK && has_fault(session, "runs the last layer twice") && layer > 0) {
    return cpu().layer_encode(inner(session), layer, batch, nullptr, out, error);
  }
  return status;
}

bonsai_status lm_head(bonsai_session *session, const float *in, uint32_t n_rows, const bonsai_output *const *outputs,
                      uint32_t n_outputs, bonsai_error *error) {
  if (!session) return cpu().lm_head(nullptr, in, n_rows, outputs, n_outputs, error);
  FaultyOutputs faulty(*reinterpret_cast<Session *>(session), outputs, n_outputs);
  const bonsai_status status = cpu().lm_head(inner(session), in, n_rows, faulty.data(), n_outputs, error);
  if (status == BONSAI_OK) faulty.finish();
  return status;
}

// -------- What a fault makes of a batch

struct Slot {
  uint32_t block, position;  // position within the block
};

Slot slot_of(const Session &session, const bonsai_batch &batch, uint32_t i) {
  const uint32_t size = session.config.block_size, column = batch.positions[i] / size;
  return {batch.block_table[uint64_t{batch.sequences[i]} * batch.blocks_per_sequence + column],
          batch.positions[i] % size};
}

std::vector<std::byte> export_block(Session &session, uint32_t block) {
  const uint32_t n_tokens = session.config.block_size;
  std::vector<std::byte> data(2 * session.layers * n_tokens * session.kv_row_bytes);
  cpu().kv_export(session.inner, &block, 1, n_tokens, data.data(), data.size(), nullptr);
  return data;
}

void import_block(Session &session, uint32_t block, const std::vector<std::byte> &data) {
  cpu().kv_import(session.inner, &block, 1, session.config.block_size, data.data(), data.size(), nullptr);
}

// Puts old keys and values back where a batch replaced them: no rollback.
class OldValues {
 public:
  OldValues(Session &session, const bonsai_batch &batch) : session_(session) {
    for (uint32_t i = 0; i < batch.n_tokens; ++i) {
      const Slot slot = slot_of(session, batch, i);
      const uint64_t at = uint64_t{slot.block} * session.config.block_size + slot.position;
      if (session.written[at]) kept_.push_back(slot);
      session.written[at] = true;
    }
    for (const Slot &slot : kept_) {
      if (!blocks_.contains(slot.block)) blocks_[slot.block] = export_block(session, slot.block);
    }
  }

  void restore() {
    for (const auto &[block, old] : blocks_) {
      std::vector<std::byte> data = export_block(session_, block);
      for (const Slot &slot : kept_) {
        if (slot.block == block) copy_slot(old, slot.position, data);
      }
      import_block(session_, block, data);
    }
  }

 private:
  void copy_slot(const std::vector<std::byte> &from, uint32_t position, std::vector<std::byte> &to) const {
    const uint64_t row = session_.kv_row_bytes, plane = row * session_.config.block_size;
    for (uint64_t at = position * row; at < from.size(); at += plane) std::memcpy(&to[at], &from[at], row);
  }

  Session &session_;
  std::vector<Slot> kept_;
  std::map<uint32_t, std::vector<std::byte>> blocks_;
};

// Every token one position further, behind a key and a value of zeros: attention that reads one slot too many. Rotation
// does not notice, since it is relative. Leaves batches alone that have no room.
std::vector<uint32_t> shifted_positions(Session &session, const bonsai_batch &batch) {
  std::vector<uint32_t> positions(batch.positions, batch.positions + batch.n_tokens);
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t column = ++positions[i] / session.config.block_size;
    const uint32_t *row = batch.block_table + uint64_t{batch.sequences[i]} * batch.blocks_per_sequence;
    if (column >= batch.blocks_per_sequence || row[column] >= session.config.n_blocks) {
      return {batch.positions, batch.positions + batch.n_tokens};
    }
  }
  const std::vector<std::byte> zeros(2 * session.layers * session.kv_row_bytes);
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const uint32_t *first = batch.block_table + uint64_t{batch.sequences[i]} * batch.blocks_per_sequence;
    cpu().kv_import(session.inner, first, 1, 1, zeros.data(), zeros.size(), nullptr);
  }
  return positions;
}

// Runs the tokens of a batch one by one, the last first: none sees what those before it store.
bonsai_status submit_blindly(Session &session, const bonsai_batch &batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  for (uint32_t i = batch.n_tokens; i-- > 0;) {
    bonsai_batch one = batch;
    one.n_tokens = 1;
    if (batch.tokens) one.tokens = batch.tokens + i;
    one.positions = batch.positions + i;
    one.sequences = batch.sequences + i;
    std::vector<bonsai_output> wanted;
    for (uint32_t j = 0; j < n_outputs; ++j) {
      if (outputs[j]->token == i) wanted.push_back(*outputs[j]);
    }
    std::vector<const bonsai_output *> pointers;
    for (bonsai_output &output : wanted) {
      output.token = 0;
      pointers.push_back(&output);
    }
    const bonsai_status status = cpu().forward_submit(session.inner, &one, pointers.data(),
                                                      static_cast<uint32_t>(pointers.size()), ticket, error);
    if (status != BONSAI_OK) return status;
    if (i > 0) cpu().forward_wait(session.inner, *ticket, error);
  }
  return BONSAI_OK;
}

// The block table with an idle block wherever a row has one that an earlier row has.
std::vector<uint32_t> unshared_table(const Session &session, const bonsai_batch &batch) {
  const uint32_t *end = batch.block_table + uint64_t{batch.n_sequences} * batch.blocks_per_sequence;
  std::vector<uint32_t> table(batch.block_table, end);
  std::set<uint32_t> taken;
  uint32_t idle = session.config.n_blocks;
  for (uint32_t &block : table) {
    if (block >= session.config.n_blocks || taken.insert(block).second) continue;
    do --idle;
    while (std::find(batch.block_table, end, idle) != end);
    block = idle;
  }
  return table;
}

bonsai_status submit_faultily(Session &session, bonsai_batch batch, const bonsai_output *const *outputs,
                              uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  std::vector<uint32_t> positions, table;
  if (session.is("gives a block to one row only")) {
    table = unshared_table(session, batch);
    batch.block_table = table.data();
  }
  if (session.is("attends to one position too many")) {
    positions = shifted_positions(session, batch);
    batch.positions = positions.data();
  }
  if (session.is("does not see its own batch")) {
    return submit_blindly(session, batch, outputs, n_outputs, ticket, error);
  }
  std::unique_ptr<OldValues> old;
  if (session.is("ignores rollback")) old = std::make_unique<OldValues>(session, batch);
  const bonsai_status status = cpu().forward_submit(session.inner, &batch, outputs, n_outputs, ticket, error);
  if (old && status == BONSAI_OK) old->restore();
  return status;
}

// Whether the CPU backend will take the batch, so that a fault may read it.
bool is_readable(const Session &session, const bonsai_batch *batch, const uint64_t *ticket) {
  if (!batch || batch->struct_size < sizeof *batch || !batch->positions || !batch->sequences || !batch->block_table) {
    return false;
  }
  if (!ticket || batch->n_tokens > session.config.max_tokens) return false;
  for (uint32_t i = 0; i < batch->n_tokens; ++i) {
    if (batch->sequences[i] >= batch->n_sequences || batch->n_sequences > session.config.max_sequences) return false;
    if (batch->positions[i] / session.config.block_size >= batch->blocks_per_sequence) return false;
    if (slot_of(session, *batch, i).block >= session.config.n_blocks) return false;
  }
  return true;
}

bonsai_status forward_submit(bonsai_session *session, const bonsai_batch *batch, const bonsai_output *const *outputs,
                             uint32_t n_outputs, uint64_t *ticket, bonsai_error *error) {
  if (!session) return cpu().forward_submit(nullptr, batch, outputs, n_outputs, ticket, error);
  Session &made = *reinterpret_cast<Session *>(session);
  for (uint32_t i = 0; made.is("serves few ids at a time") && outputs && i < n_outputs; ++i) {
    if (outputs[i] && outputs[i]->n_ids > 64) return refuse(error, "more than 64 ids");
  }
  FaultyOutputs faulty(made, outputs, n_outputs);
  if (!is_readable(made, batch, ticket)) {
    return cpu().forward_submit(made.inner, batch, faulty.data(), n_outputs, ticket, error);
  }
  const bonsai_status status = submit_faultily(made, *batch, faulty.data(), n_outputs, ticket, error);
  if (status != BONSAI_OK) return status;
  ++made.n_in_flight;
  faulty.finish();
  for (uint32_t i = 0; made.is("mixes neighbours up") && i < n_outputs; ++i) {
    if (outputs[i]->kind == BONSAI_OUTPUT_LOGITS)
      outputs[i]->logits[0] *= 1 + 1e-6f * static_cast<float>(batch->n_tokens);
  }
  return status;
}

bonsai_status forward_wait(bonsai_session *session, uint64_t ticket, bonsai_error *error) {
  const bonsai_status status = cpu().forward_wait(inner(session), ticket, error);
  if (session && status == BONSAI_OK) --reinterpret_cast<Session *>(session)->n_in_flight;
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
  return status;
}

bonsai_status kv_import(bonsai_session *session, const uint32_t *blocks, uint32_t n_blocks, uint32_t n_tokens,
                        const void *data, uint64_t bytes, bonsai_error *error) {
  if (has_fault(session, "imports nothing") || is_idle_in_flight(session)) return BONSAI_OK;
  return cpu().kv_import(inner(session), blocks, n_blocks, n_tokens, data, bytes, error);
}

bonsai_backend_api make_table() {
  bonsai_backend_api table = cpu();
  table.name = "faulty";
  table.description = "the CPU backend with one fault";
  table.device_open = device_open;
  table.device_close = device_close;
  table.dtype_support = dtype_support;
  table.weight_upload = weight_upload;
  table.weight_free = weight_free;
  table.gemv = gemv;
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
  table.device_status = device_status;
  table.synchronize = synchronize;
  table.profile = profile;
  return table;
}

}  // namespace
}  // namespace bonsai::test

// It knows no options yet: BONSAI_FAULTY_ENTRY names its fault.
extern "C" const bonsai_backend_api *bonsai_backend_entry(uint32_t host_major, uint32_t) {
  if (const char *fault = std::getenv("BONSAI_FAULTY_ENTRY")) bonsai::test::commit_process_fault(fault, "loading");
  static const bonsai_backend_api table = bonsai::test::make_table();
  return host_major == BONSAI_ABI_MAJOR ? &table : nullptr;
}
