// Tells what a model thinks from what it says.
#pragma once

#include <bonsai/chat.h>

#include <functional>
#include <string>
#include <string_view>

#include "host/chat/tag_search.h"

namespace bonsai::host {

// Reads an answer as it comes: "<think>", reasoning, "</think>", content; or content alone. The tags, and the line ends
// between them and the text, are in neither. What may still become a tag is held back.
class ReasoningParser {
 public:
  // Returns false if it wants no more.
  using Sink = std::function<bool(ChatPiece kind, std::string_view text)>;

  // `in_reasoning`: the prompt has opened the tag already. `sink` outlives it.
  ReasoningParser(bool in_reasoning, const Sink &sink);

  // Both return false once the sink did.
  bool push(std::string_view text);
  bool finish();

  const std::string &reasoning() const { return reasoning_; }
  const std::string &content() const { return content_; }

 private:
  static constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  // kStart: nothing but spaces so far. kContentStart: nothing but line ends since the tag was closed.
  enum class State { kStart, kReasoningStart, kReasoning, kContentStart, kContent };

  bool step(bool at_end);
  bool step_start(bool at_end);
  bool step_reasoning(bool at_end);
  void skip_line_ends(State next);
  bool emit(ChatPiece kind, size_t bytes);

  const Sink &sink_;
  State state_;
  std::string pending_, reasoning_, content_;
  size_t n_spaces_ = 0;  // kStart: at the front of pending_
  TagSearch close_{kClose};
  bool wanted_ = true;
};

}  // namespace bonsai::host
