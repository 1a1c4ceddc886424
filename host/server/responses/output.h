// The output of a response, an item after the other: what was thought, what is said, and which functions are called.
#pragma once

#include <bonsai/chat.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "host/server/json_fields.h"

namespace bonsai::server {

class ResponseOutput {
 public:
  // An event of a stream: its type, and what else it says but for its number.
  using Tell = std::function<void(std::string_view type, Json fields)>;

  explicit ResponseOutput(Tell tell) : tell_(std::move(tell)) {}

  // The answer goes on; a call comes whole.
  void add(ChatPiece kind, std::string_view text);
  // It has ended; `is_cut`: before it was complete. One that says nothing is a message without text.
  void end(bool is_cut);

  // Those that are complete.
  const Json &items() const { return items_; }

 private:
  void open(ChatPiece kind);
  void close(std::string_view status);
  void add_call(const Json &call);
  Json place() const;

  const Tell tell_;
  Json items_ = Json::array();
  std::optional<ChatPiece> open_;  // what the item is that is not complete, if there is one
  std::string id_, text_;          // of that
};

}  // namespace bonsai::server
