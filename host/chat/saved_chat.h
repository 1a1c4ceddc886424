// A conversation as a file keeps it.
#pragma once

#include <bonsai/chat.h>

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace bonsai::host {

struct Conversation {
  ChatOptions options;
  std::vector<ChatMessage> messages;
};

// {"format": "bonsai-chat", "version": 1, "system": ..., "tools": [...], "enable_thinking": ..., "messages": [...]},
// indented; what is empty or absent is left out.
std::string write_conversation(const Conversation &conversation);

// Errors name the field: "messages[3].role is missing". Unknown fields are errors too: a newer program's file would
// lose them silently.
Result<Conversation> read_conversation(std::string_view json);

// `text` as a JSON array. Errors begin with `what`.
Result<void> check_json_array(std::string_view what, const std::string &text);

}  // namespace bonsai::host
