#include "host/server/api_response.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>
#include <utility>

#include "core/base/shortest.h"
#include "core/base/utf8.h"

namespace bonsai::server {
namespace {

// JSON has no infinity; this is what OpenAI writes for a token that cannot be.
constexpr double kImpossible = -9999.0;

double finite(double logprob) { return std::isfinite(logprob) ? logprob : kImpossible; }

// Special tokens are spelled out, as OpenAI does.
std::string text_of(const Engine &engine, int32_t token) { return engine.detokenize({&token, 1}, true); }

// In OpenAI's completions, where names have to differ: a token that is a part of a character is "bytes:\xe2\x80".
std::string name_of(const Engine &engine, int32_t token) {
  const std::string text = text_of(engine, token);
  if (find_invalid_utf8(text) == std::string::npos) return text;
  std::string name = "bytes:";
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    name += byte < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }
  return name;
}

Json logprob_json(const Engine &engine, const LogProb &entry) {
  const std::string text = text_of(engine, entry.token);
  return {{"token", text},
          {"logprob", finite(entry.logprob)},
          {"bytes", std::vector<unsigned>(reinterpret_cast<const uint8_t *>(text.data()),
                                          reinterpret_cast<const uint8_t *>(text.data()) + text.size())}};
}

std::span<const LogProb> likeliest(const TokenLogProbs &place, uint32_t n_top) {
  return std::span(place.top).first(std::min<size_t>(n_top, place.top.size()));
}

// Of a text as clients get it, in which to_line() replaces bytes that are no character's.
size_t n_characters(std::string_view text) {
  const std::string sent = Json::parse(to_line(text)).get<std::string>();
  const auto begins_character = [](char byte) { return (byte & 0xC0) != 0x80; };
  return static_cast<size_t>(std::count_if(sent.begin(), sent.end(), begins_character));
}

// Counts the characters of a text that comes in pieces, which may be parts of characters.
class CharacterCount {
 public:
  // A byte that continues nothing ends what is before it, and the fifth from there on is a character by itself.
  void add(std::string_view text) {
    constexpr size_t kLongest = 4;  // bytes of a character
    open_ += text;
    size_t settled = open_.size();
    while (settled > 0 && (open_[--settled] & 0xC0) == 0x80) {
    }
    if (open_.size() - settled > kLongest) settled = open_.size();
    n_settled_ += n_characters(std::string_view(open_).substr(0, settled));
    open_.erase(0, settled);
  }

  // That have begun.
  size_t n() const { return n_settled_ + n_characters(open_); }
  // That nothing more can belong to.
  size_t n_whole() const { return find_invalid_utf8(open_) == std::string::npos ? n() : n_settled_; }

