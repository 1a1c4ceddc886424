// What clients ask for by Anthropic's Messages API: https://platform.claude.com/docs/en/api/messages.
#pragma once

#include <string_view>

#include "host/server/api_request.h"

namespace bonsai::server {

struct MessagesRequest : ChatRequest {
  bool tells_reasoning = true;
};

// As read_chat_request() does. Unless the request speaks of thinking, it leaves open whether the model does: by that
// API it does not then, where its template knows of it. Throws ApiError.
MessagesRequest read_messages_request(std::string_view body, const GenerateOptions &defaults);

}  // namespace bonsai::server
