#include "host/server/text_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/utf8.h"

namespace bonsai::server {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr uint32_t kMostStops = 16;

// A count from `least` on, or -1, which stands for `all`.
std::optional<uint32_t> count_or_all(const JsonFields &fields, const char *name, uint32_t least, uint32_t all) {
  const Json *field = fields.find(name);
  if (field == nullptr) return std::nullopt;
  const auto value = whole_number(*field);
  if (value == -1) return all;
  if (!value || *value < least) fields.fail(name, fmt::format("a whole number >= {}, or -1", least), *field);
  return static_cast<uint32_t>(std::min<int64_t>(*value, kMaxCount));  // as good as any that is larger
}

// ---------------------------------------------------------------------------------------------------------------------
// What is chosen, and how

// Keys are token ids, as texts.
LogitBias read_bias(const std::string &key, const Json &value, const JsonFields &fields) {
  const bool is_id = !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == key.npos;
  if (!is_id) throw ApiError(fmt::format("logit_bias: expected token ids as names, found {}", bonsai::quoted(key)));
  const std::string name = "logit_bias." + key;
  if (!value.is_number()) fields.fail(name, "a number", value);
  const auto add = value.get<double>();
  if (std::abs(add) > kMax) fields.fail(name, "a number in the range of 32-bit numbers", value);
  return {static_cast<int32_t>(std::stol(key)), static_cast<float>(add)};
}

void read_logit_bias(const JsonFields &fields, SamplingOptions &sampling) {
  const Json *biases = fields.find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object()) fields.fail("logit_bias", "an object", *biases);
  sampling.logit_bias.clear();  // those of the server
  for (const auto &[key, value] : biases->items()) sampling.logit_bias.push_back(read_bias(key, value, fields));
}

// A seed of -1 asks for any, as it does elsewhere.
void read_seed(const JsonFields &fields, SamplingOptions &sampling) {
  const Json *seed = fields.find("seed");
  if (seed == nullptr) return;
  sampling.seed.reset();
  if (seed->is_number_unsigned())
    sampling.seed = seed->get<uint64_t>();
  else if (const int64_t value = *fields.integer("seed"); value != -1)
    sampling.seed = static_cast<uint64_t>(value);
}

void read_sampling(const JsonFields &fields, SamplingOptions &sampling) {
  const auto number = [&](const char *name, float least, float most, std::string_view expected, float &value) {
    value = fields.number(name, least, most, expected).value_or(value);
  };
  number("temperature", 0, kMax, "a number >= 0", sampling.temperature);
  number("top_p", 0, 1, "a number from 0 to 1", sampling.top_p);
  number("min_p", 0, 1, "a number from 0 to 1", sampling.min_p);
  number("presence_penalty", -kMax, kMax, "a number", sampling.presence_penalty);
  number("frequency_penalty", -kMax, kMax, "a number", sampling.frequency_penalty);
  for (const char *name : {"repetition_penalty", "repeat_penalty"})
    number(name, std::numeric_limits<float>::min(), kMax, "a number > 0", sampling.repetition_penalty);
  sampling.top_k = count_or_all(fields, "top_k", 0, 0).value_or(sampling.top_k);  // -1 is vLLM's word for all
  if (const auto window = fields.integer("repeat_last_n")) {
    if (*window < -1 || *window > std::numeric_limits<int32_t>::max())
      fields.fail("repeat_last_n", "a whole number >= -1", *window);
    sampling.penalty_window = static_cast<int32_t>(*window);
  }
  read_logit_bias(fields, sampling);
  read_seed(fields, sampling);
}

struct FieldOfSchema {
  std::string field, schema;
};

// OpenAI's forms, and the schema that others let json_object have. Empty: any text.
FieldOfSchema schema_of(const JsonFields &format, SchemaPlace place) {
  const std::string type = format.required_text("type"), field = format.path("schema");
  if (type == "text") return {};
  if (type == "json_object") {
    const Json *schema = format.find("schema");
    return {field, schema == nullptr ? R"({"type": "object"})" : schema->dump()};
  }
  if (type != "json_schema")
    throw ApiError(fmt::format("{}: expected text, json_object or json_schema, found {}", format.path("type"),
                               bonsai::quoted(type)));
  if (place == SchemaPlace::kFormat) return {field, format.required("schema").dump()};
  const Json *outer = format.find("json_schema"), *schema = format.find("schema");
  if (outer == nullptr && schema != nullptr) return {field, schema->dump()};  // llama.cpp's form
  if (outer == nullptr || !outer->is_object() || !outer->contains("schema"))
    throw ApiError(fmt::format("{}: expected an object with a schema", format.path("json_schema")));
  return {format.path("json_schema") + ".schema", (*outer)["schema"].dump()};
}

