#include "host/server/api_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/utf8.h"
#include "host/server/api_messages.h"
#include "host/server/api_tools.h"
#include "host/server/json_fields.h"
#include "host/server/text_fields.h"

namespace bonsai::server {
namespace {

constexpr size_t kMostInputs = 2048;  // texts to embed at once, as with OpenAI
constexpr std::initializer_list<const char *> kMostTokens = {"max_completion_tokens", "max_tokens", "n_predict"};

// ---------------------------------------------------------------------------------------------------------------------
// Prompts

bool is_tokens(const Json &json) {
  if (!json.is_array() || json.empty()) return false;
  return std::all_of(json.begin(), json.end(), [](const Json &element) { return element.is_number(); });
}

std::vector<int32_t> read_tokens(const Json &json, const std::string &where) {
  std::vector<int32_t> tokens;
  for (const Json &element : json) {
    const auto id = whole_number(element);
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max())
      throw ApiError(fmt::format("{}: expected token ids, found {}", where, shown(element)));
    tokens.push_back(static_cast<int32_t>(*id));
  }
  return tokens;
}

Prompt read_prompt(const Json &json, const std::string &where) {
  if (json.is_string()) return json.get<std::string>();
  if (!is_tokens(json)) throw ApiError(fmt::format("{}: expected a text or token ids, found {}", where, shown(json)));
  return read_tokens(json, where);
}

// Where the first is a token id, and not all are.
void refuse_others(const Json &json, const std::string &name) {
  for_each(json, name, [](const Json &element, const std::string &where) {
    if (!element.is_number()) throw ApiError(fmt::format("{}: expected a token id, found {}", where, shown(element)));
  });
}

// One, or an array of them.
std::vector<Prompt> read_prompts(const JsonFields &fields, const char *name) {
  const Json &json = fields.required(name);
  if (json.is_string() || is_tokens(json)) return {read_prompt(json, name)};
  if (!json.is_array()) fields.fail(name, "a text, token ids, or an array of these", json);
  if (json.empty()) throw ApiError(fmt::format("{}: expected at least one text, found none", name));
  if (json.front().is_number()) refuse_others(json, name);
  std::vector<Prompt> prompts;
  for_each(json, name, [&](const Json &one, const std::string &where) { prompts.push_back(read_prompt(one, where)); });
  return prompts;
}

}  // namespace

ChatRequest read_chat_request(std::string_view body, const GenerateOptions &defaults) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  ChatRequest request;
  request.options = defaults;
  read_text_request(fields, request);
  request.options.max_tokens = read_most_tokens(fields, kMostTokens, 1).value_or(request.options.max_tokens);
  const uint32_t top = fields.count("top_logprobs", 0, kMostLogprobs).value_or(0);
  const bool wants = fields.flag("logprobs").value_or(false);
  if (top > 0 && !wants) throw ApiError("top_logprobs: expected with \"logprobs\": true only");
  if (wants) want_logprobs(top, request);
  read_tools(fields, request);
  read_chat_options(fields, request.chat);
  request.messages = read_messages(fields);
  return request;
}

CompletionRequest read_completion_request(std::string_view body, const GenerateOptions &defaults) {
  constexpr uint32_t kFewTokens = 16;  // OpenAI's default
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  CompletionRequest request;
  request.options = defaults;
  read_text_request(fields, request);
  request.options.max_tokens = read_most_tokens(fields, kMostTokens, 0).value_or(kFewTokens);
  request.echo = fields.flag("echo").value_or(false);
  if (const Json *logprobs = fields.find("logprobs"); logprobs != nullptr && *logprobs != false)
    want_logprobs(*fields.count("logprobs", 0, kMostLogprobs), request);
  if (request.echo && request.top_logprobs) request.options.prompt_logprobs_from = 0;
  if (const auto best_of = fields.count("best_of", 1, kMaxCount); best_of && *best_of != request.n)
    throw ApiError("best_of: not supported unless it is n");
  request.prompts = read_prompts(fields, "prompt");
  const uint32_t most = most_answers(request.top_logprobs);
  const std::string with = request.top_logprobs ? fmt::format(" with {} logprobs", *request.top_logprobs) : "";
  if (request.prompts.size() > most / request.n)
    throw ApiError(fmt::format("{} prompts with {} answers each: expected at most {} answers in all{}",
                               request.prompts.size(), request.n, most, with));
  return request;
}

TokenizeRequest read_tokenize_request(std::string_view body) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  auto content = first_of({"content", "prompt"}, [&](const char *name) { return fields.text(name); });
  if (!content) throw ApiError("content is missing");
  fields.refuse("with_pieces");
  const TokenizeRequest request = {.content = *std::move(content),
                                   .begins = fields.flag("add_special").value_or(false),
                                   .has_special = fields.flag("parse_special").value_or(true)};
  if (request.begins && !request.has_special) throw ApiError("add_special: not supported without parse_special");
  return request;
}

std::vector<int32_t> read_detokenize_request(std::string_view body) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  const Json &tokens = fields.required("tokens");
  if (!tokens.is_array()) fields.fail("tokens", "token ids", tokens);
  return read_tokens(tokens, "tokens");
}

EmbeddingRequest read_embedding_request(std::string_view body) {
  const Json json = parse_body(body);
  const JsonFields fields(json, "");
  EmbeddingRequest request;
  const std::string encoding = fields.text("encoding_format").value_or("float");
  if (encoding != "float" && encoding != "base64")
    throw ApiError(fmt::format("encoding_format: expected float or base64, found {}", bonsai::quoted(encoding)));
  request.is_base64 = encoding == "base64";
  request.dimensions = fields.count("dimensions", 1, kMaxCount);
  for (const char *name : {"truncate_prompt_tokens", "truncate"}) fields.refuse(name);
  for (const char *name : {"normalize", "add_special_tokens"}) fields.refuse(name, true);
  fields.refuse("embd_normalize", 2);  // llama.cpp's number for vectors of length 1
  request.inputs = read_prompts(fields, "input");
  if (request.inputs.size() > kMostInputs)
    throw ApiError(fmt::format("input: expected at most {} texts, found {}", kMostInputs, request.inputs.size()));
  return request;
}

}  // namespace bonsai::server
