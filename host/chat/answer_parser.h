// An answer as it comes: what is thought, what is said, and which tools are called.
#pragma once

#include <bonsai/chat_format.h>

#include <string_view>

#include "host/chat/reasoning_parser.h"
#include "host/chat/tool_call_parser.h"

namespace bonsai::host {

class AnswerParser {
 public:
  // Reads what the prompt has begun, too.
  AnswerParser(const ChatPrompt &prompt, ChatCallback callback);
  AnswerParser(const AnswerParser &) = delete;
  AnswerParser &operator=(const AnswerParser &) = delete;

  // False once the callback wants no more.
  bool push(std::string_view text) { return reasoning_.push(text); }
  // The text has ended: gives the message.
  ChatMessage finish();

 private:
  const ChatCallback callback_;
  const bool may_call_tools_;
  const ReasoningParser::Sink sink_;
  ReasoningParser reasoning_;
  ToolCallParser calls_;
};

}  // namespace bonsai::host
