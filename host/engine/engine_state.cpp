#include "host/engine/engine_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace bonsai::host {
namespace {

constexpr uint32_t kDefaultContext = 4096;
constexpr uint32_t kPreferredBlockSize = 32;
constexpr uint32_t kMaxBatchTokens = 512;
constexpr uint32_t kMaxOutputs = 32;  // rows of logits that evaluate() asks for at once

static_assert(static_cast<uint32_t>(KvType::kF16) == BONSAI_KV_F16);
static_assert(static_cast<uint32_t>(KvType::kQ8_0) == BONSAI_KV_Q8_0);
static_assert(static_cast<uint32_t>(KvType::kF32) == BONSAI_KV_F32);
static_assert(static_cast<uint32_t>(LogLevel::kDebug) == BONSAI_LOG_DEBUG);
static_assert(static_cast<uint32_t>(LogLevel::kError) == BONSAI_LOG_ERROR);

uint32_t choose_context(uint32_t requested, uint32_t trained) {
  if (requested == 0) return std::min(trained, kDefaultContext);
  if (requested > trained)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("context of {} tokens: the model knows no more than {}", requested, trained));
  return requested;
}

// A device of level 0 names no block sizes: the host keeps its KV cache.
uint32_t choose_block_size(const DeviceInfo &info) {
  const auto &sizes = info.block_sizes;
  const bool takes_preferred = std::find(sizes.begin(), sizes.end(), kPreferredBlockSize) != sizes.end();
  return sizes.empty() || takes_preferred ? kPreferredBlockSize : sizes.front();
}

BackendRequest backend_request(const EngineOptions &options) {
  BackendRequest request;
  request.backend = options.backend;
  request.strict = options.backend_strict;
  for (const auto &[key, value] : options.backend_options) request.options.push_back({key, value});
  if (options.threads > 0) request.options.push_back({"cpu.threads", std::to_string(options.threads)});
  return request;
}

}  // namespace

EngineState::~EngineState() {
  const std::lock_guard lock(device_mutex);
  spare_executor.reset();
  device_model.reset();
  device.reset();
}

std::shared_ptr<EngineState> EngineState::load(const EngineOptions &options) {
  auto state = std::make_shared<EngineState>();
  state->options = options;
  state->model = value_or_throw(model::load_model(options.model), ErrorKind::kModel);
  for (const std::string &warning : state->model.warnings) state->log(LogLevel::kWarning, warning);
  state->load_tokenizer();

  ExecutorConfig &config = state->executor_config;
  config.context = choose_context(options.context, state->model.config.context);
  config.kv_dtype = static_cast<bonsai_kv_dtype>(options.kv);
  config.max_tokens = std::min(config.context, kMaxBatchTokens);
  config.max_outputs = std::min(config.max_tokens, kMaxOutputs);
  state->open_backend();
  return state;
}

void EngineState::load_tokenizer() {
  Result<text::Tokenizer> created = text::read_tokenizer(*model.file).and_then([](text::TokenizerData data) {
    return text::Tokenizer::create(std::move(data));
  });
  if (!created) {
    no_tokenizer = std::move(created.error().message);
    log(LogLevel::kWarning, no_tokenizer);
    return;
  }
  tokenizer = *std::move(created);
  const uint32_t n_ids = std::min(tokenizer->size(), model.config.vocab);
  for (int32_t id = 0; id < static_cast<int32_t>(n_ids); ++id)
    if (tokenizer->is_end_of_generation(id)) end_tokens.push_back(id);
}

// A backend that opens but cannot take this model is passed over for the CPU, unless the caller is strict.
void EngineState::open_backend() {
  const BackendRequest request = backend_request(options);
  const ChoiceLog choice_log = [log = options.log](bonsai_log_level level, const std::string &line) {
    if (log) log(static_cast<LogLevel>(level), line);
  };
  const std::lock_guard lock(device_mutex);
  device = value_or_throw(open_device(request, choice_log), ErrorKind::kBackend);
  const BackendResult<void> started = start_on_device();
  if (started) return;
  const std::string reason =
      fmt::format("backend '{}' cannot run this model: {}", device->backend().name(), started.error().message);
  if (options.backend_strict || device->backend().name() == "cpu") throw EngineError(ErrorKind::kBackend, reason);
  log(LogLevel::kWarning, reason + "; falling back to the CPU");
  device_model.reset();
  device = value_or_throw(open_cpu(request, choice_log), ErrorKind::kBackend);
  value_or_throw(start_on_device());
}

// Brings the weights over and makes the first executor.
BackendResult<void> EngineState::start_on_device() {
  executor_config.block_size = choose_block_size(device->info());
  executor_config.n_blocks = (executor_config.context + executor_config.block_size - 1) / executor_config.block_size;
  executor_config.max_blocks_per_sequence = executor_config.n_blocks;
  auto uploaded = DeviceModel::upload(model, *device, options.progress);
  if (!uploaded) return tl::unexpected(uploaded.error());
  device_model = *std::move(uploaded);
  auto executor = make_executor(*device_model, executor_config);
  if (!executor) return tl::unexpected(executor.error());
  spare_executor = *std::move(executor);
  session_bytes = spare_executor->memory_bytes();
  return {};
}

const text::Tokenizer &EngineState::require_tokenizer() const {
  if (!tokenizer) throw EngineError(ErrorKind::kModel, no_tokenizer);
  return *tokenizer;
}

void EngineState::log(LogLevel level, std::string_view line) const {
  if (options.log) options.log(level, line);
}

std::unique_ptr<Executor> EngineState::take_executor() {
  const std::lock_guard lock(device_mutex);
  if (spare_executor) return std::move(spare_executor);
  return value_or_throw(make_executor(*device_model, executor_config));
}

void EngineState::give_back_executor(std::unique_ptr<Executor> executor) {
  const std::lock_guard lock(device_mutex);
  if (spare_executor)
    executor.reset();
  else
    spare_executor = std::move(executor);
}

}  // namespace bonsai::host
