// Tells a model's calls of tools from what it says.
#pragma once

#include <bonsai/chat.h>

#include <string>
#include <string_view>
#include <vector>

#include "host/chat/tag_search.h"

namespace bonsai::host {

// Reads the content of an answer as it comes. Qwen's models write {"name": ..., "arguments": {...}} between
// "<tool_call>" and "</tool_call>"; "parameters" or a text of JSON will do as well. Where something else lies there, it
// is content like the rest, tags included. Line ends around calls belong to these, and what may still become one is
// held back.
class ToolCallParser {
 public:
  // `callback`, which may be empty, outlives it. It gets every call whole, as JSON.
  explicit ToolCallParser(const ChatCallback &callback) : callback_(callback) {}

  // Both return false once the callback did.
  bool push(std::string_view text);
  bool finish();

  const std::string &content() const { return content_; }
  // A JSON array of the calls, as ChatMessage has them; empty: there are none.
  std::string calls() const;

 private:
  static constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
  enum class State { kContent, kCall, kBehindCall };

  bool step(bool at_end);
  bool step_content(bool at_end);
  bool step_call(bool at_end);
  bool emit_content(size_t bytes);

  const ChatCallback &callback_;
  State state_ = State::kContent;
  std::string pending_, content_;  // kCall: begins with line ends and the tag
  TagSearch open_{kOpen};
  size_t call_begin_ = 0;  // kCall: in pending_, behind the tag
  JsonEndSearch close_{kClose, 0};
  std::vector<std::string> calls_;
  bool wanted_ = true;
};

}  // namespace bonsai::host
