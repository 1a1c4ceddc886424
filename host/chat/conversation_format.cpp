#include "host/chat/conversation_format.h"

#include <fmt/format.h>

#include <utility>

#include "core/base/utf8.h"
#include "host/chat/saved_chat.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

void throw_unless(const Result<void> &result) {
  if (!result) throw EngineError(ErrorKind::kInvalidArgument, result.error().message);
}

Json to_json(const ChatMessage &message) {
  Json json = {{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (!message.tool_calls.empty()) json["tool_calls"] = Json::parse(message.tool_calls);
  return json;
}

// Whether the prompt ends within reasoning that the answer goes on with.
bool opens_reasoning(std::string_view prompt) {
  while (prompt.ends_with('\n') || prompt.ends_with(' ')) prompt.remove_suffix(1);
  return prompt.ends_with("<think>");
}

}  // namespace

void check_utf8(std::string_view what, std::string_view text) {
  if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos)
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("{}: invalid UTF-8 at byte offset {}", what, offset));
}

ConversationFormat::ConversationFormat(std::shared_ptr<const EngineState> engine)
    : engine_(std::move(engine)),
      template_(value_or_throw(template_of(engine_->require_tokenizer()), ErrorKind::kModel)) {}

void ConversationFormat::check(const ChatOptions &options) const {
  check_utf8("system prompt", options.system);
  throw_unless(check_json_array("tools", options.tools));
  if (!options.tools.empty() && !knows("tools"))
    throw EngineError(ErrorKind::kInvalidArgument, "tools: the model's chat template knows none");
}

void ConversationFormat::check(const ChatMessage &message) {
  check_utf8("message", message.content);
  check_utf8("reasoning", message.reasoning);
  check_utf8("role", message.role);
  throw_unless(check_json_array("tool_calls", message.tool_calls));
}

jinja::Rendered ConversationFormat::render(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  Json input = {{"messages", Json::array()}, {"add_generation_prompt", true}};
  if (!options.system.empty()) input["messages"].push_back({{"role", "system"}, {"content", options.system}});
  for (const ChatMessage &message : messages) input["messages"].push_back(to_json(message));
  if (!options.tools.empty()) input["tools"] = Json::parse(options.tools);
  if (options.enable_thinking) input["enable_thinking"] = *options.enable_thinking;
  auto rendered = template_.chat_template.render({.input = input, .trusted = template_.trusted});
  if (!rendered)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("the model's chat template, {}", rendered.error().message));
  return *std::move(rendered);
}

ChatPrompt ConversationFormat::prompt(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  if (messages.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "empty conversation: there is no message to answer");
  const jinja::Rendered rendered = render(messages, options);
  if (rendered.text.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "the model's chat template makes nothing of this conversation");
  return {.tokens = value_or_throw(encode_chat(engine_->require_tokenizer(), template_, rendered),
                                   ErrorKind::kInvalidArgument),
          .begun = "",
          .in_reasoning = opens_reasoning(rendered.text),
          .may_call_tools = !options.tools.empty() && knows("tool_calls")};
}

ChatPrompt ConversationFormat::begin_answer(ChatPrompt prompt, std::string_view text) const {
  const std::vector<int32_t> tokens = engine_->encode(text, false);
  prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  prompt.begun += text;
  return prompt;
}

// As Qwen's templates write reasoning that is over.
ChatPrompt ConversationFormat::end_reasoning(ChatPrompt prompt) const {
  if (!prompt.in_reasoning) return prompt;
  return begin_answer(std::move(prompt), "\n</think>\n\n");
}

}  // namespace bonsai::host
