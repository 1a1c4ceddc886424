#include "host/chat/chat_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "host/chat/answer_parser.h"
#include "host/engine/reused_tokens.h"
#include "host/engine/session_state.h"

namespace bonsai::host {
namespace {

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
    : engine_(engine), format_(std::move(engine)), session_(std::move(session)) {
  check(options);
  conversation_.options = options;
}

void ChatState::check(const ChatOptions &options) const {
  format_.check(options);
  warn_of_thinking(options);
}

// A template without the variable leaves it out silently; the model thinks as it likes then.
void ChatState::warn_of_thinking(const ChatOptions &options) const {
  if (options.enable_thinking && !format_.knows("enable_thinking"))
    engine_->log(LogLevel::kWarning,
                 fmt::format("{} does not let thinking be switched on or off", format_.name_of_template()));
}

void ChatState::set_enable_thinking(std::optional<bool> enable) {
  exclusive_.require_idle();
  ChatOptions options = conversation_.options;
  options.enable_thinking = enable;
  warn_of_thinking(options);  // may throw
  conversation_.options.enable_thinking = enable;
}

void ChatState::set_system(std::string_view text) {
  exclusive_.require_idle();
  check_utf8("system prompt", text);
  conversation_.options.system = text;
}

void ChatState::add(ChatMessage message) {
  exclusive_.require_idle();
  ConversationFormat::check(message);
  conversation_.messages.push_back(std::move(message));
}

Conversation ChatState::read(std::string_view json) const {
  Conversation conversation = value_or_throw(read_conversation(json), ErrorKind::kInvalidArgument);
  check(conversation.options);
  return conversation;
}

void ChatState::reset() {
  exclusive_.require_idle();
  conversation_.messages.clear();
}

void ChatState::load(std::string_view json) {
  exclusive_.require_idle();
  conversation_ = read(json);
}

std::string ChatState::save() const {
  exclusive_.require_idle();
  return write_conversation(conversation_);
}

void ChatState::save_session(const std::string &path) const { session_.state_->save(path, save()); }

void ChatState::load_session(const std::string &path) {
  exclusive_.require_idle();
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

ChatReply ChatState::respond(const GenerateOptions &options, const ChatCallback &callback) {
  const Exclusive<ChatState>::Hold hold(exclusive_);
  return answer(options, callback);
}

// The answer to the conversation as it is, at its end.
ChatReply ChatState::answer(const GenerateOptions &options, const ChatCallback &callback) {
  const ChatPrompt prompt =
      format_.end_reasoning(format_.prompt(conversation_.messages, conversation_.options), options);
  bring_to_session(prompt.tokens);
  AnswerParser parser(prompt, callback);
  ChatReply reply;
  reply.generation = session_.generate(options, [&parser](std::string_view text) { return parser.push(text); });
  reply.message = parser.finish();
  reply.reused_tokens = reused_tokens(reply.generation, prompt.tokens.size());
  const ChatMessage &said = reply.message;
  const bool is_empty = said.content.empty() && said.reasoning.empty() && said.tool_calls.empty();
  if (!(is_empty && reply.generation.finish == FinishReason::kCancelled))
    conversation_.messages.push_back(reply.message);
  return reply;
}

ChatReply ChatState::send(ChatMessage message, const GenerateOptions &options, const ChatCallback &callback) {
  add(std::move(message));
  const Exclusive<ChatState>::Hold hold(exclusive_);
  const size_t n_messages = conversation_.messages.size();
  try {
    ChatReply reply = answer(options, callback);
    if (conversation_.messages.size() == n_messages) conversation_.messages.pop_back();
    return reply;
  } catch (...) {
    conversation_.messages.resize(n_messages - 1);
    throw;
  }
}

ChatReply ChatState::regenerate(const GenerateOptions &options, const ChatCallback &callback) {
  const Exclusive<ChatState>::Hold hold(exclusive_);
  std::vector<ChatMessage> before = conversation_.messages;
  if (!conversation_.messages.empty() && conversation_.messages.back().role == "assistant")
    conversation_.messages.pop_back();
  const size_t n_messages = conversation_.messages.size();
  try {
    ChatReply reply = answer(options, callback);
    if (conversation_.messages.size() == n_messages) conversation_.messages = std::move(before);
    return reply;
  } catch (...) {
    conversation_.messages = std::move(before);
    throw;
  }
}

}  // namespace bonsai::host
