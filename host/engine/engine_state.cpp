#include "host/engine/engine_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "core/text/template/chat_template.h"
#include "host/engine/model_sampling.h"

namespace bonsai::host {
namespace {

constexpr uint32_t kDefaultContext = 4096;
constexpr uint32_t kMaxBatchTokens = 512;
constexpr uint32_t kMaxOutputs = 32;  // rows of logits that evaluate() asks for at once

static_assert(static_cast<uint32_t>(KvType::kF16) == BONSAI_KV_F16);
static_assert(static_cast<uint32_t>(KvType::kQ8_0) == BONSAI_KV_Q8_0);
static_assert(static_cast<uint32_t>(KvType::kF32) == BONSAI_KV_F32);
static_assert(static_cast<uint32_t>(LogLevel::kDebug) == BONSAI_LOG_DEBUG);
static_assert(static_cast<uint32_t>(LogLevel::kError) == BONSAI_LOG_ERROR);

uint32_t choose_context(uint32_t requested, uint32_t trained) {
  if (requested == 0) return std::min(trained, kDefaultContext);
  if (requested == EngineOptions::kWholeContext) return trained;
  if (requested > trained)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("context of {} tokens: the model knows no more than {}", requested, trained));
  return requested;
}

// Backends log from threads of theirs, several at once where they compile kernels.
std::function<void(LogLevel, std::string_view)> one_at_a_time(std::function<void(LogLevel, std::string_view)> log) {
  if (!log) return log;
  return [log = std::move(log), mutex = std::make_shared<std::mutex>()](LogLevel level, std::string_view line) {
    const std::lock_guard lock(*mutex);
    log(level, line);
  };
}

void check_options(const EngineOptions &options) {
  if (options.model.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "model: expected a file's path, found none");
  if (options.kv > KvType::kF32)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("kv: there is no KV type {}", static_cast<uint32_t>(options.kv)));
  if (options.chat_template.empty()) return;
  if (const auto parsed = jinja::ChatTemplate::parse(options.chat_template); !parsed)
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("chat template: {}", parsed.error().message));
}

}  // namespace

std::shared_ptr<EngineState> EngineState::load(const EngineOptions &options) {
  check_options(options);
  auto state = std::make_shared<EngineState>();
  state->options = options;
  state->options.log = one_at_a_time(options.log);
  state->model = value_or_throw(model::load_model(options.model), ErrorKind::kModel);
  for (const std::string &warning : state->model.warnings) state->log(LogLevel::kWarning, warning);
  ModelSampling sampling = model_sampling(*state->model.file);
  for (const std::string &warning : sampling.warnings) state->log(LogLevel::kWarning, warning);
  state->sampling = std::move(sampling.options);
  state->load_tokenizer();

  ExecutorConfig &config = state->sizes;
  config.context = choose_context(options.context, state->model.config.context);
  config.kv_dtype = static_cast<bonsai_kv_dtype>(options.kv);
  config.max_tokens = std::min(config.context, kMaxBatchTokens);
  config.max_outputs = std::min(config.max_tokens, kMaxOutputs);
  state->choose_request();
  state->open_backend();
  return state;
}

void EngineState::load_tokenizer() {
  const auto create = [this](text::TokenizerData data) -> Result<text::Tokenizer> {
    if (!options.chat_template.empty()) data.chat_template = options.chat_template;
    auto made = text::Tokenizer::create(std::move(data));
    if (!made) return fail("{}: {}", model.file->path(), made.error().message);
    return made;
  };
  Result<text::Tokenizer> created = text::read_tokenizer(*model.file).and_then(create);
  if (!created) {
    no_tokenizer = std::move(created.error().message);
    log(LogLevel::kDebug, no_tokenizer);  // it becomes the error of whoever needs one, and is nobody else's business
    return;
  }
  tokenizer = *std::move(created);
  for (const std::string &warning : tokenizer->warnings())
    log(LogLevel::kWarning, fmt::format("{}: {}", model.file->path(), warning));
  const uint32_t n_ids = std::min(tokenizer->size(), model.config.vocab);
  for (int32_t id = 0; id < static_cast<int32_t>(n_ids); ++id)
    if (tokenizer->is_end_of_generation(id)) end_tokens.push_back(id);
}

// A backend that opens but cannot take this model is passed over.
void EngineState::open_backend() {
  const auto start = [this](std::unique_ptr<Device> device) -> BackendResult<void> {
    const std::string name = device->backend().name();
    auto started = Placement::create(model, std::move(device), sizes, options.progress);
    if (started) {
      placement_ = *std::move(started);
      return {};
    }
    BackendError &error = started.error();
    if (fail_over_reason_.empty()) fail_over_reason_ = error.message;
    error.message = fmt::format("backend '{}' cannot run this model: {}", name, error.message);
    return tl::unexpected(std::move(error));
  };
  value_or_throw(open_device(request_, choice_log(), start));
}

