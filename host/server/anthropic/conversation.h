// The conversation in a request of Anthropic's Messages API, as the library has it.
#pragma once

#include <bonsai/chat.h>

#include <vector>

#include "host/server/json_fields.h"

namespace bonsai::server {

// "system" and "messages", of which there is at least one. Throws ApiError.
std::vector<ChatMessage> read_anthropic_messages(const JsonFields &request);

}  // namespace bonsai::server