// What the answer has to look like: OpenAI's response_format, or llama.cpp's json_schema and grammar.
void read_format(const JsonFields &fields, TextRequest &request) {
  GenerateOptions &options = request.options;
  if (auto grammar = fields.text("grammar")) options.grammar = std::move(*grammar);
  if (const Json *schema = fields.find("json_schema")) {
    options.json_schema = schema->dump();
    request.schema_field = fields.path("json_schema");
  }
  if (!options.grammar.empty() && !options.json_schema.empty())
    throw ApiError("grammar and json_schema both give the form: choose one");
  read_schema(fields, "response_format", SchemaPlace::kWithin, request);
}

// What other servers know, and this one does not: an answer without it would not be the one that was asked for.
void refuse_unknown(const JsonFields &fields) {
  for (const char *name : {"samplers",
                           "mirostat",
                           "xtc_probability",
                           "dry_multiplier",
                           "dynatemp_range",
                           "guided_json",
                           "guided_choice",
                           "guided_regex",
                           "regex",
                           "ebnf",
                           "guided_grammar",
                           "structured_outputs",
                           "min_tokens",
                           "min_new_tokens",
                           "stop_token_ids",
                           "stop_regex",
                           "top_a",
                           "bad_words",
                           "use_beam_search",
                           "truncate_prompt_tokens",
                           "prompt_logprobs",
                           "allowed_token_ids",
                           "include_stop_str_in_output",
                           "lora",
                           "n_probs",
                           "format",
                           "suffix"})
    fields.refuse(name);
  for (const char *name : {"top_n_sigma", "t_max_predict_ms"}) {
    const Json *value = fields.find(name);
    const bool is_off = value != nullptr && value->is_number() && *value <= 0;
    if (!is_off) fields.refuse(name);
  }
  for (const char *name : {"typical_p", "tfs_z"}) fields.refuse(name, 1);
  fields.refuse("skip_special_tokens", true);
}

void read_stream(const JsonFields &fields, TextRequest &request) {
  request.stream = fields.flag("stream").value_or(false);
  const Json *options = fields.find("stream_options");
  if (options == nullptr) return;
  request.include_usage = object_at(*options, "stream_options").flag("include_usage").value_or(false);
}

// What is thought always comes apart from the answer, and takes as long as it takes.
void refuse_unknown_of_chat(const JsonFields &fields) {
  for (const char *name :
       {"functions", "audio", "web_search_options", "continue_final_message", "chat_template", "documents", "echo"})
    fields.refuse(name);
  fields.refuse("best_of", 1);
  fields.refuse("modalities", Json::array({"text"}));
  fields.refuse("add_generation_prompt", true);
  for (const char *name : {"parse_tool_calls", "include_reasoning"}) fields.refuse(name, true);
  for (const char *name : {"thinking_budget_tokens", "thinking_token_budget", "reasoning_budget"})
    fields.refuse(name, -1);
  const auto format = fields.text("reasoning_format");
  if (format && *format != "auto" && *format != "deepseek")
    throw ApiError(fmt::format("reasoning_format: expected auto or deepseek, found {}", bonsai::quoted(*format)));
}

