// The conversation in a request, as the library has it.
#pragma once

#include <bonsai/chat.h>

#include <vector>

#include "host/server/json_fields.h"

namespace bonsai::server {

// "messages", at least one. Throws ApiError.
std::vector<ChatMessage> read_messages(const JsonFields &request);

}  // namespace bonsai::server
