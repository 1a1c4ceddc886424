// The content of a message in Anthropic's API, a block after the other: what was thought, what is said, and which tools
// are used.
#pragma once

#include <bonsai/chat.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "host/server/json_fields.h"

namespace bonsai::server {

class MessageContent {
 public:
  // An event of a stream: its type, and what else it says.
  using Tell = std::function<void(std::string_view type, Json fields)>;

  explicit MessageContent(Tell tell) : tell_(std::move(tell)) {}

  // The answer goes on; a call comes whole.
  void add(ChatPiece kind, std::string_view text);
  // It has ended.
  void end();

  // Those that are complete.
  const Json &blocks() const { return blocks_; }

 private:
  void begin(Json block);
  void tell_delta(Json delta);
  void close(Json block);
  void add_call(const Json &call);

  const Tell tell_;
  Json blocks_ = Json::array();
  std::optional<ChatPiece> open_;  // what the block is that is not complete, if there is one
  std::string text_;               // of that
};

}  // namespace bonsai::server