// How hard to think is for other models to say, but not whether: as OpenAI, Ollama, OpenRouter and Anthropic ask for
// it.
void read_thinking(const JsonFields &fields, ChatOptions &chat) {
  if (fields.text("reasoning_effort") == "none") chat.enable_thinking = false;
  if (const Json *think = fields.find("think"); think != nullptr && !think->is_string())
    chat.enable_thinking = fields.flag("think");
  if (const Json *reasoning = fields.find("reasoning")) {
    const JsonFields inner = object_at(*reasoning, "reasoning");
    if (inner.text("effort") == "none") chat.enable_thinking = false;
    if (const auto enabled = inner.flag("enabled")) chat.enable_thinking = enabled;
    for (const char *name : {"max_tokens", "exclude"}) inner.refuse(name);
  }
  if (const Json *thinking = fields.find("thinking")) {
    const auto type = object_at(*thinking, "thinking").text("type");
    if (type != "enabled" && type != "disabled" && type != "adaptive")
      throw ApiError("thinking.type: expected enabled, disabled or adaptive, found " +
                     bonsai::quoted(type.value_or("")));
    chat.enable_thinking = type != "disabled";
  }
  if (const auto enable = fields.flag("enable_thinking")) chat.enable_thinking = enable;
}

void read_template_variables(const JsonFields &fields, ChatOptions &chat) {
  const Json *variables = fields.find("chat_template_kwargs");
  if (variables == nullptr) return;
  const JsonFields inner = object_at(*variables, "chat_template_kwargs");
  if (const auto enable = inner.flag("enable_thinking")) chat.enable_thinking = enable;
  for (const auto &[name, value] : variables->items()) {
    if (name != "enable_thinking")
      throw ApiError(fmt::format("chat_template_kwargs: expected enable_thinking, found {}", bonsai::quoted(name)));
  }
}

}  // namespace

void read_text_request(const JsonFields &fields, TextRequest &request) {
  read_sampling(fields, request.options.sampling);
  read_stops(fields, "stop", request.options);
  read_format(fields, request);
  read_stream(fields, request);
  request.n = fields.count("n", 1, kMostAnswers).value_or(1);
  request.options.ignore_eos = fields.flag("ignore_eos").value_or(request.options.ignore_eos);
  refuse_unknown(fields);
}

void read_stops(const JsonFields &fields, const char *name, GenerateOptions &options) {
  const Json *stop = fields.find(name);
  if (stop == nullptr) return;
  const auto add = [&](const Json &text, const std::string &where) {
    if (!text.is_string()) fields.fail(where, "a string", text);
    if (!text.get_ref<const std::string &>().empty()) options.stop.push_back(text.get<std::string>());
  };
  options.stop.clear();
  if (!stop->is_array()) return add(*stop, name);
  if (stop->size() > kMostStops)
    throw ApiError(fmt::format("{}: expected at most {} texts", fields.path(name), kMostStops));
  for_each(*stop, name, add);
}

std::optional<uint32_t> read_most_tokens(const JsonFields &fields, std::initializer_list<const char *> names,
                                         uint32_t least) {
  return first_of(names, [&](const char *name) { return count_or_all(fields, name, least, kMaxCount); });
}

// With logprobs an answer has so many entries for each of its tokens: 8 answers with 20 of the likeliest have more of
// them than 64 with one.
uint32_t most_answers(std::optional<uint32_t> top_logprobs) {
  constexpr uint32_t kMostEntries = 8 * (kMostLogprobs + 1);  // for each token of all answers
  return top_logprobs ? std::min(kMostAnswers, kMostEntries / (*top_logprobs + 1)) : kMostAnswers;
}

void want_logprobs(uint32_t top, TextRequest &request) {
  if (const uint32_t most = most_answers(top); request.n > most)
    throw ApiError(fmt::format("n: expected at most {} with {} logprobs, found {}", most, top, request.n));
  request.top_logprobs = top;
  request.options.logprobs = std::max(top, 1u);
}

void read_schema(const JsonFields &fields, const char *name, SchemaPlace place, TextRequest &request) {
  const Json *format = fields.find(name);
  if (format == nullptr) return;
  FieldOfSchema given = schema_of(object_at(*format, fields.path(name)), place);
  if (given.schema.empty()) return;
  if (!request.options.grammar.empty() || !request.options.json_schema.empty())
    throw ApiError(fmt::format("{} and another field both give the form: choose one", fields.path(name)));
  request.options.json_schema = std::move(given.schema);
  request.schema_field = std::move(given.field);
}

void read_chat_options(const JsonFields &fields, ChatOptions &chat) {
  refuse_unknown_of_chat(fields);
  read_thinking(fields, chat);
  read_template_variables(fields, chat);
}

}  // namespace bonsai::server