 private:
  size_t n_settled_ = 0;
  std::string open_;  // what more bytes may belong to
};

// The four lists of OpenAI's completions, a token after the other.
class CompletionLogProbs {
 public:
  CompletionLogProbs(const Engine &engine, uint32_t n_top) : engine_(engine), n_top_(n_top) {
    for (const char *name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"}) json_[name] = Json::array();
  }

  // `place`: null for a token of which nothing is known. `text`: what the token adds to the answer's, in which most
  // special tokens do not show.
  void add(int32_t token, const TokenLogProbs *place, std::string_view text) {
    const std::string name = name_of(engine_, token);
    json_["tokens"].push_back(name);
    json_["token_logprobs"].push_back(place == nullptr ? Json() : Json(finite(place->chosen.logprob)));
    json_["top_logprobs"].push_back(place == nullptr ? Json() : top(name, *place));
    json_["text_offset"].push_back(so_far_.n());
    so_far_.add(text);
  }

  Json json() && { return std::move(json_); }

 private:
  // OpenAI's has the token whether or not it is among the likeliest.
  Json top(const std::string &name, const TokenLogProbs &place) const {
    Json top = {{name, finite(place.chosen.logprob)}};
    for (const LogProb &other : likeliest(place, n_top_)) top[name_of(engine_, other.token)] = finite(other.logprob);
    return top;
  }

  const Engine &engine_;
  const uint32_t n_top_;
  Json json_;
  CharacterCount so_far_;
};

// RFC 4648.
std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < n ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

// OpenAI's clients read float32, the lowest byte first.
std::string base64(std::span<const float> numbers) {
  std::vector<uint8_t> bytes;
  for (const float number : numbers) {
    const auto bits = std::bit_cast<uint32_t>(number);
    for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<uint8_t>(bits >> shift));
  }
  return base64(std::span<const uint8_t>(bytes));
}

Json usage_json(const Usage &usage) {
  Json json = {{"prompt_tokens", usage.prompt_tokens},
               {"completion_tokens", usage.completion_tokens},
               {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
               {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
  if (usage.reasoning_tokens) json["completion_tokens_details"] = {{"reasoning_tokens", *usage.reasoning_tokens}};
  return json;
}

}  // namespace

// Some clients take more for the end of a line than "\n": U+0085, U+2028 and U+2029, which can only be within strings.
std::string to_line(const Json &json) {
  constexpr std::pair<std::string_view, std::string_view> kLineEnds[] = {
      {"\xC2\x85", "\\u0085"}, {"\xE2\x80\xA8", "\\u2028"}, {"\xE2\x80\xA9", "\\u2029"}};
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string line;
  line.reserve(text.size());
  for (const char c : text) {
    line += c;
    for (const auto &[character, escape] : kLineEnds)
      if (line.ends_with(character)) line.replace(line.size() - character.size(), character.size(), escape);
  }
  return line;
}

std::string make_id(std::string_view prefix) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, random(), random(), random());
}

// What calls tools and was cancelled was to end behind the call.
std::string_view finish_reason(FinishReason reason, bool calls_tools) {
  const bool is_full = reason == FinishReason::kLength || reason == FinishReason::kContextFull;
  if (calls_tools && !is_full) return "tool_calls";
  return is_full || reason == FinishReason::kCancelled ? "length" : "stop";
}

// Up to the tag that ends it, which is a token where models have been taught to reason, or to the end of the answer.
uint64_t reasoning_tokens(const Engine &engine, const Generation &generation, const ChatMessage &message) {
  if (message.reasoning.empty()) return 0;
  const std::vector<int32_t> &tokens = generation.tokens;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (engine.detokenize({&tokens[i], 1}, true) == "</think>") return i + 1;
  const bool is_all = message.content.empty() && message.tool_calls.empty();
  return is_all ? tokens.size() : engine.tokenize(message.reasoning).size();
}

std::string answer_json(const AnswerHead &head, Json choices, const std::optional<Usage> &usage) {
  Json json = {{"id", head.id},
               {"object", head.object},
               {"created", head.created},
               {"model", head.model},
               {"choices", std::move(choices)}};
  if (usage)
    json["usage"] = usage_json(*usage);
  else if (head.announces_usage)
    json["usage"] = nullptr;
  return to_line(json);
}

Json call_json(const Json &call) {
  const auto arguments = call.find("arguments");
  return {{"id", make_id("call_")},
          {"type", "function"},
          {"function",
           {{"name", call.value("name", "")}, {"arguments", arguments == call.end() ? "{}" : to_line(*arguments)}}}};
}

Json message_json(const ChatMessage &message) {
  Json json = {{"role", message.role}, {"content", message.content}, {"refusal", nullptr}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (message.tool_calls.empty()) return json;
  if (message.content.empty()) json["content"] = nullptr;
  for (const Json &call : Json::parse(message.tool_calls)) json["tool_calls"].push_back(call_json(call));
  return json;
}

std::span<const TokenLogProbs> told_logprobs(const Engine &engine, const Generation &generation) {
  const std::span<const TokenLogProbs> all = generation.logprobs;
  if (generation.finish != FinishReason::kStopString) return all;
  const size_t n_told = n_characters(generation.text);
  CharacterCount so_far;
  size_t n = 0;
  for (; n < all.size() && so_far.n_whole() < n_told; ++n) so_far.add(engine.detokenize({&all[n].chosen.token, 1}));
  return all.first(n);
}

Json chat_logprobs_json(const Engine &engine, std::span<const TokenLogProbs> places, uint32_t n_top) {
  Json content = Json::array();
  for (const TokenLogProbs &place : places) {
    Json entry = logprob_json(engine, place.chosen);
    entry["top_logprobs"] = Json::array();
    for (const LogProb &other : likeliest(place, n_top)) entry["top_logprobs"].push_back(logprob_json(engine, other));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completion_logprobs_json(const Engine &engine, const Generation &generation, uint32_t n_top, const Echo *echo,
                              std::span<const TokenLogProbs> of_prompt) {
  CompletionLogProbs logprobs(engine, n_top);
  for (size_t i = 0; echo != nullptr && i < echo->tokens.size(); ++i) {
    const bool is_known = i > 0 && i <= of_prompt.size();  // a text may be cancelled in its prompt
    const std::string text = i < echo->n_hidden ? "" : text_of(engine, echo->tokens[i]);
    logprobs.add(echo->tokens[i], is_known ? &of_prompt[i - 1] : nullptr, text);
  }
  for (const TokenLogProbs &place : told_logprobs(engine, generation))
    logprobs.add(place.chosen.token, &place, engine.detokenize({&place.chosen.token, 1}));
  const auto &end = generation.end_logprobs;
  if (end && generation.finish != FinishReason::kStopString) logprobs.add(end->chosen.token, &*end, "");
  return std::move(logprobs).json();
}

std::string embedding_json(std::span<const float> embedding, size_t index, bool is_base64) {
  Json numbers = Json::array();
  for (size_t i = 0; !is_base64 && i < embedding.size(); ++i) numbers.push_back(shortest(embedding[i]));
  return to_line({{"object", "embedding"},
                  {"index", index},
                  {"embedding", is_base64 ? Json(base64(embedding)) : std::move(numbers)}});
}

std::string embeddings_json(std::string_view embeddings, std::string_view model, uint64_t n_tokens) {
  const Json usage = {{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}};
  return fmt::format(R"({{"object":"list","data":[{}],"model":{},"usage":{}}})", embeddings, to_line(model),
                     to_line(usage));
}

Json model_json(std::string_view name, int64_t created, const ModelInfo &model, uint32_t context) {
  return {{"id", name},
          {"object", "model"},
          {"created", created},
          {"owned_by", "bonsai"},
          {"context_length", context},
          {"meta",
           {{"name", model.name},
            {"n_vocab", model.vocabulary},
            {"n_ctx_train", model.trained_context},
            {"n_embd", model.embedding}}}};
}

}  // namespace bonsai::server
