#include "host/chat/answer_parser.h"

#include <utility>

namespace bonsai::host {

AnswerParser::AnswerParser(const ChatPrompt &prompt, ChatCallback callback)
    : callback_(std::move(callback)),
      may_call_tools_(prompt.may_call_tools),
      sink_([this](ChatPiece kind, std::string_view text) {
        if (kind == ChatPiece::kContent && may_call_tools_) return calls_.push(text);
        return !callback_ || callback_(kind, text);
      }),
      reasoning_(prompt.in_reasoning, sink_),
      calls_(callback_) {
  push(prompt.begun);
}

ChatMessage AnswerParser::finish() {
  if (reasoning_.finish()) calls_.finish();
  return {.role = "assistant",
          .content = may_call_tools_ ? calls_.content() : reasoning_.content(),
          .reasoning = reasoning_.reasoning(),
          .tool_calls = calls_.calls()};
}

}  // namespace bonsai::host
