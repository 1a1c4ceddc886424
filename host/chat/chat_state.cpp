#include "host/chat/chat_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/base/utf8.h"
#include "host/chat/reasoning_parser.h"
#include "host/chat/tool_call_parser.h"
#include "host/engine/session_state.h"

namespace bonsai::host {
namespace {

using Json = nlohmann::ordered_json;

void check_utf8(std::string_view what, std::string_view text) {
  if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos)
    throw EngineError(ErrorKind::kInvalidArgument, fmt::format("{}: invalid UTF-8 at byte offset {}", what, offset));
}

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

[[noreturn]] void throw_context_full(size_t length, uint32_t context, uint32_t trained) {
  const std::string more =
      trained > context ? fmt::format(", or give it more context: the model knows {}", trained) : "";
  throw EngineError(
      ErrorKind::kContextFull,
      fmt::format(
          "the conversation is {} tokens long with this message, and the context holds {} with at least one for "
          "the answer: shorten the message, start a new conversation{}",
          length, context, more));
}

}  // namespace

ChatState::ChatState(std::shared_ptr<const EngineState> engine, Session session, const ChatOptions &options)
    : engine_(std::move(engine)), template_(load_template()), session_(std::move(session)) {
  check(options);
  conversation_.options = options;
}

ModelTemplate ChatState::load_template() const {
  return value_or_throw(template_of(engine_->require_tokenizer()), ErrorKind::kModel);
}

void ChatState::check(const ChatOptions &options) const {
  check_utf8("system prompt", options.system);
  throw_unless(check_json_array("tools", options.tools));
  if (!options.tools.empty() && !template_.chat_template.mentions("tools"))
    throw EngineError(ErrorKind::kInvalidArgument, "tools: the model's chat template knows none");
  warn_of_thinking(options);
}

// A template without the variable leaves it out silently; the model thinks as it likes then.
void ChatState::warn_of_thinking(const ChatOptions &options) const {
  if (options.enable_thinking && !template_.chat_template.mentions("enable_thinking"))
    engine_->log(LogLevel::kWarning, "the model's chat template does not let thinking be switched on or off");
}

void ChatState::set_enable_thinking(std::optional<bool> enable) {
  conversation_.options.enable_thinking = enable;
  warn_of_thinking(conversation_.options);
}

void ChatState::set_system(std::string_view text) {
  check_utf8("system prompt", text);
  conversation_.options.system = text;
}

void ChatState::add(ChatMessage message) {
  check_utf8("message", message.content);
  check_utf8("reasoning", message.reasoning);
  check_utf8("role", message.role);
  throw_unless(check_json_array("tool_calls", message.tool_calls));
  conversation_.messages.push_back(std::move(message));
}

Conversation ChatState::read(std::string_view json) const {
  Conversation conversation = value_or_throw(read_conversation(json), ErrorKind::kInvalidArgument);
  check(conversation.options);
  return conversation;
}

void ChatState::load(std::string_view json) { conversation_ = read(json); }

void ChatState::save_session(const std::string &path) const {
  session_.state_->save(path, write_conversation(conversation_));
}

void ChatState::load_session(const std::string &path) {
  Conversation loaded;
  session_.state_->load(path, [&](std::string_view note) {
    if (note.empty())
      throw EngineError(ErrorKind::kInvalidArgument,
                        fmt::format("{}: a session without a conversation, expected one that a chat has saved", path));
    try {
      loaded = read(note);
    } catch (const EngineError &error) {
      throw EngineError(error.kind(), fmt::format("{}: {}", path, error.what()));
    }
  });
  conversation_ = std::move(loaded);
}

jinja::Rendered ChatState::render() const {
  const ChatOptions &options = conversation_.options;
  Json input = {{"messages", Json::array()}, {"add_generation_prompt", true}};
  if (!options.system.empty()) input["messages"].push_back({{"role", "system"}, {"content", options.system}});
  for (const ChatMessage &message : conversation_.messages) input["messages"].push_back(to_json(message));
  if (!options.tools.empty()) input["tools"] = Json::parse(options.tools);
  if (options.enable_thinking) input["enable_thinking"] = *options.enable_thinking;
  auto rendered = template_.chat_template.render({.input = input, .trusted = template_.trusted});
  if (!rendered)
    throw EngineError(ErrorKind::kInvalidArgument,
                      fmt::format("the model's chat template, {}", rendered.error().message));
  return *std::move(rendered);
}

