#include "host/c_api/options.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/utf8.h"
#include "host/c_api/arguments.h"
#include "host/c_api/handles.h"
#include "host/c_api/outcome.h"

namespace bonsai::c_api {
namespace {

KvType kv_type(const char *name) {
  constexpr std::array<std::pair<std::string_view, KvType>, 3> kTypes = {
      {{"f16", KvType::kF16}, {"q8_0", KvType::kQ8_0}, {"f32", KvType::kF32}}};
  if (name == nullptr) return KvType::kF16;
  for (const auto &[known, type] : kTypes)
    if (known == name) return type;
  refuse("kv: expected f16, q8_0 or f32, found " + quoted(name));
}

std::pair<std::string, std::string> key_and_value(const char *option) {
  const std::string_view text = &required(option, "backend_options");
  const size_t at = text.find('=');
  if (at == text.npos || at == 0) refuse("backend_options: expected key=value, found " + quoted(text));
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

SamplingOptions sampling_options(const bonsai_generate_options &raw) {
  SamplingOptions sampling;
  sampling.temperature = raw.temperature;
  sampling.top_k = raw.top_k;
  sampling.top_p = raw.top_p;
  sampling.min_p = raw.min_p;
  sampling.repetition_penalty = raw.repetition_penalty;
  sampling.presence_penalty = raw.presence_penalty;
  sampling.frequency_penalty = raw.frequency_penalty;
  sampling.penalty_window = raw.penalty_window;
  const auto tokens = array_of(raw.bias_tokens, raw.n_logit_bias, "bias_tokens");
  const auto adds = array_of(raw.bias_adds, raw.n_logit_bias, "bias_adds");
  for (size_t i = 0; i < tokens.size(); ++i) sampling.logit_bias.push_back({tokens[i], adds[i]});
  if (raw.has_seed != 0) sampling.seed = raw.seed;
  return sampling;
}

}  // namespace

EngineOptions engine_options(const bonsai_engine_options &given) {
  const bonsai_engine_options raw = known_part(given, bonsai_engine_options{});
  require_unused(raw.reserved);
  EngineOptions options;
  options.model = &required(raw.model, "model");
  if (raw.backend != nullptr) options.backend = raw.backend;
  options.backend_strict = raw.backend_strict != 0;
  for (const char *option : array_of(raw.backend_options, raw.n_backend_options, "backend_options"))
    options.backend_options.push_back(key_and_value(option));
  options.threads = raw.threads;
  options.context = raw.context;
  options.kv = kv_type(raw.kv);
  if (raw.chat_template != nullptr) options.chat_template = raw.chat_template;
  if (raw.progress != nullptr)
    options.progress = [call = raw.progress, context = raw.progress_context](uint64_t done, uint64_t total) {
      call(context, done, total);
    };
  if (raw.log != nullptr)
    options.log = [call = raw.log, context = raw.log_context](LogLevel level, std::string_view line) {
      call(context, static_cast<uint32_t>(level), printable(line).c_str());
    };
  return options;
}

bonsai_generate_options raw_defaults(const SamplingOptions &sampling) {
  bonsai_generate_options raw{};
  raw.struct_size = sizeof raw;
  raw.max_tokens = GenerateOptions().max_tokens;
  raw.temperature = sampling.temperature;
  raw.top_k = sampling.top_k;
  raw.top_p = sampling.top_p;
  raw.min_p = sampling.min_p;
  raw.repetition_penalty = sampling.repetition_penalty;
  raw.presence_penalty = sampling.presence_penalty;
  raw.frequency_penalty = sampling.frequency_penalty;
  raw.penalty_window = sampling.penalty_window;
  return raw;
}

GenerateOptions generate_options(const bonsai_generate_options *given) {
  if (given == nullptr) return {};
  const bonsai_generate_options raw = known_part(*given, raw_defaults({}));
  require_unused(raw.reserved);
  GenerateOptions options;
  options.max_tokens = raw.max_tokens;
  options.sampling = sampling_options(raw);
  for (const char *stop : array_of(raw.stops, raw.n_stops, "stops"))
    options.stop.emplace_back(&required(stop, "stops"));
  options.ignore_eos = raw.ignore_eos != 0;
  options.grammar = text_or_empty(raw.grammar);
  options.json_schema = text_or_empty(raw.json_schema);
  options.lookup = raw.lookup != 0;
  if (raw.draft != nullptr) options.draft = raw.draft->engine;
  if (raw.stop != nullptr) options.cancel = raw.stop->source.get_token();
  options.logprobs = raw.n_logprobs;
  if (raw.has_prompt_logprobs != 0) options.prompt_logprobs_from = raw.prompt_logprobs_from;
  return options;
}

int32_t priority(const bonsai_generate_options *given) {
  return given == nullptr ? 0 : known_part(*given, raw_defaults({})).priority;
}

ChatOptions chat_options(const bonsai_chat_options *given) {
  if (given == nullptr) return {};
  const bonsai_chat_options raw = known_part(*given, bonsai_chat_options{});
  if (raw.thinking > BONSAI_THINKING_OFF)
    refuse("thinking: expected 0 (auto), 1 (on) or 2 (off), found " + std::to_string(raw.thinking));
  ChatOptions options;
  options.system = text_or_empty(raw.system);
  options.tools = text_or_empty(raw.tools);
  if (raw.thinking != BONSAI_THINKING_AUTO) options.enable_thinking = raw.thinking == BONSAI_THINKING_ON;
  return options;
}

std::vector<ChatMessage> chat_messages(const bonsai_message *messages, uint64_t n) {
  std::vector<ChatMessage> made;
  for (const bonsai_message &message : array_of(messages, n, "messages"))
    made.push_back({.role = &required(message.role, "role"),
                    .content = text_or_empty(message.content),
                    .reasoning = text_or_empty(message.reasoning),
                    .tool_calls = text_or_empty(message.tool_calls)});
  return made;
}

bonsai_batch_options raw_batch_defaults() {
  const BatchOptions defaults;
  return {.struct_size = sizeof(bonsai_batch_options),
          .max_sequences = defaults.max_sequences,
          .batch_tokens = defaults.batch_tokens,
          .kv_tokens = defaults.kv_tokens,
          .share_prefixes = defaults.share_prefixes ? 1u : 0u};
}

BatchOptions batch_options(const bonsai_batch_options *given) {
  if (given == nullptr) return {};
  const bonsai_batch_options raw = known_part(*given, raw_batch_defaults());
  return {.max_sequences = raw.max_sequences,
          .batch_tokens = raw.batch_tokens,
          .kv_tokens = raw.kv_tokens,
          .share_prefixes = raw.share_prefixes != 0};
}

}  // namespace bonsai::c_api
