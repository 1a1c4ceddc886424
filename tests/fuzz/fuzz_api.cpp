// Promise: whatever a client sends as a request of OpenAI's APIs or Anthropic's is refused with one line, or is a
// request that the rest of the server can trust.
#include <string>
#include <string_view>

#include "core/base/utf8.h"
#include "host/chat/saved_chat.h"
#include "host/server/anthropic/request.h"
#include "host/server/api_error.h"
#include "host/server/api_request.h"
#include "host/server/api_response.h"
#include "host/server/responses/request.h"
#include "host/server/responses/store.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using namespace bonsai::server;

enum class Kind : uint8_t { kChat, kCompletion, kResponse, kMessages, kEmbedding, kCount };

void require_text(std::string_view text) { require(bonsai::find_invalid_utf8(text) == std::string_view::npos); }

void require_array(const std::string &text) { require(bonsai::host::check_json_array("it", text).has_value()); }

void use_prompts(const std::vector<Prompt> &prompts) {
  require(!prompts.empty());
  for (const Prompt &prompt : prompts) {
    if (const auto *text = std::get_if<std::string>(&prompt)) require_text(*text);
    if (const auto *tokens = std::get_if<std::vector<int32_t>>(&prompt)) {
      require(!tokens->empty());
      for (const int32_t token : *tokens) require(token >= 0);
    }
  }
}

void use_text_request(const TextRequest &request) {
  const bonsai::GenerateOptions &options = request.options;
  require(request.n >= 1 && request.n <= kMostAnswers);
  require(options.sampling.temperature >= 0 && options.sampling.repetition_penalty > 0);
  require(!request.top_logprobs || options.logprobs >= std::max(*request.top_logprobs, 1u));
  require(options.grammar.empty() || options.json_schema.empty());
  for (const std::string &stop : options.stop) require(!stop.empty());
}

void use_conversation(const ChatRequest &request) {
  use_text_request(request);
  require(request.options.max_tokens >= 1);
  require(!request.messages.empty());
  require_array(request.chat.tools);
  for (const bonsai::ChatMessage &message : request.messages) {
    require_text(message.content);
    require_text(message.reasoning);
    require_array(message.tool_calls);
    require(!to_line(message_json(message)).empty());
  }
}

// One response is there to go on from.
void use_response(std::string_view body) {
  ResponseStore store(1 << 16);
  const Json item = {{"id", "i"}, {"type", "message"}, {"role", "assistant"}, {"content", "c"}};
  store.keep({{"id", "r"}, {"output", {item}}}, Json::array({item}));
  const ResponseRequest request = read_response_request(body, {}, store);
  use_conversation(request);
  require(request.items.is_array() && !to_line(request.settings).empty());
}

void use_completion(std::string_view body) {
  const CompletionRequest request = read_completion_request(body, {});
  use_text_request(request);
  use_prompts(request.prompts);
  require(request.prompts.size() * request.n <= kMostAnswers);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char *>(data) + 1, size - 1);
  try {
    switch (static_cast<Kind>(data[0] % static_cast<uint8_t>(Kind::kCount))) {
      case Kind::kChat:
        use_conversation(read_chat_request(body, {}));
        break;
      case Kind::kResponse:
        use_response(body);
        break;
      case Kind::kMessages:
        use_conversation(read_messages_request(body, {}));
        break;
      case Kind::kCompletion:
        use_completion(body);
        break;
      default:
        use_prompts(read_embedding_request(body).inputs);
    }
  } catch (const ApiError &error) {
    const std::string_view message = error.what();
    require((error.status() == 400 || error.status() == 404) && !message.empty() && message.find('\n') == message.npos);
    require(error_json(error).find('\n') == std::string::npos);
  }
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  const std::string sampling =
      R"("temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": -1, "stop": ["a", "b"], "n": 2,
         "logit_bias": {"12": -100}, "repeat_penalty": 1.1, "presence_penalty": -1, "frequency_penalty": 0.5,
         "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 9)";
  return {
      make_seed(Kind::kChat, R"({"messages": [{"role": "user", "content": "hi"}], )" + sampling + "}"),
      make_seed(Kind::kChat, R"({"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}]},
              {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [{"id": "1",
               "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1, {}]}"}}]},
              {"role": "tool", "content": "t", "tool_call_id": "1"}], "tools": [{"type": "function"}],
              "tool_choice": "auto", "chat_template_kwargs": {"enable_thinking": true}, "logprobs": true,
              "top_logprobs": 3, "max_completion_tokens": 7})"),
      make_seed(Kind::kChat, R"({"messages": [{"role": "user", "content": "hi"}], "response_format":
              {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}})"),
      make_seed(Kind::kCompletion, R"({"prompt": ["a", [1, 2]], "echo": true, )" + sampling + "}"),
      make_seed(Kind::kCompletion, R"({"prompt": [1, 2], "logprobs": 3, "best_of": 1, "grammar": "root ::= \"a\""})"),
      make_seed(Kind::kResponse, R"({"input": "hi", "instructions": "Be kind.", "previous_response_id": "r",
              "max_output_tokens": 7, "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
              "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}},
                        {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "f"}]}],
              "tool_choice": {"type": "function", "name": "f"}, "reasoning": {"effort": "none"}})"),
      make_seed(Kind::kResponse, R"({"input": [{"role": "developer", "content": "a"},
              {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"}]},
              {"type": "item_reference", "id": "i"},
              {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
              {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
              {"type": "function_call_output", "call_id": "1", "output": "o"}], "store": false, "stream": true})"),
      make_seed(Kind::kMessages, R"({"max_tokens": 9, "system": [{"type": "text", "text": "a"}], "messages": [
              {"role": "user", "content": [{"type": "text", "text": "a"}]},
              {"role": "assistant", "content": [{"type": "thinking", "thinking": "r", "signature": ""},
               {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}}]},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "o"}]}],
              "tools": [{"name": "f", "input_schema": {"type": "object"}}], "tool_choice": {"type": "any"},
              "thinking": {"type": "enabled"}, "stop_sequences": ["a"],
              "output_config": {"format": {"type": "json_schema", "schema": {}}}})"),
      make_seed(Kind::kEmbedding, R"({"input": ["a", "b"], "encoding_format": "base64", "dimensions": 8})")};
}
