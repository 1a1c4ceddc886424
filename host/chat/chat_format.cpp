// The public API: thin objects over ConversationFormat and AnswerParser.
#include <bonsai/chat_format.h>

#include <utility>

#include "host/chat/answer_parser.h"
#include "host/chat/conversation_format.h"

namespace bonsai {

ChatFormat::ChatFormat(const Engine &engine)
    : format_(std::make_unique<const host::ConversationFormat>(engine.state_)) {}
ChatFormat::ChatFormat(ChatFormat &&) noexcept = default;
ChatFormat &ChatFormat::operator=(ChatFormat &&) noexcept = default;
ChatFormat::~ChatFormat() = default;

ChatPrompt ChatFormat::prompt(std::span<const ChatMessage> messages, const ChatOptions &options) const {
  format_->check(options);
  for (const ChatMessage &message : messages) host::ConversationFormat::check(message);
  return format_->prompt(messages, options);
}
ChatPrompt ChatFormat::prompt(std::initializer_list<ChatMessage> messages, const ChatOptions &options) const {
  return prompt(std::span(messages.begin(), messages.size()), options);
}
ChatPrompt ChatFormat::begin_answer(ChatPrompt prompt, std::string_view text) const {
  return format_->begin_answer(std::move(prompt), text);
}
ChatPrompt ChatFormat::end_reasoning(ChatPrompt prompt) const { return format_->end_reasoning(std::move(prompt)); }
ChatPrompt ChatFormat::end_reasoning(ChatPrompt prompt, const GenerateOptions &options) const {
  return format_->end_reasoning(std::move(prompt), options);
}
bool ChatFormat::knows(std::string_view variable) const { return format_->knows(variable); }

ChatAnswer::ChatAnswer(const ChatPrompt &prompt, ChatCallback callback)
    : parser_(std::make_unique<host::AnswerParser>(prompt, std::move(callback))) {}
ChatAnswer::ChatAnswer(ChatAnswer &&) noexcept = default;
ChatAnswer &ChatAnswer::operator=(ChatAnswer &&) noexcept = default;
ChatAnswer::~ChatAnswer() = default;

bool ChatAnswer::push(std::string_view text) { return parser_->push(text); }
ChatMessage ChatAnswer::finish() { return parser_->finish(); }

}  // namespace bonsai
