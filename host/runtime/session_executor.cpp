#include "host/runtime/session_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <limits>

#include "host/backend/plugin_text.h"
#include "host/backend/registry.h"
#include "host/runtime/batch_check.h"
#include "host/runtime/embedding.h"
#include "host/runtime/session_spec.h"

namespace bonsai::host {
namespace {

constexpr uint32_t kMostTop = 1024;  // what every backend with sessions offers

SelectionLimits limits_of(const DeviceInfo &info) {
  return {.max_k = std::min(info.max_k, kMostTop), .adjusts = (info.features & BONSAI_FEATURE_ADJUST) != 0};
}

bonsai_session_config raw_config(const ExecutorConfig &config, const SelectionLimits &limits, uint32_t vocab) {
  bonsai_session_config raw{};
  raw.struct_size = sizeof raw;
  raw.kv_dtype = config.kv_dtype;
  raw.block_size = config.block_size;
  raw.n_blocks = config.n_blocks;
  raw.max_tokens = config.max_tokens;
  raw.max_sequences = config.max_sequences;
  raw.max_blocks_per_sequence = config.max_blocks_per_sequence;
  raw.max_outputs = config.max_outputs;
  raw.max_k = std::max(std::min(limits.max_k, vocab), 1u);
  return raw;
}

// What a backend says it has computed and has not written must not pass for a result: each begins as none.
constexpr int32_t kNoToken = -1;
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

float *resize_unwritten(std::vector<float> &numbers, size_t n) {
  numbers.resize(n);
  numbers.front() = kNoNumber;
  return numbers.data();
}

void ask_for_top(Output &output, bonsai_output &raw) {
  const Selection &selection = output.selection;
  output.top.ids.assign(selection.k, kNoToken);
  output.top.logits.assign(selection.k, kNoNumber);
  raw.kind = selection.k == 1 ? BONSAI_OUTPUT_ARGMAX : BONSAI_OUTPUT_TOP_K;
  raw.k = selection.k;
  raw.n_adjustments = static_cast<uint32_t>(selection.ids.size());
  raw.adjust_ids = selection.ids.data();
  raw.adjust_add = selection.add.data();
  raw.adjust_repeat = selection.repeat.data();
  raw.mask = selection.mask.empty() ? nullptr : selection.mask.data();
  raw.top_ids = output.top.ids.data();
  raw.top_logits = output.top.logits.data();
}

bonsai_output raw_output(Output &output, const model::Config &model) {
  bonsai_output raw{};
  raw.struct_size = sizeof raw;
  raw.token = output.token;
  switch (output.kind) {
    case OutputKind::kHidden:
      raw.kind = BONSAI_OUTPUT_HIDDEN;
      raw.hidden = resize_unwritten(output.hidden, model.hidden);
      break;
    case OutputKind::kLogits:
      raw.kind = BONSAI_OUTPUT_LOGITS;
      raw.logits = resize_unwritten(output.logits, model.vocab);
      break;
    case OutputKind::kTop:
      ask_for_top(output, raw);
      break;
  }
  return raw;
}

tl::unexpected<BackendError> failure(const Device &device, const CallError &error, const char *function,
                                     bonsai_status status) {
  return tl::unexpected(error.failure(device.backend().name(), function, status));
}

tl::unexpected<BackendError> not_offered(const Device &device, const char *function) {
  return tl::unexpected(
      BackendError{BONSAI_UNSUPPORTED, fmt::format("{}: {} is not offered", device.backend().name(), function)});
}

}  // namespace

SessionExecutor::SessionExecutor(const DeviceModel &model, const ExecutorConfig &config, int level)
    : model_(model),
      config_(config),
      level_(level),
      limits_(limits_of(model.device().info())),
      is_selected_(model.model().config.vocab) {
  // layer_encode takes hidden states whether or not the session has the embedding.
  if (level == 1 || !model.embedding()) hidden_.resize(size_t{config.max_tokens} * model.model().config.hidden);
}

BackendResult<std::unique_ptr<Executor>> SessionExecutor::create(const DeviceModel &model, const ExecutorConfig &config,
                                                                 int level) {
  std::unique_ptr<SessionExecutor> executor(new SessionExecutor(model, config, level));
  const Device &device = model.device();
  const SessionSpec spec(model, config.context);
  const bonsai_session_config raw = raw_config(config, executor->limits_, model.model().config.vocab);
  CallError error;
  bonsai_session_memory memory{};
  memory.struct_size = sizeof memory;
  bonsai_status status =
      error.of([&] { return device.api().session_memory(device.handle(), &spec.raw(), &raw, &memory, error.out()); });
  if (status != BONSAI_OK) return failure(device, error, "session_memory", status);
  status = error.of([&] {
    return device.api().session_create(device.handle(), &spec.raw(), &raw, &executor->session_, error.out());
  });
  if (status != BONSAI_OK) {
    executor->session_ = nullptr;
    return failure(device, error, "session_create", status);
  }
  if (executor->session_ == nullptr)
    return tl::unexpected(BackendError{
        BONSAI_INTERNAL, fmt::format("{}: session_create succeeded without a session", device.backend().name())});
  executor->memory_bytes_ = std::max(memory.device_bytes, memory.host_bytes) + executor->hidden_.size() * sizeof(float);
  return executor;
}

SessionExecutor::~SessionExecutor() {
  if (session_ != nullptr) call_quietly([&] { api().session_destroy(session_); });
}

BackendResult<void> SessionExecutor::forward(const Batch &batch, std::span<Output> outputs) {
  auto checked = check_batch(config_, model_.model().config, batch, outputs);
  if (checked) checked = check_selections(limits_, model_.model().config, outputs);
  if (!checked) return checked;
  if (!hidden_.empty()) decode_embeddings(model_.model(), batch.tokens, hidden_);
  prepare_outputs(outputs);
  const bonsai_batch raw = raw_batch(batch);
  auto done = level_ == 2 ? run_forward(raw) : run_layers(raw);
  return done ? check_found(outputs) : done;
}

bonsai_batch SessionExecutor::raw_batch(const Batch &batch) {
  bonsai_batch raw{};
  raw.struct_size = sizeof raw;
  raw.n_tokens = static_cast<uint32_t>(batch.tokens.size());
  raw.tokens = hidden_.empty() ? batch.tokens.data() : nullptr;
  raw.hidden = hidden_.empty() || level_ == 1 ? nullptr : hidden_.data();  // layer_encode takes them apart
  raw.positions = batch.positions.data();
  raw.sequences = batch.sequences.data();
  raw.block_table = batch.block_table.data();
  raw.n_sequences = batch.n_sequences;
  raw.blocks_per_sequence = batch.blocks_per_sequence;
  return raw;
}

void SessionExecutor::prepare_outputs(std::span<Output> outputs) {
  raw_outputs_.clear();
  output_pointers_.clear();
  for (Output &output : outputs) raw_outputs_.push_back(raw_output(output, model_.model().config));
  for (const bonsai_output &raw : raw_outputs_) output_pointers_.push_back(&raw);
}

// Whether an adjustment makes it -infinity. Their ids rise.
bool is_ruled_out(const Selection &selection, int32_t id) {
  const auto found = std::lower_bound(selection.ids.begin(), selection.ids.end(), id);
  if (found == selection.ids.end() || *found != id) return false;
  return selection.add[static_cast<size_t>(found - selection.ids.begin())] == -std::numeric_limits<float>::infinity();
}

// The host goes on with ids and logits as it gets them. So these fall, and no id lies outside the vocabulary, stands
// twice, or is one that a mask or an adjustment excludes; but for ids with -infinity, which are nobody's choice.
BackendResult<void> SessionExecutor::check_top(const Output &output) {
  const uint32_t vocab = model_.model().config.vocab;
  const std::vector<float> &logits = output.top.logits;
  const auto fault = [&]<class... Args>(fmt::format_string<Args...> what, Args &&...args) {
    return tl::unexpected(BackendError{BONSAI_INTERNAL, fmt::format("{}: {}", model_.device().backend().name(),
                                                                    fmt::format(what, std::forward<Args>(args)...))});
  };
  const std::span<const uint32_t> mask = output.selection.mask;
  for (size_t i = 0; i < output.top.ids.size(); ++i) {
    const auto id = static_cast<uint32_t>(output.top.ids[i]);
    if (id >= vocab) return fault("selected token {}, which is outside the vocabulary of {}", output.top.ids[i], vocab);
    if (i > 0 && logits[i] > logits[i - 1])
      return fault("selected token {} with logit {} behind one with {}, expected falling logits", id, logits[i],
                   logits[i - 1]);
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
    if (!mask.empty() && (mask[id / 32] >> id % 32 & 1) == 0)
      return fault("selected token {}, which the mask excludes", id);
    if (is_ruled_out(output.selection, output.top.ids[i]))
      return fault("selected token {}, which an adjustment excludes", id);
    if (is_selected_[id]) return fault("selected token {} twice", id);
    is_selected_[id] = true;
  }
  return {};
}

BackendResult<void> SessionExecutor::check_found(std::span<const Output> outputs) {
  for (const Output &output : outputs) {
    if (output.kind != OutputKind::kTop) continue;
    auto checked = check_top(output);
    for (const int32_t id : output.top.ids) {
      if (static_cast<uint32_t>(id) < is_selected_.size()) is_selected_[static_cast<uint32_t>(id)] = false;
    }
    if (!checked) return checked;
  }
  return {};
}

BackendResult<void> SessionExecutor::run_layers(const bonsai_batch &batch) {
  CallError error;
  for (uint32_t layer = 0; layer < model_.model().config.layers; ++layer) {
    const float *in = layer == 0 ? hidden_.data() : nullptr;
    const bonsai_status status =
        error.of([&] { return api().layer_encode(session_, layer, &batch, in, nullptr, error.out()); });
    if (status != BONSAI_OK) return failure(model_.device(), error, "layer_encode", status);
  }
  if (raw_outputs_.empty()) return {};
  const bonsai_status status = error.of([&] {
    return api().lm_head(session_, nullptr, batch.n_tokens, output_pointers_.data(),
                         static_cast<uint32_t>(output_pointers_.size()), error.out());
  });
  if (status != BONSAI_OK) return failure(model_.device(), error, "lm_head", status);
  return {};
}

BackendResult<void> SessionExecutor::run_forward(const bonsai_batch &batch) {
  const auto ticket = submit_forward(batch);
  if (!ticket) return tl::unexpected(ticket.error());
  return wait_forward(*ticket);
}

BackendResult<uint64_t> SessionExecutor::submit_forward(const bonsai_batch &batch) {
  CallError error;
  uint64_t ticket = 0;
  const bonsai_status status = error.of([&] {
    return api().forward_submit(session_, &batch, output_pointers_.data(),
                                static_cast<uint32_t>(output_pointers_.size()), &ticket, error.out());
  });
  if (status != BONSAI_OK) return failure(model_.device(), error, "forward_submit", status);
  return ticket;
}

BackendResult<void> SessionExecutor::wait_forward(uint64_t ticket) {
  CallError error;
  const bonsai_status status = error.of([&] { return api().forward_wait(session_, ticket, error.out()); });
  if (status != BONSAI_OK) return failure(model_.device(), error, "forward_wait", status);
  return {};
}

bool SessionExecutor::chains() const {
  return level_ == 2 && hidden_.empty() && (model_.device().info().features & BONSAI_FEATURE_TOKEN_CHAINING) != 0;
}

// The output is where it stays before the backend is told.
BackendResult<void> SessionExecutor::submit(const Batch &batch, Output output) {
  in_flight_.push_back({0, std::move(output)});
  const auto ticket = start_last(batch);
  if (!ticket) {
    in_flight_.pop_back();
    return tl::unexpected(ticket.error());
  }
  in_flight_.back().ticket = *ticket;
  return {};
}

BackendResult<uint64_t> SessionExecutor::start_last(const Batch &batch) {
  const std::span<Output> outputs(&in_flight_.back().output, 1);
  auto checked = check_batch(config_, model_.model().config, batch, outputs, in_flight_.size() > 1);
  if (checked) checked = check_selections(limits_, model_.model().config, outputs);
  if (!checked) return tl::unexpected(checked.error());
  prepare_outputs(outputs);
  return submit_forward(raw_batch(batch));
}

BackendResult<Output> SessionExecutor::wait() {
  auto done = wait_forward(in_flight_.front().ticket);
  Output output = std::move(in_flight_.front().output);
  in_flight_.pop_front();
  if (done) done = check_found({&output, 1});
  if (!done) return tl::unexpected(done.error());
  return output;
}

BackendResult<void> SessionExecutor::kv_copy(std::span<const uint32_t> sources,
                                             std::span<const uint32_t> destinations) {
  auto checked = check_copy(config_, sources, destinations);
  if (!checked || sources.empty()) return checked;
  if (api().kv_copy == nullptr) return not_offered(model_.device(), "kv_copy");
  CallError error;
  const bonsai_status status = error.of([&] {
    return api().kv_copy(session_, sources.data(), destinations.data(), static_cast<uint32_t>(sources.size()),
                         error.out());
  });
  if (status != BONSAI_OK) return failure(model_.device(), error, "kv_copy", status);
  return {};
}

BackendResult<void> SessionExecutor::kv_export(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                               std::span<std::byte> data) {
  if (api().kv_export == nullptr) return not_offered(model_.device(), "kv_export");
  constexpr auto kUnwritten = std::byte{0xFF};  // NaN in every type
  std::ranges::fill(data, kUnwritten);
  CallError error;
  const bonsai_status status = error.of([&] {
    return api().kv_export(session_, blocks.data(), static_cast<uint32_t>(blocks.size()), n_tokens, data.data(),
                           data.size(), error.out());
  });
  if (status != BONSAI_OK) return failure(model_.device(), error, "kv_export", status);
  constexpr size_t kSome = 32;  // of the first head, or the last one
  const auto is_unwritten = [](std::span<const std::byte> some) {
    return !some.empty() && std::ranges::all_of(some, [](std::byte byte) { return byte == kUnwritten; });
  };
  const size_t n = std::min(kSome, data.size());
  if (is_unwritten(data.first(n)) || is_unwritten(data.last(n)))
    return tl::unexpected(BackendError{
        BONSAI_INTERNAL, fmt::format("{}: kv_export succeeded without writing", model_.device().backend().name())});
  return {};
}

BackendResult<void> SessionExecutor::kv_import(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                               std::span<const std::byte> data) {
  if (api().kv_import == nullptr) return not_offered(model_.device(), "kv_import");
  CallError error;
  const bonsai_status status = error.of([&] {
    return api().kv_import(session_, blocks.data(), static_cast<uint32_t>(blocks.size()), n_tokens, data.data(),
                           data.size(), error.out());
  });
  if (status != BONSAI_OK) return failure(model_.device(), error, "kv_import", status);
  return {};
}

}  // namespace bonsai::host
