#include "host/chat/reasoning_parser.h"

#include <algorithm>

namespace bonsai::host {

ReasoningParser::ReasoningParser(bool in_reasoning, const Sink &sink)
    : sink_(sink), state_(in_reasoning ? State::kReasoningStart : State::kStart) {}

bool ReasoningParser::push(std::string_view text) {
  pending_ += text;
  while (wanted_ && step(false)) {
  }
  return wanted_;
}

bool ReasoningParser::finish() {
  while (wanted_ && step(true)) {
  }
  return wanted_;
}

// False once there is nothing more to decide without more text.
bool ReasoningParser::step(bool at_end) {
  switch (state_) {
    case State::kStart:
      return step_start(at_end);
    case State::kReasoningStart:
      skip_line_ends(State::kReasoning);
      return state_ == State::kReasoning;
    case State::kReasoning:
      return step_reasoning(at_end);
    case State::kContentStart:
      skip_line_ends(State::kContent);
      return state_ == State::kContent;
    case State::kContent:
      break;
  }
  emit(ChatPiece::kContent, pending_.size());
  return false;
}

bool ReasoningParser::step_start(bool at_end) {
  n_spaces_ = std::min(pending_.find_first_not_of(" \t\r\n", n_spaces_), pending_.size());
  const std::string_view rest = std::string_view(pending_).substr(n_spaces_);
  if (rest.starts_with(kOpen)) {
    pending_.erase(0, n_spaces_ + kOpen.size());
    state_ = State::kReasoningStart;
  } else if (at_end || !kOpen.starts_with(rest)) {
    state_ = State::kContent;
  } else {
    return false;
  }
  return true;
}

bool ReasoningParser::step_reasoning(bool at_end) {
  // Line ends ahead of the tag belong to it, so they wait to see whether it comes.
  const auto [end, close] = close_.look(pending_);
  emit(ChatPiece::kReasoning, close || !at_end ? end : pending_.size());
  if (!close) return false;
  pending_.erase(0, *close + kClose.size() - end);
  state_ = State::kContentStart;
  return true;
}

void ReasoningParser::skip_line_ends(State next) {
  pending_.erase(0, std::min(pending_.find_first_not_of('\n'), pending_.size()));
  if (!pending_.empty()) state_ = next;
}

bool ReasoningParser::emit(ChatPiece kind, size_t bytes) {
  if (bytes == 0) return wanted_;
  const std::string piece = pending_.substr(0, bytes);
  pending_.erase(0, bytes);
  (kind == ChatPiece::kReasoning ? reasoning_ : content_) += piece;
  wanted_ = !sink_ || sink_(kind, piece);
  return wanted_;
}

}  // namespace bonsai::host
