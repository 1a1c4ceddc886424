// What clients ask for, read from the JSON of OpenAI's API: https://platform.openai.com/docs/api-reference.
#pragma once

#include <bonsai/chat.h>
#include <bonsai/engine.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace bonsai::server {

// A text, or the ids of one.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

// A JSON schema of a request: the field that it came in, "tools[0].function.parameters", and where it lies in the
// schema that the engine gets, as that may call the place.
struct GivenSchema {
  std::string field;
  std::vector<std::string> places;
};

// What requests for text have in common.
struct TextRequest {
  GenerateOptions options;   // the server's own, where the request says nothing else
  std::string schema_field;  // that the options' JSON schema came in; empty: none
  uint32_t n = 1;            // answers to each prompt
  bool stream = false;
  bool include_usage = false;            // in a last event of the stream
  std::optional<uint32_t> top_logprobs;  // how likely each token was, and so many of the likeliest
};

struct ChatRequest : TextRequest {
  ChatOptions chat;
  std::vector<ChatMessage> messages;
  std::string call_schema;  // not empty: the answer has to be a call of a tool, {"name", "arguments"} as this says
  std::vector<GivenSchema> parameters = {};  // that this was made from, or the call_schema of the options
  bool parallel_calls = true;                // false: the answer ends behind the first
};

struct CompletionRequest : TextRequest {
  std::vector<Prompt> prompts;
  bool echo = false;  // the text begins with the prompt
};

struct EmbeddingRequest {
  std::vector<Prompt> inputs;
  bool is_base64 = false;
  std::optional<uint32_t> dimensions;
};

struct TokenizeRequest {
  std::string content;
  bool begins = false;      // what the model wants in front of a prompt comes in front
  bool has_special = true;  // special tokens that are spelled out are one token each
};

// Fields that change nothing here are skipped, as clients send many: "model", "user". Those that would change the
// answer and are not known here are refused, as is whatever has another type than it should. Throw ApiError; also where
// the whole asks for more than kMostAnswers.
inline constexpr uint32_t kMostAnswers = 64;
ChatRequest read_chat_request(std::string_view body, const GenerateOptions &defaults);
CompletionRequest read_completion_request(std::string_view body, const GenerateOptions &defaults);
EmbeddingRequest read_embedding_request(std::string_view body);
// As llama.cpp's server has them; the tokens are the second one's.
TokenizeRequest read_tokenize_request(std::string_view body);
std::vector<int32_t> read_detokenize_request(std::string_view body);

}  // namespace bonsai::server