// Has the session hold the conversation, and keeps what it has of it already.
void ChatState::bring_to_session(const std::vector<int32_t> &tokens) {
  if (tokens.size() >= engine_->context())
    throw_context_full(tokens.size(), engine_->context(), engine_->model.config.context);
  const auto held = session_.tokens();
  const auto differs = std::mismatch(held.begin(), held.end(), tokens.begin(), tokens.end()).first;
  const auto same = static_cast<uint32_t>(differs - held.begin());
  session_.truncate(same);
  if (same < tokens.size()) session_.append_tokens(std::span(tokens).subspan(same));
}

// Whether the model has tools, and its template would show it again that it called some.
bool ChatState::may_call_tools() const {
  return !conversation_.options.tools.empty() && template_.chat_template.mentions("tool_calls");
}

ChatReply ChatState::respond(const GenerateOptions &options, const ChatCallback &callback) {
  if (conversation_.messages.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "empty conversation: there is no message to answer");
  const jinja::Rendered prompt = render();
  if (prompt.text.empty())
    throw EngineError(ErrorKind::kInvalidArgument, "the model's chat template makes nothing of this conversation");
  const std::vector<int32_t> tokens =
      value_or_throw(encode_chat(engine_->require_tokenizer(), template_, prompt), ErrorKind::kInvalidArgument);
  bring_to_session(tokens);
  ToolCallParser calls(callback);
  const bool may_call = may_call_tools();
  const ReasoningParser::Sink sink = [&](ChatPiece kind, std::string_view text) {
    if (kind == ChatPiece::kContent && may_call) return calls.push(text);
    return !callback || callback(kind, text);
  };
  ReasoningParser parser(opens_reasoning(prompt.text), sink);
  ChatReply reply;
  reply.generation = session_.generate(options, [&parser](std::string_view text) { return parser.push(text); });
  if (parser.finish()) calls.finish();
  // A prompt that was cancelled has been computed in part, and more of it is left than was reused.
  const uint32_t n_computed = reply.generation.stats.prompt_tokens;
  if (reply.generation.finish != FinishReason::kCancelled || !reply.generation.tokens.empty())
    reply.reused_tokens = static_cast<uint32_t>(tokens.size()) - n_computed;
  reply.message = {.role = "assistant",
                   .content = may_call ? calls.content() : parser.content(),
                   .reasoning = parser.reasoning(),
                   .tool_calls = calls.calls()};
  const ChatMessage &said = reply.message;
  const bool is_empty = said.content.empty() && said.reasoning.empty() && said.tool_calls.empty();
  if (!(is_empty && reply.generation.finish == FinishReason::kCancelled))
    conversation_.messages.push_back(reply.message);
  return reply;
}

ChatReply ChatState::send(ChatMessage message, const GenerateOptions &options, const ChatCallback &callback) {
  add(std::move(message));
  const size_t n_messages = conversation_.messages.size();
  try {
    ChatReply reply = respond(options, callback);
    if (conversation_.messages.size() == n_messages) conversation_.messages.pop_back();
    return reply;
  } catch (...) {
    conversation_.messages.resize(n_messages - 1);
    throw;
  }
}

ChatReply ChatState::regenerate(const GenerateOptions &options, const ChatCallback &callback) {
  std::vector<ChatMessage> before = conversation_.messages;
  while (!conversation_.messages.empty() && conversation_.messages.back().role == "assistant")
    conversation_.messages.pop_back();
  const size_t n_messages = conversation_.messages.size();
  try {
    ChatReply reply = respond(options, callback);
    if (conversation_.messages.size() == n_messages) conversation_.messages = std::move(before);
    return reply;
  } catch (...) {
    conversation_.messages = std::move(before);
    throw;
  }
}

}  // namespace bonsai::host