// The CPU's code is loaded at once, for it may have to take over long after its file has gone or been replaced.
void EngineState::choose_request() {
  request_.backend = options.backend;
  request_.strict = options.backend_strict;
  for (const auto &[key, value] : options.backend_options) request_.options.push_back({key, value});
  if (options.threads > 0) request_.options.push_back({"cpu.threads", std::to_string(options.threads), true});
  if (!options.backend_strict) request_.cpu = find_cpu(request_.search, {});
}

ChoiceLog EngineState::choice_log() const {
  return [log = options.log](bonsai_log_level level, const std::string &line) {
    if (log) log(static_cast<LogLevel>(level), line);
  };
}

std::shared_ptr<Placement> EngineState::start_on_cpu(const UploadProgress &progress) const {
  auto device = value_or_throw(open_cpu(request_, choice_log()));
  return value_or_throw(Placement::create(model, std::move(device), sizes, progress));
}

EngineState::Home EngineState::home() const {
  const std::lock_guard lock(mutex_);
  return {placement_, fail_over_reason_};
}

BackendInfo describe(const EngineState::Home &home) {
  Placement &placement = *home.placement;
  const Device::Status status = placement.status();
  return {.name = placement.backend().name(),
          .version = placement.backend().version(),
          .path = placement.backend().path().string(),
          .device = placement.device_name(),
          .kernel = status.kernel,
          .threads = status.threads,
          .level = placement.backend().level(),
          .failed_over = home.failed_over};
}

// The lock is held while the CPU takes the weights: sessions that fail meanwhile wait for it, as does whoever wants a
// new one or asks where they run. Sessions that go on elsewhere do not need it.
std::shared_ptr<Placement> EngineState::fail_over(const Placement &failed, const BackendError &error, FailedTo what) {
  const std::lock_guard lock(mutex_);
  if (is_cpu(failed.backend())) throw EngineError(ErrorKind::kBackend, error.message);
  if (&failed != placement_.get()) return placement_;
  if (options.backend_strict)
    throw EngineError(ErrorKind::kBackend,
                      error.message + "; the CPU may not take over from a strictly chosen backend");
  try {
    if (!cpu_) cpu_ = start_on_cpu({});
  } catch (const std::exception &cpu_error) {  // want of memory, too
    throw EngineError(ErrorKind::kBackend,
                      fmt::format("{}; the CPU could not take over: {}", error.message, cpu_error.what()));
  }
  const bool is_alone =
      what == FailedTo::kStart && (error.status == BONSAI_OUT_OF_MEMORY || error.status == BONSAI_UNSUPPORTED);
  log(LogLevel::kWarning,
      fmt::format("backend '{}' {}: {}", failed.backend().name(),
                  is_alone ? "cannot take this on, the CPU does" : "failed, going on with the CPU", error.message));
  if (is_alone) return cpu_;
  placement_->retire();
  placement_ = cpu_;
  fail_over_reason_ = error.message;
  return placement_;
}

const text::Tokenizer &EngineState::require_tokenizer() const {
  if (!tokenizer) throw EngineError(ErrorKind::kModel, no_tokenizer);
  return *tokenizer;
}

std::vector<int32_t> EngineState::encode(std::string_view text, bool at_start) const {
  const text::Tokenizer &known = require_tokenizer();
  std::vector<int32_t> tokens =
      value_or_throw(known.encode(text, text::SpecialTokens::kParse), ErrorKind::kInvalidArgument);
  if (!at_start) return tokens;
  if (known.bos() && (known.add_bos() || tokens.empty())) tokens.insert(tokens.begin(), *known.bos());
  if (tokens.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "empty prompt: the model has no BOS token to start from");
  return tokens;
}

void EngineState::check_tokens(std::span<const int32_t> tokens) const {
  if (tokens.empty()) throw EngineError(ErrorKind::kInvalidArgument, "no tokens: expected at least one");
  const uint32_t vocabulary = model.config.vocab;
  for (const int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocabulary)
      throw EngineError(ErrorKind::kInvalidArgument,
                        fmt::format("token id {} is outside the vocabulary of {}", token, vocabulary));
  }
}

void EngineState::log(LogLevel level, std::string_view line) const {
  if (options.log) options.log(level, line);
}

}  // namespace bonsai::host
