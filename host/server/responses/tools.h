// The tools in a request of OpenAI's Responses API.
#pragma once

#include "host/server/json_fields.h"
#include "host/server/responses/request.h"

namespace bonsai::server {

// Functions, also within namespaces. What OpenAI's server runs itself, such as a search of the web, is left out: the
// model is not told of it, and neither is the client in `request.settings`. Throws ApiError.
void read_response_tools(const JsonFields &fields, ResponseRequest &request);

}  // namespace bonsai::server
