// What clients get, in the JSON of OpenAI's API: https://platform.openai.com/docs/api-reference. Every function gives
// one line.
#pragma once

#include <bonsai/chat.h>
#include <bonsai/engine.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::server {

using Json = nlohmann::ordered_json;

// What every answer says of itself.
struct AnswerHead {
  std::string id;      // "chatcmpl-..."
  std::string object;  // "chat.completion"
  std::string model;
  int64_t created = 0;           // seconds since 1970
  bool announces_usage = false;  // events of a stream whose last one has it: null, as OpenAI's
};

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // of these, computed for an earlier request
  uint64_t completion_tokens = 0;
  std::optional<uint64_t> reasoning_tokens = {};  // of these, where what is thought is told apart
};

// Of an answer, how many tokens were thought.
uint64_t reasoning_tokens(const Engine &engine, const Generation &generation, const ChatMessage &message);

// `prefix` and 24 random digits.
std::string make_id(std::string_view prefix);

// "stop", "length" or "tool_calls".
std::string_view finish_reason(FinishReason reason, bool calls_tools);

// {"id", "object", "created", "model", "choices", "usage"}; an event of a stream has usage in its last only.
std::string answer_json(const AnswerHead &head, Json choices, const std::optional<Usage> &usage);

// {"role", "content", "refusal", "reasoning_content", "tool_calls"}. Of the last two what is empty is left out; a
// content that is empty beside calls is null.
Json message_json(const ChatMessage &message);
// One call as OpenAI has it, of {"name", "arguments"} as ChatMessage has it.
Json call_json(const Json &call);

// The prompt, as the text of a completion that begins with it.
struct Echo {
  std::string text;
  std::vector<int32_t> tokens;
  size_t n_hidden = 0;  // of these, that come first and are not in the text: what the model wants ahead of any
};

// The logprobs that clients are told: where a text to stop at has ended the generation's, of no token behind that end.
std::span<const TokenLogProbs> told_logprobs(const Engine &engine, const Generation &generation);

// How likely the tokens were, with the `n_top` likeliest, in the form of chat and that of completions. The latter have
// the token that ended the text, too, as harnesses expect; with `echo` the prompt's come first, of which `of_prompt`
// tells all but the first.
Json chat_logprobs_json(const Engine &engine, std::span<const TokenLogProbs> places, uint32_t n_top);
Json completion_logprobs_json(const Engine &engine, const Generation &generation, uint32_t n_top, const Echo *echo,
                              std::span<const TokenLogProbs> of_prompt);

// {"object": "embedding", "index", "embedding"}
std::string embedding_json(std::span<const float> embedding, size_t index, bool is_base64);
// {"object": "list", "data", "model", "usage"}, of the above with commas between.
std::string embeddings_json(std::string_view embeddings, std::string_view model, uint64_t n_tokens);

// {"id", "object": "model", ...}; `context`: most tokens of a prompt and its answer.
Json model_json(std::string_view name, int64_t created, const ModelInfo &model, uint32_t context);

// One line, whatever a client takes for the end of one. Bytes that are no text become U+FFFD.
std::string to_line(const Json &json);

}  // namespace bonsai::server
